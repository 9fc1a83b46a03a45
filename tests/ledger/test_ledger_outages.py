"""PostgreSQL: a pooler, ended connections, a restart, a time of being read-only, texts it cannot store."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.handoff import decide_handoff
from prefect_media_jobs.blocks.domain.outcomes import Taken, TakenUnknown
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import LedgerUnavailableError
from prefect_media_jobs.flows import steps
from tests.support.attempts import a_request
from tests.support.counting_api import CountingApi
from tests.support.ledgers import Sql, bring_to, move
from tests.support.pooling import TransactionPooler
from tests.support.postgres import Databases, WheelServer
from tests.support.processes import until

ID = "episode-42-attempt-1"
MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon."""
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.PAUSE_S", 0.05, raising=False)


@pytest.fixture
def shared(postgres_url: str) -> Iterator[AttemptLedger]:
    """A ledger on PostgreSQL."""
    ledger = AttemptLedger(url=SecretStr(postgres_url))
    yield ledger
    ledger.close()


def progress(status: str) -> Change:
    """Return what a look-up says."""
    return Change(Event.PROGRESS, State.SUBMITTED, Facts(remote_status=status), 0.0, status)


def use_everything(ledger: AttemptLedger, item: str) -> None:
    """Call each method of a ledger on an item of its own."""
    (attempt,) = ledger.record_attempts([a_request(item)])
    ledger.claim_due(["submit"])
    ledger.begin_attempt(attempt.attempt_id)
    ledger.apply(ledger.remember_job(attempt.attempt_id, f"job-{item}"), progress("Processing"))
    claimed = ledger.claim_due(["lookup"])
    assert ledger.still_held(claimed) == claimed
    done = Change(Event.COMPLETE, State.COMPLETED, Facts(), 0.0, "done")
    (completed,) = ledger.apply_each([(each, done) for each in claimed])
    assert completed is not None
    move(ledger, completed, Event.DELIVER, State.DELIVERED)
    (handoff,) = ledger.due_handoffs("publisher", 10)
    sending = ledger.begin_handoff(handoff, MINUTE)
    ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=True)))
    ledger.begin_attempt(a_request(f"{item}-at-once"))
    assert ledger.read(attempt.attempt_id).state is State.DELIVERED
    assert len(ledger.history(attempt.attempt_id)) == 6
    assert ledger.owners_of("media-api", [f"job-{item}"]) == {f"job-{item}": attempt.attempt_id}
    for read in (ledger.check, ledger.list_attempts, ledger.recovery_plan, ledger.summary, ledger.handoffs):
        read()


def test_a_transaction_pooler_may_stand_between(databases: Databases) -> None:
    """Every method, the upgrade included, works when each transaction gets another connection."""
    with databases.bare() as url, TransactionPooler(url) as pooler:
        ledger = AttemptLedger(url=SecretStr(pooler.url))
        assert ledger.upgrade() is None
        for number in range(8):
            use_everything(ledger, f"e-{number}")
        ledger.close()
    assert {0, 1, 2} == set(pooler.used)


def test_workers_behind_a_pooler_share_out_the_work(shared: AttemptLedger, postgres_url: str) -> None:
    """Threads that claim through a pooler get every attempt, and none of them twice."""
    shared.record_attempts([a_request(f"e-{n}") for n in range(120)])
    with TransactionPooler(postgres_url) as pooler:
        ledgers = [AttemptLedger(url=SecretStr(pooler.url)) for _ in range(4)]

        def claim(ledger: AttemptLedger) -> list[str]:
            given: list[str] = []
            while page := ledger.claim_due(["submit"], limit=7):
                given += [attempt.attempt_id for attempt in page]
            ledger.close()
            return given

        with ThreadPoolExecutor(4) as pool:
            given = [attempt_id for got in pool.map(claim, ledgers) for attempt_id in got]
    assert sorted(f"e-{n}-attempt-1" for n in range(120)) == sorted(given)


def end_connections(databases: Databases, url: str) -> int:
    """End every connection to a database, as an administrator does, and return how many there were."""
    query = (
        "SELECT count(pg_terminate_backend(pid, 5000)) FROM pg_stat_activity "
        f"WHERE datname = '{sa.make_url(url).database}'"
    )
    ((ended,),) = databases.run(query)
    return int(ended)


