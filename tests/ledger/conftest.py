"""A ledger in a real database, a way past it, and other processes that use it too."""

import multiprocessing
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks.ledger import AttemptLedger
from tests.ledger import ledger_worker
from tests.support.ledgers import Sql

PROCESSES = multiprocessing.get_context("forkserver")
"""Children of a process that has imported everything and never touched a ledger: quick to start and clean."""
PROCESSES.set_forkserver_preload([ledger_worker.__name__])
ZONES = ("Asia/Kolkata", "America/New_York", "UTC", "Pacific/Chatham")


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite ledger that is migrated once and copied for each test."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    AttemptLedger(url=SecretStr(f"sqlite:///{path}")).upgrade()
    return path


@pytest.fixture(params=["sqlite"])
def ledger_url(request: pytest.FixtureRequest, empty_file: Path, tmp_path: Path) -> str:
    """URL of an empty ledger database that is at its newest schema; one parameter a kind of database."""
    assert request.param == "sqlite"
    shutil.copy(empty_file, tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[AttemptLedger]:
    """An empty ledger."""
    ledger = AttemptLedger(url=SecretStr(ledger_url))
    yield ledger
    ledger.close()


@pytest.fixture
def sql(ledger_url: str) -> Sql:
    """The ledger's database, past the ledger."""
    return Sql(ledger_url)


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
