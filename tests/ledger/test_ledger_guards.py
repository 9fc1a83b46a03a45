"""Guarded writes: what was decided on an old version is not written, and of many writers one wins."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import TRANSITIONS, Event, State, allows
from prefect_media_jobs.blocks.errors import (
    AttemptNotFoundError,
    StaleAttemptError,
    TransitionRefusedError,
)
from tests.support.attempts import a_request, an_attempt
from tests.support.ledgers import Sql, bring_to, move

ID = "episode-42-attempt-1"
PROGRESS = Change(Event.PROGRESS, State.SUBMITTED, Facts(remote_status="Processing"), 5.0, "Processing")
ROUNDS = 200
THREADS = 8


def test_a_write_raises_the_version_and_adds_one_event(ledger: AttemptLedger) -> None:
    """A guarded write moves the row, raises its version by one and appends one row to its history."""
    before = bring_to(ledger, State.SUBMITTED)
    length = len(ledger.history(ID))
    after = ledger.apply(
        before, Change(Event.FAIL, State.FAILED, Facts(reason="no"), None, "no"), actor="Ada"
    )
    assert (after.state, after.version, after.reason) == (State.FAILED, before.version + 1, "no")
    assert after == ledger.read(ID)
    last = ledger.history(ID)[-1]
    assert (last.event, last.from_state, last.to_state) == (Event.FAIL, State.SUBMITTED, State.FAILED)
    assert (last.version, last.actor, last.detail) == (after.version, "Ada", "no")
    assert len(ledger.history(ID)) == length + 1


def test_an_observation_without_news_adds_no_event(ledger: AttemptLedger) -> None:
    """What is as before updates the row, and the history does not grow."""
    before = bring_to(ledger, State.SUBMITTED)
    length = len(ledger.history(ID))
    change = Change(Event.PROGRESS, State.SUBMITTED, Facts(lookups=7), 5.0, None)
    after = ledger.apply(before, change)
    assert (after.lookups, after.version) == (7, before.version + 1)
    assert len(ledger.history(ID)) == length


def test_the_instant_of_the_last_move_is_kept_by_an_observation(ledger: AttemptLedger) -> None:
    """Asking about a job does not make it younger."""
    before = bring_to(ledger, State.SUBMITTED)
    assert ledger.apply(before, PROGRESS).changed_at == before.changed_at
    assert move(ledger, ledger.read(ID), Event.COMPLETE, State.COMPLETED).changed_at > before.changed_at


@pytest.mark.parametrize("change", [PROGRESS, Change(Event.COMPLETE, State.COMPLETED, detail="done")])
def test_a_stale_version_is_refused(ledger: AttemptLedger, sql: Sql, change: Change) -> None:
    """A decision made on an older version is refused, says what moved, and writes nothing."""
    old = bring_to(ledger, State.SUBMITTED)
    ledger.apply(old, PROGRESS)
    before = sql.dump()
    with pytest.raises(StaleAttemptError, match=rf"version {old.version}\).*version {old.version + 1}\)"):
        ledger.apply(old, change)
    assert sql.dump() == before


def test_a_version_of_the_future_is_refused(ledger: AttemptLedger, sql: Sql) -> None:
    """A version the row does not have yet is no better than an old one."""
    real = bring_to(ledger, State.SUBMITTED)
    before = sql.dump()
    with pytest.raises(StaleAttemptError):
        ledger.apply(an_attempt(version=real.version + 1), PROGRESS)
    assert sql.dump() == before


def test_the_state_is_guarded_beside_the_version(ledger: AttemptLedger, sql: Sql) -> None:
    """A snapshot that claims another state than the row has is refused, though its version is right."""
    real = bring_to(ledger, State.FAILED)
    before = sql.dump()
    with pytest.raises(StaleAttemptError):
        ledger.apply(an_attempt(version=real.version), PROGRESS)
    assert sql.dump() == before


def test_an_unknown_attempt_is_not_written(ledger: AttemptLedger) -> None:
    """A decision about an attempt the ledger does not have is told as such."""
    with pytest.raises(AttemptNotFoundError, match="nobody"):
        ledger.apply(an_attempt(attempt_id="nobody"), PROGRESS)


def test_many_decisions_are_one_commit(ledger: AttemptLedger) -> None:
    """Many decisions are written together, and one whose attempt was moved meanwhile is left out alone."""
    attempts = [bring_to(ledger, State.SUBMITTED, item) for item in "abc"]
    moved = move(ledger, attempts[1], Event.FAIL, State.FAILED)
    done = Change(Event.COMPLETE, State.COMPLETED, Facts(size_bytes=7), 0.0, "done")
    written = ledger.apply_each([(attempt, done) for attempt in attempts])
    assert [after and after.state for after in written] == [State.COMPLETED, None, State.COMPLETED]
    assert written == [ledger.read("a-attempt-1"), None, ledger.read("c-attempt-1")]
    assert ledger.read("b-attempt-1") == moved
    assert ledger.history("a-attempt-1")[-1].at == ledger.history("c-attempt-1")[-1].at


def test_many_decisions_with_a_wrong_one_write_nothing(ledger: AttemptLedger, sql: Sql) -> None:
    """If one of many decisions is no move of the table, none of them is written."""
    good, wrong = bring_to(ledger, State.SUBMITTED, "a"), bring_to(ledger, State.FAILED, "b")
    before = sql.dump()
    with pytest.raises(TransitionRefusedError):
        ledger.apply_each([(good, PROGRESS), (wrong, PROGRESS)])
    assert sql.dump() == before
    assert ledger.apply_each([]) == []


@pytest.mark.parametrize("state", list(State))
def test_only_moves_of_the_table_are_written(ledger: AttemptLedger, sql: Sql, state: State) -> None:
    """Every event and target the table does not have for a state is refused, and nothing is written."""
    attempt = bring_to(ledger, state)
    before = sql.dump()
    moves = [(event, to) for event in Event for to in State if not allows(event, state, to)]
    for event, to in moves:
        if event is Event.ACKNOWLEDGE:
            continue
        with pytest.raises(TransitionRefusedError, match=f"is {state}"):
            ledger.apply(attempt, Change(event, to, detail="x"))
    assert sql.dump() == before


@pytest.mark.parametrize("event", sorted(set(TRANSITIONS) - {Event.RECORD, Event.BEGIN, Event.SUPERSEDE}))
def test_every_move_of_the_table_is_written(ledger: AttemptLedger, event: Event) -> None:
    """Each event is written from each of its states, to each of its targets."""
    moves = [(source, to) for source in State for to in State if allows(event, source, to)]
    facts = Facts(job_id="j-new") if event in {Event.ACKNOWLEDGE, Event.ADOPT} else Facts()
    for number, (source, to) in enumerate(moves):
        attempt = bring_to(ledger, source, f"item-{number}")
        if "job_id" in facts:
            facts["job_id"] = f"j-{number}"
        after = ledger.apply(attempt, Change(event, to, facts, 0.0, "x"))
        assert (after.state, after.version) == (to, attempt.version + 1)
        assert ledger.history(after.attempt_id)[-1].event == event


def test_long_and_dirty_texts_are_made_fit(ledger: AttemptLedger) -> None:
    """Texts from outside are stored bounded and without what a database chokes on."""
    attempt = bring_to(ledger, State.SUBMITTED)
    dirty = "a\x00\ud800" + "x" * 9_000
    facts = Facts(reason=dirty, remote_status=dirty, object_key=dirty)
    after = ledger.apply(attempt, Change(Event.COMPLETE, State.COMPLETED, facts, 0.0, dirty))
    detail = ledger.history(ID)[-1].detail
    for text in (after.reason, after.remote_status, after.object_key, detail):
        assert text is not None
        assert text.startswith("a\ufffd\ufffdx")
        assert len(text) == 2_000


def outcomes_of_race(rounds: int, tries: Callable[[int, int], Any]) -> list[list[object]]:
    """Let all threads try the same at the same time, in every round, and return what each got."""
    gate = threading.Barrier(THREADS)

    def run(thread: int) -> list[object]:
        got: list[object] = []
        for number in range(rounds):
            gate.wait(60)
            try:
                got.append(tries(number, thread))
            except (StaleAttemptError, TransitionRefusedError) as error:
                got.append(error)
        return got

    with ThreadPoolExecutor(THREADS) as pool:
        per_thread = list(pool.map(run, range(THREADS)))
    return [list(got) for got in zip(*per_thread, strict=True)]


@pytest.fixture
def ledgers(ledger: AttemptLedger, ledger_url: str) -> Iterator[list[AttemptLedger]]:
    """The ledger, opened twice, so that threads meet in Python and in the database."""
    second = AttemptLedger(url=SecretStr(ledger_url))
    yield [ledger, second]
    second.close()


def test_one_of_many_senders_wins(ledgers: list[AttemptLedger]) -> None:
    """Of eight threads that begin the same recorded attempt at once, exactly one may send it, every time."""
    asked = [a_request(f"episode-{n}") for n in range(ROUNDS)]
    ids = [attempt.attempt_id for attempt in ledgers[0].record_attempts(asked)]
    rounds = outcomes_of_race(ROUNDS, lambda n, thread: ledgers[thread % 2].begin_attempt(ids[n]))
    wins = [sum(not isinstance(got, Exception) for got in results) for results in rounds]
    assert wins == [1] * ROUNDS
    assert {type(got) for results in rounds for got in results if isinstance(got, Exception)} == {
        TransitionRefusedError
    }
    assert {a.version for a in ledgers[0].list_attempts()} == {2}


def test_one_of_many_writers_wins(ledgers: list[AttemptLedger]) -> None:
    """Of eight threads that decided on the same version, exactly one writes, every time."""
    rounds_of_one_attempt = 50
    attempts = [bring_to(ledgers[0], State.SUBMITTED)]

    def write(number: int, thread: int) -> object:
        after = ledgers[thread % 2].apply(attempts[number], PROGRESS)
        attempts.append(after)
        return after

    rounds = outcomes_of_race(rounds_of_one_attempt, write)
    wins = [sum(not isinstance(got, Exception) for got in results) for results in rounds]
    assert wins == [1] * rounds_of_one_attempt
    assert ledgers[0].read(ID).version == attempts[0].version + rounds_of_one_attempt


def test_many_recorders_make_one_attempt(ledgers: list[AttemptLedger]) -> None:
    """Eight threads that ask for the same thing at once all get the same attempt, every time."""
    rounds = outcomes_of_race(
        25, lambda n, thread: ledgers[thread % 2].record_attempts([a_request(f"e-{n}")])[0].attempt_id
    )
    assert rounds == [[f"e-{n}-attempt-1"] * THREADS for n in range(25)]
    assert len(ledgers[0].list_attempts()) == 25


def test_two_processes_never_send_the_same(ledger: AttemptLedger, ledger_url: str, workers: Any) -> None:
    """Of two processes that begin the same recorded attempts, each attempt is won by exactly one."""
    asked = [a_request(f"episode-{n}") for n in range(100)]
    ids = [attempt.attempt_id for attempt in ledger.record_attempts(asked)]
    for worker in workers[:2]:
        worker.ask("begin", url=ledger_url, attempt_ids=ids)
    won = [worker.answer() for worker in workers[:2]]
    assert sorted(ids) == sorted(won[0] + won[1])
    assert all(len(ledger.history(attempt_id)) == 2 for attempt_id in ids[:5])