CALLS: dict[str, Callable[[AttemptLedger], object]] = {
    "read": lambda ledger: ledger.read(ID),
    "claim_due": lambda ledger: ledger.claim_due(["lookup"]),
    "apply": lambda ledger: ledger.apply(ledger.read(ID), progress("x")),
    "record_attempts": lambda ledger: ledger.record_attempts([a_request("other")]),
    "begin_attempt": lambda ledger: ledger.begin_attempt(a_request("other")),
    "remember_job": lambda ledger: ledger.remember_job(ID, "job-episode-42"),
    "summary": lambda ledger: ledger.summary(),
    "due_handoffs": lambda ledger: ledger.due_handoffs("publisher", 10),
}


@pytest.mark.parametrize("method", sorted(CALLS))
def test_ended_connections_are_not_noticed(
    shared: AttemptLedger, postgres_url: str, databases: Databases, method: str
) -> None:
    """After an administrator ended all connections, the next call works as if nothing had been."""
    bring_to(shared, State.SUBMITTED)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: shared.summary(), range(8)))
    assert end_connections(databases, postgres_url) >= 1
    CALLS[method](shared)


def test_connections_ended_all_the_time_lose_nothing(
    shared: AttemptLedger, postgres_url: str, databases: Databases
) -> None:
    """While connections are ended again and again, each attempt is begun by one thread and keeps its job."""
    ids = [each.attempt_id for each in shared.record_attempts([a_request(f"e-{n}") for n in range(60)])]
    enough = threading.Event()

    def end() -> int:
        ended = 0
        while not enough.wait(0.03):
            ended += end_connections(databases, postgres_url)
        return ended

    def buy(attempt_id: str) -> None:
        shared.begin_attempt(attempt_id)
        shared.remember_job(attempt_id, f"job-{attempt_id}")

    with ThreadPoolExecutor(5) as pool:
        ending = pool.submit(end)
        try:
            for done in [pool.submit(buy, attempt_id) for attempt_id in ids]:
                done.result(60)
        finally:
            enough.set()
        assert ending.result() > 3
    assert {State.SUBMITTED: 60} == shared.summary().attempts
    for attempt in shared.list_attempts():
        assert attempt.job_id == f"job-{attempt.attempt_id}"
        assert not attempt.twin
        assert ["record", "begin", "acknowledge"] == [e.event for e in shared.history(attempt.attempt_id)]


@pytest.fixture
def api() -> Iterator[CountingApi]:
    """An API that counts what is bought."""
    with CountingApi() as api:
        yield api


@contextmanager
def submitting(ledger: AttemptLedger, api: CountingApi, ids: list[str]) -> Iterator[list[Future[Any]]]:
    """Submit attempts in the background, four at once, as the flow does."""
    with closing(TornadoApi(**api.fields())) as shop, ThreadPoolExecutor(4) as pool:
        yield [pool.submit(steps.submit, ledger, shop, attempt_id) for attempt_id in ids]


@contextmanager
def read_only(databases: Databases, url: str) -> Iterator[None]:
    """Make a database read-only for a while, for whoever is connected too."""
    name = sa.make_url(url).database
    databases.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    end_connections(databases, url)
    try:
        yield
    finally:
        databases.run(f"ALTER DATABASE {name} RESET default_transaction_read_only")


