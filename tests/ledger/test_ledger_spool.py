"""Answers in hand while the ledger is away."""

import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from prefect.settings import PREFECT_HOME, temporary_settings
from pydantic import Field

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import decide_submission
from prefect_media_jobs.blocks.domain.outcomes import (
    Accepted,
    AcceptedBatch,
    CouldNotAsk,
    FindOutcome,
    InspectOutcome,
    LookupOutcome,
    SubmitOutcome,
)
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import LedgerUnavailableError
from prefect_media_jobs.blocks.ledger import AttemptLedger, database
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.flows import steps
from tests.support.attempts import a_request


class BlockingApi(MediaApi):
    """Answers, and from then on another process holds the ledger's write lock."""

    path: str
    answered: list[str] = Field(default_factory=list)

    @property
    def width(self) -> int:
        return 1

    @property
    def send_window_s(self) -> float:
        return 60.0

    def check(self) -> None:
        """Do nothing."""

    def submit(self, attempt: Attempt, may_send: Callable[[], bool]) -> SubmitOutcome:
        assert may_send()
        hold(self.path)
        self.answered.append(attempt.attempt_id)
        return Accepted("job-1")

    def look_up(self, job_id: str) -> LookupOutcome:
        return CouldNotAsk(job_id)

    def find(self, since: datetime) -> FindOutcome:
        return CouldNotAsk(str(since))

    def open_result(self, job_id: str, size_bytes: int | None) -> InspectOutcome:
        return CouldNotAsk(f"{job_id} {size_bytes}")

    def close(self) -> None:
        """Do nothing."""


HELD: list[sqlite3.Connection] = []


def hold(path: str) -> None:
    """Take the write lock and keep it."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    HELD.append(connection)


def let_go() -> None:
    """Give the write lock back."""
    while HELD:
        connection = HELD.pop()
        connection.execute("ROLLBACK")
        connection.close()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger file whose writers lose their patience at once, and a Prefect home beside it."""
    monkeypatch.setattr(database, "BUSY_S", 0.05)
    monkeypatch.setattr(steps, "WRITE_PATIENCE_S", 0.0)
    return str(tmp_path / "ledger.db")


def test_an_answer_the_ledger_cannot_take_is_kept_and_written_by_the_next_sweep(
    path: str, tmp_path: Path
) -> None:
    """A job id that cannot be written goes to a file beside the worker, and from there into the ledger."""
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        ledger = AttemptLedger(url=f"sqlite:///{path}")
        (attempt,) = ledger.record_attempts([a_request("a")])
        try:
            with pytest.raises(LedgerUnavailableError, match=r"is kept at .*a-attempt-1\.json"):
                steps.submit(ledger, BlockingApi(path=path), attempt.attempt_id)
        finally:
            let_go()
        assert State.SENDING is ledger.read("a-attempt-1").state
        assert ["The answer kept for a-attempt-1 is in the ledger now."] == ledger.take_kept_answers()
        after = ledger.read("a-attempt-1")
        assert (State.SUBMITTED, "job-1") == (after.state, after.job_id)
        assert [] == ledger.take_kept_answers()
        ledger.close()


def test_nothing_is_sent_while_the_ledger_cannot_be_written(path: str) -> None:
    """When the intent cannot be committed, no request leaves."""
    ledger, api = AttemptLedger(url=f"sqlite:///{path}"), BlockingApi(path=path, answered=[])
    (attempt,) = ledger.record_attempts([a_request("a")])
    hold(path)
    try:
        with pytest.raises(LedgerUnavailableError):
            steps.submit(ledger, api, attempt.attempt_id)
    finally:
        let_go()
    assert [] == api.answered
    assert State.RECORDED is ledger.read(attempt.attempt_id).state
    ledger.close()


def test_a_kept_answer_that_contradicts_the_ledger_is_set_aside(path: str, tmp_path: Path) -> None:
    """A kept answer that the ledger refuses stays in a file for a person, and its id in the history."""
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        ledger = AttemptLedger(url=f"sqlite:///{path}")
        attempt = ledger.begin_attempt(a_request("a"))
        kept = ledger.keep_answer(attempt, decide_submission(Accepted("job-2")))
        ledger.remember_job(attempt.attempt_id, "job-1")
        (told,) = ledger.take_kept_answers()
        assert "belongs to job job-1" in told
        assert (False, True) == (kept.exists(), kept.with_suffix(".refused").exists())
        assert ledger.history(attempt.attempt_id)[-1].event == "late_acknowledge"
        ledger.close()


def test_a_batch_is_kept_whole(path: str, tmp_path: Path) -> None:
    """The ids of a batch answer survive the way through a file."""
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        ledger = AttemptLedger(url=f"sqlite:///{path}")
        attempt = ledger.begin_attempt(a_request("a"))
        ledger.keep_answer(attempt, decide_submission(AcceptedBatch("b", ("j1", "j2"))))
        ledger.take_kept_answers()
        assert ("b", ("j1", "j2")) == (
            ledger.read(attempt.attempt_id).batch_id,
            ledger.read(attempt.attempt_id).batch_job_ids,
        )
        ledger.close()


def test_a_kept_answer_is_readable_by_its_owner_alone(path: str, tmp_path: Path) -> None:
    """The file of a kept answer has mode 0600."""
    with temporary_settings({PREFECT_HOME: tmp_path / "home"}):
        ledger = AttemptLedger(url=f"sqlite:///{path}")
        kept = ledger.keep_answer(ledger.begin_attempt(a_request("a")), decide_submission(Accepted("job-1")))
        assert 0o600 == kept.stat().st_mode & 0o777
        ledger.close()
