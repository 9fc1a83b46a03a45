"""A disk that is full: before the request, after its answer, and what stays readable."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from prefect.settings import PREFECT_HOME, temporary_settings
from pydantic import SecretStr

from prefect_media_jobs.blocks.domain.outcomes import Accepted
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import LedgerUnavailableError
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.flows import steps
from tests.support.attempts import a_request

LONG_ID = "job-" + "x" * 200_000
"""An id that needs many new pages, so that a full disk cannot take it."""


class Disk:
    """A disk under every SQLite connection of this process that can be filled up."""

    def __init__(self) -> None:
        self.full = False

    def limit(self, connection: Any, *_: object) -> None:
        """Let the file grow no further while the disk is full (SQLite cannot go below what it has)."""
        connection.execute(f"PRAGMA max_page_count={1 if self.full else 1_000_000_000}").close()


@pytest.fixture
def disk() -> Iterator[Disk]:
    """The disk, with room."""
    disk = Disk()
    sa.event.listen(sa.pool.Pool, "checkout", disk.limit)
    yield disk
    sa.event.remove(sa.pool.Pool, "checkout", disk.limit)


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AttemptLedger]:
    """A ledger on that disk, whose writers lose their patience at once."""
    monkeypatch.setattr(steps, "WRITE_PATIENCE_S", 0.0)
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        ledger = AttemptLedger(url=SecretStr(f"sqlite:///{tmp_path / 'ledger.db'}"))
        yield ledger
        ledger.close()


class FillingApi:
    """A media API while whose answer is on its way the disk fills up."""

    width, send_window_s = 1, 60.0

    def __init__(self, disk: Disk) -> None:
        self.disk = disk

    def submit(self, *_: object) -> Accepted:
        """Accept the job."""
        self.disk.full = True
        return Accepted(LONG_ID)


def test_nothing_is_recorded_on_a_full_disk(ledger: AttemptLedger, disk: Disk) -> None:
    """What does not fit on the disk is not half recorded, and the error says to make room."""
    ledger.record_attempts([a_request("a")])
    disk.full = True
    with pytest.raises(LedgerUnavailableError, match="make room on the disk"):
        ledger.record_attempts([a_request(f"item-{number}") for number in range(2000)])
    disk.full = False
    assert 1 == ledger.summary().total


def test_a_full_ledger_stays_readable(ledger: AttemptLedger, disk: Disk) -> None:
    """What was recorded before the disk was full can still be read."""
    ledger.record_attempts([a_request("a")])
    disk.full = True
    assert ["a-attempt-1"] == [action.attempt_id for action in ledger.recovery_plan()]


def test_an_answer_that_does_not_fit_is_kept_beside_the_ledger(ledger: AttemptLedger, disk: Disk) -> None:
    """When the disk fills up before the answer, the id is kept in a file and written once there is room."""
    (attempt,) = ledger.record_attempts([a_request("a")])
    api: Any = FillingApi(disk)
    with pytest.raises(LedgerUnavailableError, match="is kept at"):
        steps.submit(ledger, api, attempt.attempt_id)
    assert State.SENDING is ledger.read(attempt.attempt_id).state
    disk.full = False
    ledger.take_kept_answers()
    after = ledger.read(attempt.attempt_id)
    assert (State.SUBMITTED, LONG_ID) == (after.state, after.job_id)
