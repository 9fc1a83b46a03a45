"""Senders that are stopped, and senders that want the same at the same moment: each thing is bought once."""

import signal
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import Grounds, State
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT
from prefect_media_jobs.flows import steps
from tests.support.attempts import a_request
from tests.support.counting_api import CountingApi
from tests.support.ledgers import Sql
from tests.support.postgres import Databases
from tests.support.processes import PROCESSES, children, until
from tests.workers.working import buy, send_after_a_pause

WINDOW = {"connect_timeout_s": 0.2, "submit_timeout_s": 0.3, "send_margin_s": 0.1}
ID = "episode-42-attempt-1"


@pytest.fixture
def api() -> Iterator[CountingApi]:
    """An API that counts what is bought."""
    with CountingApi() as api:
        yield api


def replace(sql: Sql, attempt_id: str) -> str:
    """Replace an attempt by a person's decision, as the database has it afterwards; return the new one."""
    new, columns = f"{attempt_id}-again", [column for column in ATTEMPT.c if column.name != "attempt_id"]
    changed: dict[str, Any] = {
        "state": State.RECORDED,
        "version": 1,
        "grounds": Grounds.OPERATOR_OVERRIDE,
        "replaces": attempt_id,
        "superseded_by": None,
        "closed_from": None,
        "sent_at": None,
        "send_deadline": None,
    }
    values = [
        sa.literal(changed[column.name], column.type) if column.name in changed else column
        for column in columns
    ]
    copied = sa.select(sa.literal(new), *values).where(ATTEMPT.c.attempt_id == attempt_id)
    with sql.engine.begin() as connection:
        connection.execute(sa.text("PRAGMA defer_foreign_keys=ON") if sql.sqlite else sa.text("SELECT 1"))
        connection.execute(
            sa.update(ATTEMPT)
            .where(ATTEMPT.c.attempt_id == attempt_id, ATTEMPT.c.state == State.UNCERTAIN)
            .values(
                state=State.SUPERSEDED,
                superseded_by=new,
                closed_from=State.UNCERTAIN,
                version=ATTEMPT.c.version + 1,
                due_at=None,
            )
        )
        copied = copied.where(ATTEMPT.c.state == State.SUPERSEDED)
        connection.execute(sa.insert(ATTEMPT).from_select(["attempt_id", *columns], copied))
    return new


@pytest.mark.parametrize("replaced", [True, False], ids=["replaced", "in doubt"])
def test_a_sender_that_was_stopped_before_its_post_sends_nothing(
    ledger: AttemptLedger, ledger_url: str, sql: Sql, api: CountingApi, tmp_path: Path, *, replaced: bool
) -> None:
    """A sender stopped between its commit and its POST, until its attempt was given up, sends nothing."""
    ledger.record_attempts([a_request()])
    with (
        closing(TornadoApi(**api.fields(**WINDOW))) as shop,
        children(send_after_a_pause, [[ledger_url, api.fields(**WINDOW), ID, tmp_path / "begun"]]) as senders,
    ):
        (stopped,) = senders
        until((tmp_path / "begun").exists)
        overdue: list[Attempt] = []

        def is_overdue() -> bool:
            overdue.extend(ledger.claim_due(["reconcile"]))
            return bool(overdue)

        until(is_overdue)
        doubted = steps.doubt_overdue(ledger, overdue[0])
        assert doubted is not None
        expected = {}
        if replaced:
            new = replace(sql, ID)
            assert steps.submit(ledger, shop, new).state is State.SUBMITTED
            expected = {new: 1}
        stopped.signal(signal.SIGCONT)
        told = stopped.result()
    assert expected == api.posts
    assert ledger.read(ID).state is (State.SUPERSEDED if replaced else State.UNCERTAIN)
    assert told is None


def test_a_sender_that_is_stopped_within_its_window_sends(
    ledger: AttemptLedger, ledger_url: str, api: CountingApi, tmp_path: Path
) -> None:
    """A sender that is continued before its deadline sends once, so what stops it is the deadline."""
    ledger.record_attempts([a_request()])
    with children(send_after_a_pause, [[ledger_url, api.fields(), ID, tmp_path / "begun"]]) as senders:
        (stopped,) = senders
        until((tmp_path / "begun").exists)

        def goes_on() -> bool:
            # The signal may come before the process has stopped itself, and is then lost.
            stopped.signal(signal.SIGCONT)
            return stopped.has_ended()

        until(goes_on)
        assert stopped.result() == State.SUBMITTED
    assert api.posts == {ID: 1}


def test_two_processes_that_submit_the_same_buy_it_once(
    ledger: AttemptLedger, ledger_url: str, api: CountingApi
) -> None:
    """Two processes that submit the same 200 items at the same moment buy 200 jobs."""
    items = [f"episode-{number}" for number in range(200)]
    barrier = PROCESSES.Barrier(2)
    with children(buy, [[ledger_url, api.fields(), items, barrier]] * 2) as buyers:
        for child in buyers:
            child.result()
    attempts = ledger.list_attempts()
    assert sorted(items) == sorted(attempt.item_key for attempt in attempts)
    assert [(each.state, each.reason) for each in attempts if each.state is not State.SUBMITTED] == []
    assert api.posts == {attempt.attempt_id: 1 for attempt in attempts}
    assert [f"job-{a.attempt_id}-1" for a in attempts] == [a.job_id for a in attempts]


def test_no_transaction_is_open_while_the_api_takes_its_time(
    postgres_url: str, databases: Databases, api: CountingApi
) -> None:
    """While the API holds its answers back, no connection to the ledger is in a transaction."""
    name = sa.make_url(postgres_url).database
    # Where a transaction may be idle for a moment only, one that waits for the API is ended.
    databases.run(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '50ms'")
    api.answering.clear()
    items = ["a", "b", "c"]
    with children(buy, [[postgres_url, api.fields(), items, PROCESSES.Barrier(1)]]) as buyers:
        until(lambda: api.posts.total() == len(items))
        query = f"SELECT DISTINCT state FROM pg_stat_activity WHERE datname = '{name}'"
        until(lambda: databases.run(query) == [("idle",)])
        threading.Event().wait(0.2)
        assert databases.run(query) == [("idle",)]
        api.answering.set()
        jobs = buyers[0].result()
    databases.run(f"ALTER DATABASE {name} RESET idle_in_transaction_session_timeout")
    assert {item: f"job-{item}-attempt-1-1" for item in items} == jobs
