"""Leases: work is given out once, and an old holder cannot write."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import StaleAttemptError
from prefect_media_jobs.blocks.ledger import Scope
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to, move

ALL = [Action.SUBMIT, Action.LOOKUP, Action.RECONCILE, Action.INSPECT]
PAST = timedelta(minutes=1)
PROGRESS = Change(Event.PROGRESS, State.SUBMITTED, Facts(remote_status="Processing"), 0.0, "Processing")


def make_due(sql: Sql, *attempt_ids: str) -> None:
    """Make attempts due a minute ago."""
    for attempt_id in attempt_ids:
        sql.set(attempt_id, due_at=datetime.now(UTC) - PAST)


def end_lease(sql: Sql, attempt_id: str) -> None:
    """Let a lease run out."""
    sql.set(attempt_id, leased_until=datetime.now(UTC) - timedelta(seconds=1))


def ids(attempts: list[Any]) -> set[str]:
    """Return which attempts these are."""
    return {attempt.attempt_id for attempt in attempts}


@pytest.mark.parametrize(
    ("action", "states"),
    [
        ("submit", {"recorded"}),
        ("lookup", {"submitted"}),
        ("reconcile", {"sending", "uncertain"}),
        ("inspect", {"completed"}),
        ("handoff", set()),
        ("review", set()),
    ],
)
def test_each_action_has_its_states(ledger: AttemptLedger, sql: Sql, action: str, states: set[str]) -> None:
    """What is given out for an action is in the states the design names for it, and nothing else."""
    for state in State:
        make_due(sql, bring_to(ledger, state, f"in-{state}").attempt_id)
    sql.run("UPDATE attempt SET due_at = NULL WHERE attempt_id = 'in-superseded-attempt-2'")
    assert states == {str(attempt.state) for attempt in ledger.claim_due([action])}


def test_no_action_gives_out_nothing(ledger: AttemptLedger) -> None:
    """Asking for no action at all leases nothing."""
    before = bring_to(ledger, State.RECORDED)
    assert ledger.claim_due([]) == []
    assert ledger.read(before.attempt_id) == before


def test_a_claim_is_a_lease_with_a_new_version(ledger: AttemptLedger) -> None:
    """A claimed attempt has its version raised, its holder named, and an end of the lease."""
    before = bring_to(ledger, State.RECORDED)
    (claimed,) = ledger.claim_due(["submit"], lease=timedelta(seconds=90))
    assert (claimed.version, claimed.state) == (before.version + 1, State.RECORDED)
    assert claimed.leased_by
    assert claimed.leased_until is not None
    assert timedelta(seconds=80) < claimed.leased_until - datetime.now(UTC) <= timedelta(seconds=90)
    assert claimed == ledger.read(claimed.attempt_id)


def test_a_claim_is_no_event(ledger: AttemptLedger) -> None:
    """Leasing is not part of an attempt's history."""
    attempt = bring_to(ledger, State.RECORDED)
    ledger.claim_due(["submit"])
    assert len(ledger.history(attempt.attempt_id)) == 1


def test_a_leased_attempt_is_not_given_out_twice(ledger: AttemptLedger) -> None:
    """As long as the lease lasts, nobody else gets the attempt."""
    bring_to(ledger, State.RECORDED)
    assert len(ledger.claim_due(ALL)) == 1
    assert ledger.claim_due(ALL) == []


def test_an_ended_lease_can_be_claimed_again(ledger: AttemptLedger, sql: Sql) -> None:
    """After the lease ended, another worker gets the attempt, with a further version."""
    bring_to(ledger, State.RECORDED)
    (first,) = ledger.claim_due(ALL)
    end_lease(sql, first.attempt_id)
    (second,) = ledger.claim_due(ALL)
    assert second.version == first.version + 1


def test_a_lease_of_no_time_is_over_at_once(ledger: AttemptLedger) -> None:
    """A lease that has ended by the database's clock does not hold anything."""
    bring_to(ledger, State.RECORDED)
    assert len(ledger.claim_due(ALL, lease=timedelta(0))) == 1
    assert len(ledger.claim_due(ALL)) == 1


def test_an_old_holder_cannot_write(ledger: AttemptLedger, sql: Sql) -> None:
    """A worker that was paused past its lease cannot write what it found out, once another took over."""
    make_due(sql, bring_to(ledger, State.SUBMITTED).attempt_id)
    (paused,) = ledger.claim_due(["lookup"])
    end_lease(sql, paused.attempt_id)
    (other,) = ledger.claim_due(["lookup"])
    with pytest.raises(StaleAttemptError):
        ledger.apply(paused, PROGRESS)
    assert ledger.apply(other, PROGRESS).remote_status == "Processing"


