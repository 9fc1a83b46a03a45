"""Threads that wait for SQLite's one write turn share commits, and nobody suffers for another."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.decisions import Change
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import StaleAttemptError, TransitionRefusedError
from prefect_media_jobs.blocks.ledger.turns import MOST_TOGETHER, Ticket, Turns
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to, move

WRITERS = 12

sqlite_only = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
"""PostgreSQL has many writers at a time, so nobody waits for a turn there."""


def until(good: Any) -> None:
    """Wait for a condition that another thread brings about."""
    never = threading.Event()
    for _ in range(3_000):
        if good():
            return
        never.wait(0.01)
    raise AssertionError("it did not come about")


@contextmanager
def held_up(ledger: AttemptLedger) -> Iterator[ThreadPoolExecutor]:
    """Let writers pile up behind a lock of another connection until the block is left."""
    other = sqlite3.connect(ledger.place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(WRITERS + 1) as pool:
        first = pool.submit(ledger.check)
        turns = ledger._open()._turns
        assert turns is not None
        until(lambda: turns._taken and not turns._waiting)
        yield pool
        until(lambda: len(turns._waiting) == WRITERS)
        other.execute("COMMIT")
        other.close()
        first.result(30)


def commits_of(ledger: AttemptLedger) -> list[object]:
    """Return a list that grows by one with each commit of the ledger."""
    commits: list[object] = []
    sa.event.listen(ledger._open().engine, "commit", commits.append)
    return commits


@sqlite_only
def test_writers_who_wait_share_a_commit(ledger: AttemptLedger) -> None:
    """What piled up behind a lock is written in one commit, and each caller gets its own result."""
    commits = commits_of(ledger)
    with held_up(ledger) as pool:
        futures = [pool.submit(ledger.record_attempts, [a_request(f"e-{n}")]) for n in range(WRITERS)]
    expected = [f"e-{n}" for n in range(WRITERS)]
    assert expected == [future.result(30)[0].item_key for future in futures]
    assert len(commits) == 2
    assert {attempt.item_key for attempt in ledger.list_attempts()} == set(expected)


@sqlite_only
def test_one_refusal_does_not_take_the_others_along(ledger: AttemptLedger) -> None:
    """Of writers that share a commit, those that are refused get their own error, and the rest is written."""
    stale = bring_to(ledger, State.SUBMITTED, "stale")
    move(ledger, stale, Event.PROGRESS, State.SUBMITTED)
    bring_to(ledger, State.REJECTED, "refused")
    progress = Change(Event.PROGRESS, State.SUBMITTED, detail="x")
    with held_up(ledger) as pool:
        good = [pool.submit(ledger.record_attempts, [a_request(f"e-{n}")]) for n in range(WRITERS - 2)]
        bad: list[Future[Any]] = [
            pool.submit(ledger.apply, stale, progress),
            pool.submit(ledger.begin_attempt, "refused-attempt-1"),
        ]
    assert [future.result(30)[0].version for future in good] == [1] * (WRITERS - 2)
    assert [type(future.exception(30)) for future in bad] == [StaleAttemptError, TransitionRefusedError]
    assert len(ledger.list_attempts()) == WRITERS
    assert len(ledger.history("stale-attempt-1")) == 4


@sqlite_only
def test_one_of_those_who_share_a_commit_wins(ledger: AttemptLedger) -> None:
    """Writers of one attempt that end up in the same commit still have one winner."""
    bring_to(ledger, State.RECORDED)
    with held_up(ledger) as pool:
        futures = [pool.submit(ledger.begin_attempt, "episode-42-attempt-1") for _ in range(WRITERS)]
    errors = [type(future.exception(30)) for future in futures]
    assert errors.count(type(None)) == 1
    assert errors.count(TransitionRefusedError) == WRITERS - 1
    assert ledger.read("episode-42-attempt-1").version == 2


@sqlite_only
def test_each_writer_is_named_in_the_history(ledger: AttemptLedger) -> None:
    """Writers that share a commit are each named for their own row."""
    attempts = [bring_to(ledger, State.SUBMITTED, f"e-{n}") for n in range(WRITERS)]
    progress = Change(Event.PROGRESS, State.SUBMITTED, detail="x")
    with held_up(ledger) as pool:
        for number, attempt in enumerate(attempts):
            pool.submit(ledger.apply, attempt, progress, actor=f"person {number}")
    actors = [ledger.history(attempt.attempt_id)[-1].actor for attempt in attempts]
    assert actors == [f"person {number}" for number in range(WRITERS)]


def test_nobody_goes_on_before_its_rows_are_durable(ledger: AttemptLedger, sql: Sql) -> None:
    """When a writer gets its result, another connection can read its row."""
    with ThreadPoolExecutor(WRITERS) as pool:

        def write(number: int) -> list[tuple[Any, ...]]:
            (attempt,) = ledger.record_attempts([a_request(f"e-{number}")])
            return sql.run("SELECT state FROM attempt WHERE attempt_id = :id", id=attempt.attempt_id)

        assert list(pool.map(write, range(60))) == [[("recorded",)]] * 60


def test_a_commit_that_fails_is_told_to_all_it_was_for(tmp_path: Path) -> None:
    """When the database itself refuses, every writer that waited gets an error, and nothing is kept."""
    ledger = AttemptLedger(url=SecretStr(f"sqlite:///{tmp_path / 'ledger.db'}"))
    ledger.check()
    other = sqlite3.connect(ledger.place, isolation_level=None)
    other.execute("CREATE TRIGGER full BEFORE INSERT ON attempt BEGIN SELECT RAISE(ABORT, 'full'); END")
    other.close()
    with held_up(ledger) as pool:
        futures = [pool.submit(ledger.record_attempts, [a_request(f"e-{n}")]) for n in range(WRITERS)]
    assert all(future.exception(30) is not None for future in futures)
    assert ledger.list_attempts() == []
    ledger.close()


class Interrupted(BaseException):
    """What a thread is stopped with."""


def test_an_interrupted_writer_does_not_stop_the_others() -> None:
    """A writer that is interrupted while it writes for others passes the turn on, and their work is done."""
    gate = threading.Barrier(2)
    done: list[object] = []

    def commit(tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            ticket.result = ticket.work(None)

    def hold(_: object) -> None:
        gate.wait(30)
        gate.wait(30)

    def stop(_: object) -> None:
        raise Interrupted

    turns = Turns(commit)
    with ThreadPoolExecutor(9) as pool:
        holder = pool.submit(turns.run, hold)
        gate.wait(30)
        stopped = pool.submit(turns.run, stop)
        until(lambda: len(turns._waiting) == 1)
        others = [pool.submit(turns.run, done.append) for _ in range(7)]
        until(lambda: len(turns._waiting) == 8)
        gate.wait(30)
        assert holder.result(30) is None
        assert isinstance(stopped.exception(30), Interrupted)
        assert [future.result(30) for future in others] == [None] * 7
    assert done == [None] * 7
    assert not turns._taken
    assert turns.run(lambda _: "after") == "after"


def test_no_more_than_so_many_share_a_commit() -> None:
    """A crowd of writers is served in several commits, each in order, none of them too large."""
    sizes: list[int] = []
    order: list[int] = []
    waiting: list[int] = []
    gate = threading.Barrier(2)

    def commit(tickets: Sequence[Ticket]) -> None:
        sizes.append(len(tickets))
        for ticket in tickets:
            ticket.work(None)

    def hold(_: object) -> None:
        gate.wait(30)
        gate.wait(30)

    def note(number: int, _: object) -> None:
        order.append(number)

    turns = Turns(commit)
    crowd = MOST_TOGETHER + 10
    with ThreadPoolExecutor(crowd + 1) as pool:
        pool.submit(turns.run, hold)
        gate.wait(30)
        for number in range(crowd):
            pool.submit(turns.run, partial(note, number))
            until(lambda: len(turns._waiting) > len(waiting))
            waiting.append(number)
        gate.wait(30)
    assert sizes == [1, MOST_TOGETHER, 10]
    assert order == list(range(crowd))


@pytest.mark.parametrize("error", [ValueError("x"), StaleAttemptError("x")], ids=["other", "ours"])
def test_an_error_reaches_who_waits_for_it(error: Exception) -> None:
    """What a piece of work raises is raised where it was asked for."""

    def commit(tickets: Sequence[Ticket]) -> None:
        tickets[0].work(None)

    def work(_: object) -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        Turns(commit).run(work)
    assert caught.value is error
