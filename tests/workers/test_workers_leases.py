"""Many processes share out the work: nothing twice in a lease, nothing forgotten, nothing stale written."""

import random
import signal
import threading
from pathlib import Path

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT
from tests.support.filling import fill, long_ago
from tests.support.leases import double_work, looked_up, made_twice, read_log
from tests.support.ledgers import Sql
from tests.support.processes import PROCESSES, Child, children, until
from tests.workers.working import Looking, look_up

on_postgresql = pytest.mark.parametrize("ledger_url", ["postgresql"], indirect=True)
on_sqlite = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)


def share_out(ledger: AttemptLedger, looking: Looking, workers: int, attempts: int) -> None:
    """Let so many workers look up so many attempts, and check that they did so properly."""
    sql = Sql(looking.url)
    fill(sql, State.SUBMITTED, attempts, due_at=long_ago(sql))
    with children(look_up, [[looking, PROCESSES.Barrier(workers)]] * workers) as at_work:
        assert [child.result(600) for child in at_work] == [0] * workers
    lines = read_log(looking.log)
    assert double_work(lines) == []
    assert made_twice(lines) == []
    assert set(looked_up(lines).values()) == {looking.rounds}
    assert len(looked_up(lines)) == attempts
    assert len({line.pid for line in lines}) == workers
    assert ledger.summary().attempts == {State.COMPLETED: attempts}


