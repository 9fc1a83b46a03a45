"""Job ids: committed at once, set once, of one attempt; and evidence that comes late."""

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.decisions import Change, Facts, decide_submission
from prefect_media_jobs.blocks.domain.outcomes import Accepted, AcceptedBatch
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import (
    AttemptNotFoundError,
    ConflictingJobError,
    InvalidInputError,
    TransitionRefusedError,
)
from tests.support.ledgers import Sql, bring_to, move

ID = "episode-42-attempt-1"
HAS_JOB = [
    State.SUBMITTED,
    State.COMPLETED,
    State.FAILED,
    State.LOST,
    State.DELIVERED,
    State.MISSING,
]


@pytest.mark.parametrize("state", [State.SENDING, State.UNCERTAIN])
def test_the_job_id_is_committed(ledger: AttemptLedger, state: State) -> None:
    """The id the API answered with makes the attempt submitted, also when it was already in doubt."""
    bring_to(ledger, state)
    attempt = ledger.remember_job(ID, "j-1")
    assert (attempt.state, attempt.job_id, attempt.twin) == (State.SUBMITTED, "j-1", False)
    assert attempt == ledger.read(ID)
    last = ledger.history(ID)[-1]
    assert (last.event, last.from_state, last.to_state) == (Event.ACKNOWLEDGE, state, State.SUBMITTED)
    assert last.detail == "job j-1"


def test_an_acknowledgement_ends_the_reason_for_the_doubt(ledger: AttemptLedger) -> None:
    """What was said about a doubt is not shown any more once the id is known."""
    uncertain = move(
        ledger, bring_to(ledger, State.SENDING), Event.DOUBT, State.UNCERTAIN, Facts(reason="time-out")
    )
    assert uncertain.reason == "time-out"
    assert ledger.remember_job(ID, "j-1").reason is None


@pytest.mark.parametrize(
    "job_id",
    ["0012345", " job-1 ", "models/veo/operations/xyz", "../../secrets", "日本", "x" * 5_000, "a?#"],
)
def test_a_job_id_is_stored_as_received(ledger: AttemptLedger, job_id: str) -> None:
    """A job id is opaque text: no character of it is changed, and none is lost."""
    bring_to(ledger, State.SENDING)
    ledger.remember_job(ID, job_id)
    assert ledger.read(ID).job_id == job_id


@pytest.mark.parametrize("state", HAS_JOB)
def test_the_same_id_again_is_fine(ledger: AttemptLedger, state: State) -> None:
    """Remembering the id that is already known changes nothing, in whatever state the job is."""
    attempt = bring_to(ledger, state)
    assert ledger.remember_job(ID, "job-episode-42") == attempt
    assert ledger.read(ID) == attempt


@pytest.mark.parametrize("job_id", ["", "  ", "\n"])
def test_an_empty_id_is_a_value_error(ledger: AttemptLedger, job_id: str) -> None:
    """An empty id is refused as bad input, and the attempt is left as it was."""
    attempt = bring_to(ledger, State.SENDING)
    with pytest.raises(ValueError, match="empty") as caught:
        ledger.remember_job(ID, job_id)
    assert isinstance(caught.value, InvalidInputError)
    assert ledger.read(ID) == attempt


@pytest.mark.parametrize("job_id", [None, 12345, True, 1.0, {"id": "x"}], ids=str)
def test_an_id_that_is_no_text_is_a_value_error(ledger: AttemptLedger, job_id: object) -> None:
    """Only text is a job id; numbers, booleans and objects are refused."""
    attempt = bring_to(ledger, State.SENDING)
    with pytest.raises(ValueError, match="job id"):
        ledger.remember_job(ID, job_id)  # type: ignore[arg-type]
    assert ledger.read(ID) == attempt


@pytest.mark.parametrize("job_id", ["a\x00b", "a\ud800b"], ids=ascii)
def test_an_id_that_cannot_be_stored_is_a_value_error(ledger: AttemptLedger, job_id: str) -> None:
    """An id with a character that no database keeps is refused instead of being changed."""
    attempt = bring_to(ledger, State.SENDING)
    with pytest.raises(ValueError, match="job id"):
        ledger.remember_job(ID, job_id)
    assert ledger.read(ID) == attempt


