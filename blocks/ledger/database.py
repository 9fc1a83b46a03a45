"""One ledger database, opened once per process: engine, transactions, clock, plain-sentence errors."""

import os
import re
import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DatabaseError, DBAPIError, NoSuchModuleError, OperationalError

from prefect_media_jobs.blocks.errors import (
    LedgerUnavailableError,
    LiveAttemptError,
    StaleAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.ledger.locating import (
    create_private_file,
    refuse_network_file_system,
    shown_url,
)
from prefect_media_jobs.blocks.ledger.turns import Ticket, Turns

T = TypeVar("T")
_HOST = socket.gethostname()
BUSY_S = 30.0
"""How long a writer waits for its turn in SQLite, in seconds."""
PATIENCE_S = 30.0
"""How long trouble of a server that may pass is waited for, in seconds."""
PAUSE_S = 0.5
CONNECT_S = 10
_READ_ONLY = "25006"
_PASSING = frozenset({_READ_ONLY, "40001", "40P01", "53300", "55P03", "57P01", "57P02", "57P03"})
"""What a PostgreSQL server answers while it restarts, hands over, or is short of connections.

Source: PostgreSQL documentation, appendix A, error codes.
"""


def this_process() -> str:
    """Name the writer in the history: host and process."""
    return f"{_HOST}:{os.getpid()}"


@dataclass(frozen=True)
class Transaction:
    """One open transaction.

    Args:
        now: The database's time at its start.
        actor: Who writes, as the history names it.
    """

    connection: sa.Connection
    now: datetime
    actor: str

    @property
    def sqlite(self) -> bool:
        """Whether this is SQLite."""
        return self.connection.dialect.name == "sqlite"


class Database:
    """A ledger database in this process.

    Args:
        url: As ``parse_url`` returns it.
    """

    def __init__(self, url: sa.URL) -> None:
        self.url = url
        self.place = shown_url(url)
        self.pid = os.getpid()
        self.sqlite = url.get_backend_name() == "sqlite"
        self._turns = Turns(self._commit) if self.sqlite else None
        self.engine = self._create()
        self._writer = self.engine.execution_options(ledger_writes=True)

    def _create(self) -> sa.Engine:
        if self.sqlite:
            path = Path(str(self.url.database))
            refuse_network_file_system(path)
            create_private_file(path)
            engine = sa.create_engine(
                self.url,
                hide_parameters=True,
                connect_args={"timeout": BUSY_S, "check_same_thread": False},
                pool_size=32,
                max_overflow=32,
            )
            sa.event.listen(engine, "connect", _configure_sqlite)
            sa.event.listen(engine, "begin", _begin_sqlite)
            return engine
        try:
            return sa.create_engine(
                self.url,
                hide_parameters=True,
                pool_pre_ping=True,
                pool_size=16,
                # Prepared statements stay with one connection, which a transaction pooler does not keep.
                connect_args={"prepare_threshold": None, "connect_timeout": CONNECT_S},
            )
        except (ModuleNotFoundError, NoSuchModuleError):
            raise LedgerUnavailableError(
                "PostgreSQL needs the psycopg driver; install prefect-media-jobs[postgres]."
            ) from None

    def write(
        self,
        work: Callable[[Transaction], T],
        actor: str | None = None,
        kept: Callable[[Transaction], T | None] | None = None,
    ) -> T:
        """Run ``work`` in one transaction that holds the write lock from its start, and commit it.

        Trouble that passes (a server that restarts, is read-only for a while, or ends connections) is waited
        for, and the whole transaction is run again. When the answer to a commit is lost, running the work
        again tells whether it was kept: if so, it is refused, and ``kept`` tells whether that was our own.

        Args:
            actor: Who writes; left out, this process.
            kept: Returns what the work would have returned, if the database has it; None if it has not.
        Raises:
            LedgerUnavailableError: the database cannot be written.
        """
        by = actor or this_process()

        def run(connection: sa.Connection) -> T:
            return work(Transaction(connection, self._now(connection), by))

        with self._told():
            if self._turns is not None:
                result: T = self._turns.run(run)
                return result
            return self._persist(run, kept)

    def _commit(self, tickets: Sequence[Ticket]) -> None:
        with self._writer.begin() as connection:
            for ticket in tickets:
                ticket.result = ticket.work(connection)

    def _persist(
        self, run: Callable[[sa.Connection], T], kept: Callable[[Transaction], T | None] | None
    ) -> T:
        give_up_at, lost = monotonic() + PATIENCE_S, False
        while True:
            committing = False
            try:
                with self._writer.connect() as connection, _leaving_read_only(connection):
                    transaction = connection.begin()
                    result = run(connection)
                    committing = True
                    transaction.commit()
                    return result
            except (StaleAttemptError, TransitionRefusedError, LiveAttemptError):
                ours = self.read(kept) if lost and kept is not None else None
                if ours is None:
                    raise
                return ours
            except DBAPIError as error:
                lost = lost or (committing and error.connection_invalidated)
                if not _passes(error) or monotonic() > give_up_at:
                    raise
            sleep(PAUSE_S)

    def read(self, work: Callable[[Transaction], T]) -> T:
        """Run ``work`` on the database without writing; trouble that passes is waited for."""
        give_up_at = monotonic() + PATIENCE_S
        with self._told():
            while True:
                try:
                    with self.engine.connect() as connection:
                        return work(Transaction(connection, self._now(connection), this_process()))
                except DBAPIError as error:
                    if self.sqlite or not _passes(error) or monotonic() > give_up_at:
                        raise
                sleep(PAUSE_S)

    def dispose(self) -> None:
        """Close the connections, unless they belong to the process this one was forked from."""
        self.engine.dispose(close=self.pid == os.getpid())

    def _now(self, connection: sa.Connection) -> datetime:
        """Return the database's time. SQLite has none of its own: its clock is that of this host."""
        if self.sqlite:
            return datetime.now(UTC)
        instant: datetime = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        return instant.astimezone(UTC)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OperationalError as error:
            raise LedgerUnavailableError(self._sentence(error)) from None
        except DBAPIError as error:
            # A file that is no database, or a broken one, is an error without a finer kind.
            if error.connection_invalidated or type(error) is DatabaseError or _passes(error):
                raise LedgerUnavailableError(self._sentence(error)) from None
            raise

    def _sentence(self, error: DBAPIError) -> str:
        text = re.sub(r"\s+", " ", str(error.orig)).strip()
        advice = "check that the file and its folder can be written" if self.sqlite else "check the server"
        if "locked" in text:
            advice = "another process holds it; try again, or use PostgreSQL for many workers"
        elif "full" in text:
            advice = "make room on the disk"
        elif "not a database" in text or "malformed" in text:
            advice = "give another file, or restore this one"
        return f"The ledger at {self.place} cannot be used ({text}); {advice}."


@contextmanager
def _leaving_read_only(connection: sa.Connection) -> Iterator[None]:
    """Close a connection to a server that another one has relieved; only a new one leads to that."""
    try:
        yield
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _READ_ONLY:
            connection.invalidate()
        raise


def _passes(error: DBAPIError) -> bool:
    """Tell whether trouble of a server may pass by itself."""
    state: str | None = getattr(error.orig, "sqlstate", None)
    if state is None:
        return error.connection_invalidated or isinstance(error, OperationalError)
    return state in _PASSING or state.startswith("08")


def _configure_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401 - the driver's connection
    connection.isolation_level = None  # transactions are begun below, never behind our back
    _enter_wal(connection)
    for pragma in ("synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _enter_wal(connection: Any) -> None:  # noqa: ANN401 - the driver's connection
    """Switch to WAL, waiting here: SQLite itself does not, when two processes switch a new file at once."""
    deadline = monotonic() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or monotonic() > deadline:
                raise
            sleep(0.01)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    # A transaction that reads first and writes later fails at once when another one commits in between,
    # whatever the time-out; a writer therefore takes the lock from its start.
    writes = connection.get_execution_options().get("ledger_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