def test_a_snapshot_from_before_the_claim_cannot_write(ledger: AttemptLedger, sql: Sql) -> None:
    """Who read the attempt before somebody claimed it cannot write either."""
    before = bring_to(ledger, State.SUBMITTED)
    make_due(sql, before.attempt_id)
    assert len(ledger.claim_due(["lookup"])) == 1
    with pytest.raises(StaleAttemptError):
        ledger.apply(before, PROGRESS)


def test_a_write_gives_the_lease_back(ledger: AttemptLedger, sql: Sql) -> None:
    """After the holder wrote, the attempt is free and can be claimed when it is due."""
    make_due(sql, bring_to(ledger, State.SUBMITTED).attempt_id)
    (held,) = ledger.claim_due(["lookup"])
    written = ledger.apply(held, PROGRESS)
    assert (written.leased_by, written.leased_until) == (None, None)
    assert len(ledger.claim_due(["lookup"])) == 1


def test_beginning_gives_the_lease_back(ledger: AttemptLedger) -> None:
    """A claimed attempt that is begun is held by its send deadline, not by the lease."""
    bring_to(ledger, State.RECORDED)
    (held,) = ledger.claim_due(["submit"])
    sending = ledger.begin_attempt(held.attempt_id)
    assert (sending.leased_by, sending.leased_until) == (None, None)


def test_what_is_not_due_yet_is_not_given_out(ledger: AttemptLedger, sql: Sql) -> None:
    """An attempt is claimed when its time has come, and not before."""
    attempt = bring_to(ledger, State.RECORDED)
    sql.set(attempt.attempt_id, due_at=datetime.now(UTC) + timedelta(seconds=30))
    assert ledger.claim_due(ALL) == []
    sql.set(attempt.attempt_id, due_at=None)
    assert ledger.claim_due(ALL) == []
    make_due(sql, attempt.attempt_id)
    assert len(ledger.claim_due(ALL)) == 1


def test_sending_is_left_alone_until_its_deadline(ledger: AttemptLedger, sql: Sql) -> None:
    """An attempt that is being sent is reconciled only after its send deadline has passed."""
    sending = bring_to(ledger, State.SENDING)
    assert ledger.claim_due(["reconcile"]) == []
    make_due(sql, sending.attempt_id)
    assert ids(ledger.claim_due(["reconcile"])) == {sending.attempt_id}


def test_a_pass_can_leave_out_what_became_due_later(ledger: AttemptLedger) -> None:
    """A sweep that says until when it began does not chase its own tail."""
    began = ledger.now()
    bring_to(ledger, State.RECORDED)
    assert ledger.claim_due(ALL, due_before=began) == []
    assert len(ledger.claim_due(ALL, due_before=ledger.now())) == 1


def test_the_limit_gives_out_what_is_due_first(ledger: AttemptLedger, sql: Sql) -> None:
    """No more than the limit is claimed, and what has waited longest comes first."""
    attempts = ledger.record_attempts([a_request(f"e-{n}") for n in range(5)])
    for number, attempt in enumerate(attempts):
        sql.set(attempt.attempt_id, due_at=datetime.now(UTC) - timedelta(minutes=number))
    assert ids(ledger.claim_due(ALL, limit=2)) == {"e-4-attempt-1", "e-3-attempt-1"}
    assert ids(ledger.claim_due(ALL, limit=2)) == {"e-2-attempt-1", "e-1-attempt-1"}
    assert ids(ledger.claim_due(ALL, limit=2)) == {"e-0-attempt-1"}


def test_an_old_backlog_is_not_sent(ledger: AttemptLedger, sql: Sql) -> None:
    """What was asked for too long ago is not given out for sending, unless the sweep is told to."""
    attempt = bring_to(ledger, State.RECORDED)
    sql.set(attempt.attempt_id, asked_at=datetime.now(UTC) - timedelta(hours=25))
    assert ledger.claim_due(["submit"]) == []
    assert len(ledger.claim_due(["submit"], send_within=timedelta(hours=26))) == 1


def test_an_old_job_is_still_looked_up(ledger: AttemptLedger, sql: Sql) -> None:
    """The bound on sending does not stop what was bought long ago from being collected."""
    attempt = bring_to(ledger, State.SUBMITTED)
    make_due(sql, attempt.attempt_id)
    sql.set(attempt.attempt_id, asked_at=datetime.now(UTC) - timedelta(days=400))
    assert len(ledger.claim_due(["lookup"])) == 1


