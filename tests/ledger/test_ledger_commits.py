"""PostgreSQL: the answer to a commit is lost. The ledger reads back what became of it, and never guesses."""

import contextlib
from collections.abc import Iterator
from datetime import timedelta

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.handoff import HandoffState, decide_handoff
from prefect_media_jobs.blocks.domain.outcomes import Taken
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import (
    ConflictingJobError,
    LedgerError,
    LiveAttemptError,
    StaleAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.ledger import schema
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to, move
from tests.support.postgres import Databases
from tests.support.severing import Moment, Severing

ID = "episode-42-attempt-1"
at_both_moments = pytest.mark.parametrize("moment", ["before", "after"])


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon."""
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.PAUSE_S", 0.02, raising=False)


@pytest.fixture
def cable(postgres_url: str) -> Iterator[Severing]:
    """The way to the ledger's database that can be cut."""
    with Severing(postgres_url) as cable:
        yield cable


@pytest.fixture
def ledger(cable: Severing) -> Iterator[AttemptLedger]:
    """A ledger that is reached over the cable."""
    ledger = AttemptLedger(url=SecretStr(cable.url))
    ledger.check()
    yield ledger
    ledger.close()


@pytest.fixture
def other(postgres_url: str) -> Iterator[AttemptLedger]:
    """The same ledger, as another worker has it."""
    ledger = AttemptLedger(url=SecretStr(postgres_url))
    yield ledger
    ledger.close()


def progress(status: str, lookups: int = 1) -> Change:
    """Return what a look-up says."""
    facts = Facts(remote_status=status, lookups=lookups)
    return Change(Event.PROGRESS, State.SUBMITTED, facts, 0.0, status)


def events(ledger: AttemptLedger, attempt_id: str = ID) -> list[str]:
    """Return the events in an attempt's history."""
    return [event.event for event in ledger.history(attempt_id)]


@at_both_moments
def test_a_recorded_attempt_is_begun_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """Whether or not its commit was kept, ``begin_attempt`` ends with one begun attempt that is its own."""
    bring_to(other, State.RECORDED)
    cable.cut_next(moment)
    attempt = ledger.begin_attempt(ID)
    assert cable.cuts == 1
    assert (attempt.state, attempt.version) == (State.SENDING, 2)
    assert attempt == other.read(ID)
    assert events(other) == ["record", "begin"]


@at_both_moments
def test_a_request_is_begun_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """Whether or not its commit was kept, a request begun right away has one attempt, which is told."""
    cable.cut_next(moment)
    attempt = ledger.begin_attempt(a_request())
    assert cable.cuts == 1
    assert (attempt.attempt_id, attempt.state, attempt.version) == (ID, State.SENDING, 1)
    assert other.list_attempts() == [attempt]
    assert events(other) == ["begin"]


@at_both_moments
@pytest.mark.parametrize("what", [ID, a_request()], ids=["by id", "by request"])
def test_of_two_that_begin_one_wins(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment, what: object
) -> None:
    """If another worker begins the same while an answer is lost, exactly one of the two is told to send."""
    if what == ID:
        bring_to(other, State.RECORDED)
    won: list[str] = []

    def begin(worker: AttemptLedger, name: str) -> None:
        try:
            worker.begin_attempt(what)  # type: ignore[arg-type]
        except (TransitionRefusedError, LiveAttemptError):
            return
        won.append(name)

    cable.cut_next(moment, lambda: begin(other, "other"))
    begin(ledger, "cut")
    assert won == (["cut"] if moment == "after" else ["other"])
    assert other.read(ID).state is State.SENDING
    assert events(other).count("begin") == 1


@at_both_moments
def test_a_begun_attempt_that_was_judged_meanwhile_is_not_sent(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """Who learns of its own claim only after somebody moved the attempt on is not told that it is sending."""
    bring_to(other, State.RECORDED)

    def meanwhile() -> None:
        if moment == "before":
            other.begin_attempt(ID)
        move(other, other.read(ID), Event.DOUBT, State.UNCERTAIN)

    cable.cut_next(moment, meanwhile)
    try:
        told: State | None = ledger.begin_attempt(ID).state
    except LedgerError:
        told = None
    assert told is not State.SENDING
    assert other.read(ID).state is State.UNCERTAIN


@at_both_moments
def test_a_decision_is_written_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """Whether or not its commit was kept, ``apply`` returns the attempt as it wrote it, once."""
    before = bring_to(other, State.SUBMITTED)
    cable.cut_next(moment)
    after = ledger.apply(before, progress("mine"))
    assert cable.cuts == 1
    assert (after.version, after.remote_status, after.lookups) == (before.version + 1, "mine", 1)
    assert after == other.read(ID)
    assert events(other) == ["record", "begin", "acknowledge", "progress"]


@at_both_moments
def test_an_observation_without_news_is_written_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """The same holds for a write that adds nothing to the history, by which it could be recognised."""
    before = bring_to(other, State.SUBMITTED)
    cable.cut_next(moment)
    after = ledger.apply(before, Change(Event.PROGRESS, State.SUBMITTED, Facts(lookups=7), 5.0, None))
    assert (after.version, after.lookups) == (before.version + 1, 7)
    assert after == other.read(ID)


@pytest.mark.parametrize("detail", [True, False], ids=["with news", "without news"])
def test_the_write_of_another_is_not_taken_for_ones_own(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, *, detail: bool
) -> None:
    """If another thread of the same process wrote first what looks alike, the lost write is refused."""
    before = bring_to(other, State.SUBMITTED)

    def seen(status: str) -> Change:
        facts = Facts(remote_status=status, lookups=1)
        return Change(Event.PROGRESS, State.SUBMITTED, facts, 0.0, status if detail else None)

    cable.cut_next("before", lambda: other.apply(before, seen("theirs")))
    with pytest.raises(StaleAttemptError):
        ledger.apply(before, seen("mine"))
    assert other.read(ID).remote_status == "theirs"


@at_both_moments
def test_an_observation_that_gave_back_a_lease_is_not_taken_from_the_next_holder(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """If another worker claims the attempt while an answer is lost, its claim stands."""
    before = bring_to(other, State.SUBMITTED)
    written = other.apply(before, progress("due"))
    claimed: list[Attempt] = []
    cable.cut_next(moment, lambda: claimed.extend(other.claim_due(["lookup"])))
    with contextlib.suppress(StaleAttemptError):
        ledger.apply(written, progress("mine", 2))
    assert [attempt.attempt_id for attempt in claimed] == [ID]
    assert other.read(ID) == claimed[0]
    assert claimed[0].remote_status == ("mine" if moment == "after" else "due")


@at_both_moments
def test_many_decisions_are_written_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """A page of answers is written once, all of it, whether or not its commit was kept."""
    page = [bring_to(other, State.SUBMITTED, item) for item in "abc"]
    cable.cut_next(moment)
    told = ledger.apply_each([(each, progress(each.item_key)) for each in page])
    stored = [other.read(each.attempt_id) for each in page]
    assert cable.cuts == 1
    assert [each.version + 1 for each in page] == [each.version for each in stored]
    assert ["a", "b", "c"] == [each.remote_status for each in stored]
    assert all(events(other, each.attempt_id)[3:] == ["progress"] for each in page)
    # What is told is what is stored; None would say that another worker moved it first.
    assert told == stored


@at_both_moments
def test_what_is_asked_for_is_recorded_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """Each request has one attempt, whether or not the commit was kept."""
    requests = [a_request(f"e-{number}") for number in range(20)]
    cable.cut_next(moment)
    attempts = ledger.record_attempts(requests)
    assert cable.cuts == 1
    assert [f"e-{number}-attempt-1" for number in range(20)] == [each.attempt_id for each in attempts]
    assert {each.attempt_id for each in attempts} == {each.attempt_id for each in other.list_attempts()}
    assert all(events(other, each.attempt_id) == ["record"] for each in attempts)


@at_both_moments
def test_a_job_id_is_kept_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """The id the API answered with is kept, and is not taken for a second job of the attempt."""
    bring_to(other, State.SENDING)
    cable.cut_next(moment)
    attempt = ledger.remember_job(ID, "j-1")
    assert cable.cuts == 1
    assert (attempt.state, attempt.job_id, attempt.twin) == (State.SUBMITTED, "j-1", False)
    assert attempt == other.read(ID)
    assert events(other) == ["record", "begin", "acknowledge"]


@at_both_moments
def test_another_job_id_is_still_a_conflict(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """A second, different id is refused and kept as evidence once, whether or not the commit was kept."""
    bring_to(other, State.SUBMITTED)
    cable.cut_next(moment)
    with pytest.raises(ConflictingJobError):
        ledger.remember_job(ID, "j-other")
    assert (other.read(ID).job_id, other.read(ID).twin) == ("job-episode-42", True)
    assert set(events(other)[3:]) == {"late_acknowledge"}


@at_both_moments
def test_a_claim_gives_nothing_to_two(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """What is claimed while an answer is lost is held by its claimer, and nobody else gets it."""
    other.record_attempts([a_request(f"e-{number}") for number in range(6)])
    cable.cut_next(moment)
    mine = ledger.claim_due(["submit"], limit=4)
    theirs = other.claim_due(["submit"], limit=99)
    assert cable.cuts == 1
    assert not {each.attempt_id for each in mine} & {each.attempt_id for each in theirs}
    assert [other.read(each.attempt_id) for each in mine + theirs] == mine + theirs
    assert len(mine) == 4 if moment == "before" else len(mine) >= 2


@at_both_moments
def test_a_handoff_is_begun_and_answered_at_most_once(
    ledger: AttemptLedger, other: AttemptLedger, cable: Severing, moment: Moment
) -> None:
    """A handoff whose commit was cut is sent by its claimer or by nobody, and its answer is written once."""
    bring_to(other, State.DELIVERED)
    (ready,) = other.due_handoffs("publisher", 10)
    cable.cut_next(moment)
    try:
        sending = ledger.begin_handoff(ready, timedelta(minutes=1))
    except StaleAttemptError:
        assert moment == "after"
        (sending,) = other.handoffs()
    assert other.handoffs() == [sending]
    assert (sending.state, sending.tries) == (HandoffState.SENDING, 1)
    cable.cut_next(moment)
    try:
        ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=True)))
    except StaleAttemptError:
        assert moment == "after"
    (consumed,) = other.handoffs()
    assert (consumed.state, consumed.tries) == (HandoffState.CONSUMED, 1)


@at_both_moments
def test_a_schema_is_made_once(databases: Databases, moment: Moment) -> None:
    """An upgrade whose commit was cut ends with a ledger that can be used."""
    with databases.bare() as url, Severing(url) as cable:
        ledger = AttemptLedger(url=SecretStr(cable.url))
        cable.cut_next(moment)
        ledger.upgrade()
        assert cable.cuts == 1
        ledger.record_attempts([a_request()])
        ledger.close()
        assert Sql(url).run(f"SELECT * FROM {schema.VERSION_TABLE}") == [(schema.HEAD,)]
