"""A private Prefect server and the shipped deployments on it, for all tests of this folder."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.deployments.private_prefect import (
    SERVER_LIMIT_S,
    PrivatePrefect,
    deploy_all,
    free_port,
    is_up,
    running,
    until,
)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivatePrefect]:
    """A server that nobody else uses; its start takes about half a minute."""
    folder = tmp_path_factory.mktemp("private-prefect")
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    ours = ("PREFECT_", "MEDIA_JOBS_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env = kept | {
        "PREFECT_HOME": str(folder / "home"),
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_UI_ENABLED": "false",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
    }
    command = [sys.executable, "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with running(command, env, folder, folder / "server.log") as process:
        until(lambda: is_up(url), SERVER_LIMIT_S, process)
        yield PrivatePrefect(url, env, folder)


@pytest.fixture(scope="session")
def work_pool(server: PrivatePrefect) -> str:
    """A pool of process workers."""
    made = server.run("prefect", "work-pool", "create", "media", "--type", "process")
    assert made.returncode == 0, made.stderr
    return "media"


@pytest.fixture(scope="session")
def deployed(server: PrivatePrefect, work_pool: str) -> dict[str, dict[str, Any]]:
    """The shipped deployments by name, as the server tells them right after they were deployed."""
    assert work_pool
    return deploy_all(server)