def test_asking_again_makes_a_backlog_sendable(ledger: AttemptLedger, sql: Sql) -> None:
    """An old recorded attempt that somebody asks for again is given out again."""
    attempt = bring_to(ledger, State.RECORDED)
    sql.set(attempt.attempt_id, asked_at=datetime.now(UTC) - timedelta(hours=25))
    ledger.record_attempts([a_request()])
    assert len(ledger.claim_due(["submit"])) == 1


def test_a_batch_is_not_looked_up(ledger: AttemptLedger, sql: Sql) -> None:
    """A submitted attempt without a job of its own is not given out."""
    attempt = bring_to(ledger, State.SUBMITTED)
    sql.set(attempt.attempt_id, job_id=None, batch_id="b-1")
    make_due(sql, attempt.attempt_id)
    assert ledger.claim_due(ALL) == []


@pytest.fixture
def mixed(ledger: AttemptLedger) -> AttemptLedger:
    """A ledger with two APIs and two batches."""
    for item, batch_key, api in [("a", "b-1", "x"), ("b", "b-1", "y"), ("c", "b-2", "x"), ("d", None, "x")]:
        bring_to(ledger, State.RECORDED, item, batch_key=batch_key, api=api)
    return ledger


SCOPES = [
    (Scope(), "abcd"),
    (Scope(api="x"), "acd"),
    (Scope(api="unknown"), ""),
    (Scope(batch_key="b-1"), "ab"),
    (Scope(api="x", batch_key="b-1"), "a"),
    (Scope(attempt_ids=[]), ""),
    (Scope(attempt_ids=["b-attempt-1", "nobody", "b-attempt-1"]), "b"),
    (Scope(attempt_ids=["a-attempt-1", "b-attempt-1"], api="y"), "b"),
    (Scope(attempt_ids=[f"other-{n}" for n in range(5_000)] + ["c-attempt-1"]), "c"),
    (Scope(attempt_ids=["a-attempt-1' OR '1'='1", '"]']), ""),
]


@pytest.mark.parametrize(("scope", "items"), SCOPES, ids=range(len(SCOPES)))
def test_a_scope_narrows_what_is_meant(mixed: AttemptLedger, scope: Scope, items: str) -> None:
    """API, batch and list of attempts narrow the same attempts in listing, planning and claiming."""
    expected = {f"{item}-attempt-1" for item in items}
    assert expected == ids(mixed.list_attempts(scope))
    assert expected == ids(mixed.recovery_plan(scope=scope))
    assert expected == ids(mixed.claim_due(ALL, scope=scope))


def test_still_held_tells_what_nobody_wrote(ledger: AttemptLedger, sql: Sql) -> None:
    """Of the claimed attempts, those are still held that nobody has written since, in their order."""
    for item in "abc":
        make_due(sql, bring_to(ledger, State.SUBMITTED, item).attempt_id)
    claimed = ledger.claim_due(["lookup"])
    assert ledger.still_held(claimed) == claimed
    move(ledger, claimed[1], Event.FAIL, State.FAILED)
    assert ledger.still_held(claimed) == [claimed[0], claimed[2]]
    assert ledger.still_held([]) == []


def test_threads_share_out_the_work(ledger: AttemptLedger) -> None:
    """Eight threads that claim at once get every attempt, and none of them twice."""
    expected = {f"e-{n}-attempt-1" for n in range(160)}
    ledger.record_attempts([a_request(f"e-{n}") for n in range(160)])
    gate = threading.Barrier(8)

    def claim(_: int) -> list[str]:
        gate.wait(60)
        got: list[str] = []
        while page := ledger.claim_due(ALL, limit=7):
            got += [attempt.attempt_id for attempt in page]
        return got

    with ThreadPoolExecutor(8) as pool:
        given = [attempt_id for got in pool.map(claim, range(8)) for attempt_id in got]
    assert len(given) == 160
    assert set(given) == expected


def test_processes_share_out_the_work(ledger: AttemptLedger, ledger_url: str, workers: Any) -> None:
    """Four processes in four time zones that claim at once get every attempt, and none of them twice."""
    expected = sorted(f"e-{n}-attempt-1" for n in range(120))
    ledger.record_attempts([a_request(f"e-{n}") for n in range(120)])
    for worker in workers:
        worker.ask("claim", url=ledger_url, limit=5)
    assert expected == sorted(attempt_id for worker in workers for attempt_id in worker.answer())
