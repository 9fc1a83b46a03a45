"""The deployments of ``prefect.yaml`` in one process, without a work pool: ``python -m`` this module.

Both make deployments of the same names, so use one or the other against one Prefect server.
"""

import importlib
from pathlib import Path
from typing import Any

import yaml
from prefect import Flow, serve
from prefect.client.schemas.objects import ConcurrencyLimitConfig
from prefect.deployments.runner import RunnerDeployment
from prefect.schedules import Schedule
from prefect.types.entrypoint import EntrypointType

SHIPPED = Path(__file__).with_name("prefect.yaml")
"""The one place that names the deployments, their schedules and their limits."""


def deployments(file: Path = SHIPPED) -> list[RunnerDeployment]:
    """Return what a ``prefect.yaml`` describes, ready to be served."""
    described = yaml.safe_load(file.read_text(encoding="utf-8"))
    return [_deployment(entry) for entry in described["deployments"]]


def _deployment(entry: dict[str, Any]) -> RunnerDeployment:
    limit = entry.get("concurrency_limit")
    made = _flow(entry["entrypoint"]).to_deployment(
        entry["name"],
        description=entry["description"],
        tags=entry["tags"],
        parameters=dict(entry["parameters"]),
        enforce_parameter_schema=entry["enforce_parameter_schema"],
        concurrency_limit=None if limit is None else ConcurrencyLimitConfig(**limit),
        schedules=[Schedule(**schedule) for schedule in entry.get("schedules", ())],
        # The default is the path of a file, which is another one after every installation.
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    if not isinstance(made, RunnerDeployment):
        raise TypeError("Deployments are made outside of an event loop.")
    return made


def _flow(entrypoint: str) -> Flow[Any, Any]:
    module, _, name = entrypoint.rpartition(".")
    found = getattr(importlib.import_module(module), name)
    if not isinstance(found, Flow):
        raise TypeError(f"{entrypoint} is no flow.")
    return found


if __name__ == "__main__":
    serve(*deployments())