@on_postgresql
def test_five_workers_share_out_five_hundred_attempts(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Five workers on PostgreSQL look up each of 500 attempts twice, and never two of them at once."""
    share_out(ledger, Looking(ledger_url, tmp_path, lease_s=60, page=10, lookup_s=0.01, rounds=2), 5, 500)


@on_sqlite
def test_four_workers_share_out_six_hundred_attempts(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Four workers on one SQLite file look up each of 600 attempts twice, and never two of them at once."""
    share_out(ledger, Looking(ledger_url, tmp_path, lease_s=60, page=10, lookup_s=0.01, rounds=2), 4, 600)


@pytest.mark.long
@on_postgresql
def test_ten_workers_share_out_five_thousand_attempts(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Ten workers on PostgreSQL look up each of 5,000 attempts twice, and never two of them at once."""
    share_out(ledger, Looking(ledger_url, tmp_path, lease_s=120, page=25, rounds=2), 10, 5_000)


LEASE_S = 0.25


def stop_and_continue(ledger: AttemptLedger, looking: Looking, times: int) -> None:
    """Stop workers past their lease, again and again, and check that nothing stale was written."""
    sql, attempts = Sql(looking.url), 60
    fill(sql, State.SUBMITTED, attempts, due_at=long_ago(sql))
    past = threading.Event()
    with children(look_up, [[looking]] * 4) as at_work:
        until(lambda: looking.log.exists() and len({line.pid for line in read_log(looking.log)}) == 4)
        for number in range(times // 2):
            stopped = at_work[number % 2 :: 2]
            past.wait(random.uniform(0, 0.03))
            for child in stopped:
                child.signal(signal.SIGSTOP)
            past.wait(LEASE_S * 1.3)
            for child in stopped:
                child.signal(signal.SIGCONT)
        looking.enough.touch()
        refused = sum(child.result() for child in at_work)
    lines = read_log(looking.log)
    print(f"\n{times} stops, {refused} stale writes refused, {len(lines)} lines")
    # Stopped in the middle of a page, its holder finds every attempt of it taken over.
    assert refused > times / 2
    assert made_twice(lines) == []
    assert double_work(lines) == []
    assert ledger.summary().attempts == {State.COMPLETED: attempts}
    last = {line.attempt_id: line.version for line in lines if line.word in {"held", "wrote"}}
    assert last == {attempt.attempt_id: attempt.version for attempt in ledger.list_attempts()}
    check_histories(sql)


def check_histories(sql: Sql) -> None:
    """Check that each history has every version once, in order, and ends with the attempt as it is."""
    rows = sql.run("SELECT attempt_id, version, to_state FROM attempt_event ORDER BY event_id")
    histories: dict[str, list[int]] = {}
    for attempt_id, version, _ in rows:
        histories.setdefault(attempt_id, []).append(version)
    assert all(versions == sorted(set(versions)) for versions in histories.values())
    assert {attempt_id: versions[-1] for attempt_id, versions in histories.items()} == dict(
        sql.run("SELECT attempt_id, version FROM attempt")
    )


@pytest.mark.parametrize("ledger_url", ["sqlite", "postgresql"], indirect=True)
def test_a_stopped_worker_writes_nothing_stale(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Workers that are stopped past their lease and continued, forty times, write nothing they lost."""
    looking = Looking(ledger_url, tmp_path, LEASE_S, page=15, lookup_s=0.06, rounds=None)
    stop_and_continue(ledger, looking, 40)


@pytest.mark.long
@on_postgresql
def test_workers_stopped_five_hundred_times_write_nothing_stale(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Workers that are stopped past their lease and continued, 500 times, write nothing they lost."""
    looking = Looking(ledger_url, tmp_path, LEASE_S, page=15, lookup_s=0.06, rounds=None)
    stop_and_continue(ledger, looking, 500)


def kill_at_random(ledger: AttemptLedger, looking: Looking, workers: int, attempts: int) -> None:
    """Kill workers for as long as there is work, starting another for each, and check what is left."""
    sql, pause = Sql(looking.url), threading.Event()
    fill(sql, State.SUBMITTED, attempts, due_at=long_ago(sql))
    at_work = [Child(look_up, looking) for _ in range(workers)]
    kills = 0
    try:
        while ledger.summary().attempts.get(State.SUBMITTED):
            pause.wait(random.uniform(0.05, 0.25))
            chosen = random.randrange(workers)
            kills += not at_work[chosen].has_ended()
            at_work[chosen].kill()
            at_work[chosen] = Child(look_up, looking)
    finally:
        for child in at_work:
            child.kill()
    lines = read_log(looking.log)
    print(f"\n{kills} workers killed")
    assert kills >= 5
    assert double_work(lines) == []
    assert made_twice(lines) == []
    assert ledger.summary().attempts == {State.COMPLETED: attempts}
    assert set(looked_up(lines)) == {attempt.attempt_id for attempt in ledger.list_attempts()}
    check_histories(sql)


@pytest.mark.parametrize("ledger_url", ["sqlite", "postgresql"], indirect=True)
def test_workers_killed_for_the_whole_run_forget_nothing(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Workers killed at random while there is work leave nothing undone, and do nothing twice in a lease."""
    looking = Looking(ledger_url, tmp_path, lease_s=0.3, page=8, lookup_s=0.05, rounds=2)
    kill_at_random(ledger, looking, 4, 200)


@pytest.mark.long
@on_postgresql
def test_ten_workers_killed_for_the_whole_run_forget_nothing(
    ledger: AttemptLedger, ledger_url: str, tmp_path: Path
) -> None:
    """Ten workers killed at random while 5,000 attempts are looked up leave nothing undone."""
    looking = Looking(ledger_url, tmp_path, lease_s=1.0, page=25, lookup_s=0.05, rounds=2)
    kill_at_random(ledger, looking, 10, 5_000)


@on_postgresql
def test_a_worker_in_the_middle_of_a_commit_holds_up_nobody(ledger: AttemptLedger, ledger_url: str) -> None:
    """While one worker holds rows in an open transaction, another claims the rest without waiting."""
    sql = Sql(ledger_url)
    fill(sql, State.SUBMITTED, 20, due_at=long_ago(sql))
    with sql.engine.begin() as connection:
        picked = ATTEMPT.select().limit(5).with_for_update()
        held = {row.attempt_id for row in connection.execute(picked)}
        given = {attempt.attempt_id for attempt in ledger.claim_due(["lookup"], limit=50)}
    assert (5, 15) == (len(held), len(given))
    assert not held & given