def test_an_unknown_attempt_has_no_job(ledger: AttemptLedger) -> None:
    """An id for an attempt the ledger does not have is told as such."""
    with pytest.raises(AttemptNotFoundError, match="nobody"):
        ledger.remember_job("nobody", "j-1")


@pytest.mark.parametrize("state", HAS_JOB)
def test_another_id_is_a_conflict_that_is_kept(ledger: AttemptLedger, state: State) -> None:
    """Another id never replaces the known one: it is refused, kept in the history, and flagged as a twin."""
    before = bring_to(ledger, state)
    with pytest.raises(ConflictingJobError, match=r"job-episode-42.*j-2"):
        ledger.remember_job(ID, "j-2")
    attempt = ledger.read(ID)
    assert (attempt.state, attempt.job_id, attempt.twin) == (state, "job-episode-42", True)
    assert attempt.version == before.version + 1
    last = ledger.history(ID)[-1]
    assert (last.event, last.from_state, last.to_state) == (Event.LATE_ACKNOWLEDGE, state, state)
    assert last.detail == "job j-2"


@pytest.mark.parametrize("state", [State.SENDING, State.UNCERTAIN, State.SUPERSEDED, State.ABANDONED])
def test_the_job_of_another_attempt_is_a_conflict(ledger: AttemptLedger, state: State) -> None:
    """A job belongs to one attempt: another cannot have it too, and the message names the owner."""
    bring_to(ledger, State.SUBMITTED, "other")
    before = bring_to(ledger, state)
    with pytest.raises(ConflictingJobError, match=f"job-other belongs to other-attempt-1; attempt {ID}"):
        ledger.remember_job(ID, "job-other")
    assert ledger.read(ID) == before
    assert ledger.read("other-attempt-1").job_id == "job-other"


def test_two_apis_may_use_the_same_id(ledger: AttemptLedger) -> None:
    """A job id is unique within one API only."""
    bring_to(ledger, State.SUBMITTED, "other", api="second-api")
    bring_to(ledger, State.SENDING)
    assert ledger.remember_job(ID, "job-other").job_id == "job-other"


@pytest.mark.parametrize("state", [State.SUPERSEDED, State.ABANDONED])
def test_a_late_answer_is_evidence_of_a_twin(ledger: AttemptLedger, state: State) -> None:
    """An answer for an attempt that was settled meanwhile keeps the state, records the id, flags a twin."""
    before = bring_to(ledger, state)
    attempt = ledger.remember_job(ID, "j-late")
    assert (attempt.state, attempt.job_id, attempt.twin) == (state, "j-late", True)
    assert attempt.version == before.version + 1
    assert attempt == ledger.read(ID)
    last = ledger.history(ID)[-1]
    assert (last.event, last.to_state, last.detail) == (Event.LATE_ACKNOWLEDGE, state, "job j-late")


@pytest.mark.parametrize("state", [State.SUPERSEDED, State.ABANDONED])
def test_a_late_answer_may_be_repeated(ledger: AttemptLedger, state: State) -> None:
    """The same late answer again changes nothing more, and another one is a conflict that is kept."""
    bring_to(ledger, state)
    late = ledger.remember_job(ID, "j-late")
    assert ledger.remember_job(ID, "j-late") == late
    with pytest.raises(ConflictingJobError):
        ledger.remember_job(ID, "j-later")
    assert ledger.read(ID).job_id == "j-late"
    assert [e.detail for e in ledger.history(ID)][-2:] == ["job j-late", "job j-later"]


def test_a_late_batch_is_evidence_too(ledger: AttemptLedger) -> None:
    """A batch answer for an attempt that was given up is stored whole, and flags a twin."""
    given_up = bring_to(ledger, State.ABANDONED)
    attempt = ledger.apply(given_up, decide_submission(AcceptedBatch("b-1", ("j-1", "j-2"))))
    assert (attempt.state, attempt.twin) == (State.ABANDONED, True)
    assert (attempt.batch_id, attempt.batch_job_ids) == ("b-1", ("j-1", "j-2"))


