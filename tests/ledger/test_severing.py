"""The cable and the pooler that other tests rely on do what they say."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import sqlalchemy as sa

from tests.support.pg_messages import asks_to_commit
from tests.support.pooling import TransactionPooler
from tests.support.postgres import connected
from tests.support.severing import Moment, Severing


@pytest.fixture
def cable(postgres_url: str) -> Iterator[Severing]:
    """A cable to a ledger's database, in which there is a table of numbers."""
    with connected(sa.make_url(postgres_url)) as direct:
        direct.execute("CREATE TABLE kept (number INTEGER)")
    with Severing(postgres_url) as cable:
        yield cable
    with connected(sa.make_url(postgres_url)) as direct:
        direct.execute("DROP TABLE kept")


def engine_of(url: str, **options: int | None) -> sa.Engine:
    """Return an engine that keeps no connection."""
    return sa.create_engine(url, poolclass=sa.pool.NullPool, connect_args=options)


def kept(url: str) -> list[int]:
    """Return the numbers that the database has, seen without the cable."""
    with connected(sa.make_url(url)) as direct:
        return [number for (number,) in direct.execute("SELECT number FROM kept ORDER BY number")]


def insert(engine: sa.Engine, number: int) -> None:
    """Insert a number in a transaction of its own."""
    with engine.begin() as connection:
        connection.execute(sa.text("INSERT INTO kept VALUES (:number)"), {"number": number})


def test_an_uncut_cable_changes_nothing(cable: Severing, postgres_url: str) -> None:
    """What is not cut arrives, from many threads at once, and long answers come back whole."""
    engine = engine_of(cable.url)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: insert(engine, number), range(60)))
    assert list(range(60)) == kept(postgres_url)
    with engine.connect() as connection:
        assert len(connection.execute(sa.text("SELECT repeat('x', 3000000)")).scalar_one()) == 3_000_000
    assert cable.cuts == 0


@pytest.mark.parametrize(("moment", "expected"), [("before", [2]), ("after", [1, 2])])
def test_a_commit_is_cut(cable: Severing, postgres_url: str, moment: Moment, expected: list[int]) -> None:
    """A commit that was cut before is undone, one cut after is kept, and the client knows neither."""
    engine = engine_of(cable.url)
    cable.cut_next(moment)
    with pytest.raises(sa.exc.OperationalError) as caught:
        insert(engine, 1)
    assert caught.value.connection_invalidated
    insert(engine, 2)
    assert cable.cuts == 1
    assert expected == kept(postgres_url)


def test_the_cut_is_told_before_the_client_learns_of_it(cable: Severing, postgres_url: str) -> None:
    """What happens meanwhile happens when the fate of the transaction is settled."""
    seen: list[list[int]] = []
    cable.cut_next("after", lambda: seen.append(kept(postgres_url)))
    with pytest.raises(sa.exc.OperationalError):
        insert(engine_of(cable.url), 1)
    assert seen == [[1]]


@pytest.mark.parametrize("simple", [True, False])
def test_both_ways_to_commit_are_seen(cable: Severing, postgres_url: str, *, simple: bool) -> None:
    """A COMMIT is seen as a simple query, and as a statement that is parsed, bound and executed."""
    url = sa.make_url(cable.url).set(drivername="postgresql").render_as_string(hide_password=False)
    connection = psycopg.connect(url, autocommit=True)
    connection.execute("BEGIN")
    connection.execute("INSERT INTO kept VALUES (1)")
    cable.cut_next("before")
    if simple:
        assert connection.pgconn.exec_(b"COMMIT").status == psycopg.pq.ExecStatus.FATAL_ERROR
    else:
        with pytest.raises(psycopg.OperationalError):
            connection.execute("COMMIT", prepare=True)
    connection.close()
    assert (1, []) == (cable.cuts, kept(postgres_url))


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        (True, b"Q\0\0\0\0COMMIT\0"),
        (True, b"Q\0\0\0\0 commit; \0"),
        (True, b"P\0\0\0\0name\0COMMIT\0\0\0"),
        (False, b"Q\0\0\0\0SELECT 'COMMIT'\0"),
        (False, b"B\0\0\0\0COMMIT\0"),
        (False, b"S\0\0\0\4"),
    ],
)
def test_only_a_commit_asks_to_commit(expected: bool, message: bytes) -> None:  # noqa: FBT001
    """No other message is taken for a COMMIT."""
    assert expected == asks_to_commit(message)


def test_a_pooler_gives_each_transaction_another_connection(postgres_url: str) -> None:
    """Transactions of one client run on several connections of the server, statements of one on the same."""
    with TransactionPooler(postgres_url) as pooler:
        engine = sa.create_engine(pooler.url, pool_size=1, connect_args={"prepare_threshold": None})
        seen, query = [], sa.text("SELECT pg_backend_pid()")
        for _ in range(6):
            with engine.begin() as connection:
                seen.append({connection.execute(query).scalar_one() for _ in range(3)})
        engine.dispose()
    assert [1] * 6 == [len(pids) for pids in seen]
    assert len(set.union(*seen)) == 3


def test_a_pooler_forgets_what_was_prepared(postgres_url: str) -> None:
    """A driver that prepares statements by itself fails behind the pooler, and one told not to does not."""

    def use(threshold: int | None) -> None:
        with TransactionPooler(postgres_url) as pooler:
            engine = sa.create_engine(pooler.url, pool_size=1, connect_args={"prepare_threshold": threshold})
            try:
                for _ in range(12):
                    with engine.begin() as connection:
                        connection.execute(sa.text("SELECT count(*) FROM attempt"))
            finally:
                engine.dispose()

    use(None)
    with pytest.raises(sa.exc.DBAPIError, match="prepared statement"):
        use(5)