def test_a_time_of_being_read_only_is_waited_for(
    shared: AttemptLedger,
    postgres_url: str,
    databases: Databases,
    api: CountingApi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the database is read-only nothing is sent, and once it is not, everything is sent once."""
    ids = [each.attempt_id for each in shared.record_attempts([a_request(f"e-{n}") for n in range(8)])]
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.PATIENCE_S", 8, raising=False)
    with ExitStack() as background:
        with read_only(databases, postgres_url):
            sent = background.enter_context(submitting(shared, api, ids))
            threading.Event().wait(0.6)
            assert api.posts == {}
            assert not any(each.done() for each in sent)
        # The connections made meanwhile stay read-only, as those to a server that another one has relieved.
        assert [each.result(60).state for each in sent] == [State.SUBMITTED] * 8
    assert dict.fromkeys(ids, 1) == api.posts


def test_waiting_for_a_read_only_database_is_bounded(
    shared: AttemptLedger,
    postgres_url: str,
    databases: Databases,
    api: CountingApi,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A database that stays read-only is told after a while, in one sentence, and nothing was sent."""
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.PATIENCE_S", 0.3, raising=False)
    shared.record_attempts([a_request()])
    with (
        read_only(databases, postgres_url),
        submitting(shared, api, [ID]) as sent,
        pytest.raises(LedgerUnavailableError, match="read-only") as caught,
    ):
        sent[0].result(20)
    assert "\n" not in str(caught.value)
    assert api.posts == {}
    end_connections(databases, postgres_url)
    assert shared.read(ID).state is State.RECORDED


@pytest.fixture(scope="module")
def own() -> Iterator[Databases]:
    """A server that this module may stop and start."""
    server = WheelServer()
    databases = Databases(server)
    yield databases
    databases.close()
    server.end()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_in_the_middle_of_a_submission_loses_nothing(
    own: Databases, api: CountingApi, mode: str
) -> None:
    """A server that is restarted, or killed and started, while jobs are bought has each of them once."""
    server = own.server
    assert isinstance(server, WheelServer)
    with own.ledger() as url, closing(AttemptLedger(url=SecretStr(url))) as ledger:
        ids = [each.attempt_id for each in ledger.record_attempts([a_request(f"e-{n}") for n in range(60)])]
        with submitting(ledger, api, ids) as sent:
            until(lambda: api.posts.total() >= 10)
            server.stop(mode)
            before = api.posts.total()
            threading.Event().wait(0.3)
            # Four had begun at most; what cannot be begun is not sent.
            assert api.posts.total() <= before + 4
            server.start()
            assert [each.result(60).state for each in sent] == [State.SUBMITTED] * 60
        assert dict.fromkeys(ids, 1) == api.posts
        assert {State.SUBMITTED: 60} == ledger.summary().attempts
        assert not any(attempt.twin for attempt in ledger.list_attempts())


def test_a_server_that_is_away_is_told_before_anything_is_sent(
    own: Databases, api: CountingApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that does not come back is told after a while, and nothing was sent."""
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.PATIENCE_S", 0.3, raising=False)
    server = own.server
    assert isinstance(server, WheelServer)
    with own.ledger() as url, closing(AttemptLedger(url=SecretStr(url))) as ledger:
        ledger.record_attempts([a_request()])
        server.stop()
        try:
            with submitting(ledger, api, [ID]) as sent, pytest.raises(LedgerUnavailableError) as caught:
                sent[0].result(20)
        finally:
            server.start()
        assert "\n" not in str(caught.value)
        assert api.posts == {}
        assert ledger.read(ID).state is State.RECORDED


NASTY = "a\x00\ud800\udfff\u0000" + "é" * 1_000_000


def test_monstrous_texts_are_stored_bounded(ledger: AttemptLedger, sql: Sql) -> None:
    """Two megabytes with NULs and lone surrogates, whichever way they come in, are cut and cleaned."""
    attempt = bring_to(ledger, State.SUBMITTED, batch_key=NASTY, api=NASTY)
    facts = Facts(reason=NASTY, remote_status=NASTY, object_key=NASTY)
    change = Change(Event.COMPLETE, State.COMPLETED, facts, 0.0, NASTY)
    completed = ledger.apply(attempt, change, actor=NASTY)
    move(ledger, completed, Event.DELIVER, State.DELIVERED)
    (handoff,) = ledger.due_handoffs("publisher", 10)
    sending = ledger.begin_handoff(handoff, MINUTE)
    ledger.apply_handoff(sending, decide_handoff(sending, TakenUnknown(NASTY)))
    texts = [text for rows in sql.dump().values() for row in rows for text in row if isinstance(text, str)]
    assert sum("é" in text for text in texts) == 8
    assert max(map(len, texts)) == 2_000
    assert not any("\x00" in text or "\ud800" in text for text in texts)