@pytest.mark.parametrize("state", [State.RECORDED, State.REJECTED])
def test_what_was_not_sent_has_no_answer(ledger: AttemptLedger, state: State) -> None:
    """An id for an attempt that was never sent, or refused, is no evidence, so nothing is written."""
    before = bring_to(ledger, state)
    with pytest.raises(TransitionRefusedError, match=f"is {state}"):
        ledger.remember_job(ID, "j-1")
    assert ledger.read(ID) == before


def test_a_batch_answer_is_stored_whole(ledger: AttemptLedger) -> None:
    """A batch answer makes the attempt submitted, with the ids of all its jobs and nothing due."""
    sending = bring_to(ledger, State.SENDING)
    job_ids = tuple(f"j-{n}" for n in range(300))
    ledger.apply(sending, decide_submission(AcceptedBatch("b-1", job_ids)))
    attempt = ledger.read(ID)
    assert (attempt.state, attempt.job_id, attempt.due_at) == (State.SUBMITTED, None, None)
    assert (attempt.batch_id, attempt.batch_job_ids) == ("b-1", job_ids)


def test_a_batch_answer_may_be_repeated(ledger: AttemptLedger) -> None:
    """The same batch again changes nothing; a single job beside it is a conflict that is kept."""
    sending = bring_to(ledger, State.SENDING)
    change = decide_submission(AcceptedBatch("b-1", ("j-1",)))
    first = ledger.apply(sending, change)
    assert ledger.apply(sending, change) == first
    with pytest.raises(ConflictingJobError, match="b-1"):
        ledger.remember_job(ID, "j-1")
    assert ledger.read(ID).twin


def test_an_acknowledgement_ignores_who_moved_the_attempt(ledger: AttemptLedger) -> None:
    """The sender's answer is written though a sweep called the attempt uncertain meanwhile."""
    sending = bring_to(ledger, State.SENDING)
    move(ledger, sending, Event.DOUBT, State.UNCERTAIN)
    attempt = ledger.apply(sending, decide_submission(Accepted("j-1")))
    assert (attempt.state, attempt.job_id) == (State.SUBMITTED, "j-1")


def test_an_acknowledgement_does_not_undo_progress(ledger: AttemptLedger) -> None:
    """An answer that arrives after the job was adopted and completed leaves it completed."""
    sending = bring_to(ledger, State.SENDING)
    uncertain = move(ledger, sending, Event.DOUBT, State.UNCERTAIN)
    adopted = move(ledger, uncertain, Event.ADOPT, State.SUBMITTED, Facts(job_id="j-1"))
    completed = move(ledger, adopted, Event.COMPLETE, State.COMPLETED)
    assert ledger.apply(sending, decide_submission(Accepted("j-1"))) == completed


def test_an_adopted_job_belongs_to_one_attempt(ledger: AttemptLedger, sql: Sql) -> None:
    """Adopting a job that another attempt owns is refused by the database, and nothing is written."""
    bring_to(ledger, State.SUBMITTED, "other")
    uncertain = bring_to(ledger, State.UNCERTAIN)
    before = sql.dump()
    adopt = Change(Event.ADOPT, State.SUBMITTED, Facts(job_id="job-other"), 0.0, "marker")
    with pytest.raises(ConflictingJobError, match="other-attempt-1"):
        ledger.apply(uncertain, adopt)
    assert sql.dump() == before


def test_a_lease_does_not_stop_an_acknowledgement(ledger: AttemptLedger, sql: Sql) -> None:
    """The answer of the sender is written though another worker holds the attempt."""
    bring_to(ledger, State.UNCERTAIN)
    (held,) = ledger.claim_due(["reconcile"])
    attempt = ledger.remember_job(ID, "j-1")
    assert (attempt.job_id, attempt.leased_by) == ("j-1", None)
    assert attempt.version == held.version + 1
    assert sql.run("SELECT count(*) FROM attempt") == [(1,)]
