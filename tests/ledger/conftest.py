"""A ledger in a real database, a way past it, and other processes that use it too."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.ledger import ledger_worker
from tests.support.ledger_fixtures import (
    bare_url,
    databases,
    empty_file,
    ledger,
    ledger_url,
    made_url,
    postgres_url,
    sql,
)
from tests.support.processes import PROCESSES

__all__ = [
    "bare_url",
    "databases",
    "empty_file",
    "ledger",
    "ledger_url",
    "made_url",
    "postgres_url",
    "sql",
]
ZONES = ("Asia/Kolkata", "America/New_York", "UTC", "Pacific/Chatham")


class Worker:
    """Another process that uses a ledger as it is told.

    Args:
        zone: Time zone it lives in.
    """

    def __init__(self, zone: str) -> None:
        self._pipe, theirs = PROCESSES.Pipe()
        self._process = PROCESSES.Process(target=ledger_worker.serve, args=(theirs, zone), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, task: str, **values: Any) -> None:
        """Send a task without waiting for its answer."""
        self._pipe.send((task, values))

    def answer(self) -> Any:
        """Wait for the answer to the oldest task that is not answered yet."""
        assert self._pipe.poll(60), "the other process does not answer"
        return self._pipe.recv()

    def stop(self) -> None:
        """End the process and wait for it."""
        self._pipe.close()
        self._process.join(30)
        self._process.close()


@pytest.fixture(scope="session")
def workers() -> Iterator[list[Worker]]:
    """Four other processes, each in its own time zone."""
    workers = [Worker(zone) for zone in ZONES]
    yield workers
    for worker in workers:
        worker.stop()
