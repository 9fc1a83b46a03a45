"""Names of flow and task runs: what they do, how many they cover, never a secret."""

from collections.abc import Callable
from typing import Any

from prefect.runtime import flow_run, task_run


def page_name(verb: str, things: str = "attempts") -> Callable[[], str]:
    """Return a namer for task runs that take a ``page``."""

    def name() -> str:
        return f"{verb} {len(task_run.parameters['page'])} {things}"

    return name


def requests_name(verb: str) -> Callable[[], str]:
    """Return a namer for flow runs that take ``requests``."""

    def name() -> str:
        parameters: dict[str, Any] = flow_run.parameters
        requests, batch_key = parameters.get("requests") or [], parameters.get("batch_key")
        return f"{verb} {len(requests)} items" + (f" of {batch_key}" if batch_key else "")

    return name
