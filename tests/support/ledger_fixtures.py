"""Ledgers in real databases, for the tests of several folders: one parameter a kind of database."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks.ledger import AttemptLedger
from tests.support.ledgers import Sql
from tests.support.postgres import Databases, ledger_databases


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    """A PostgreSQL server to make databases on."""
    with ledger_databases() as databases:
        yield databases


@pytest.fixture
def postgres_url(databases: Databases) -> Iterator[str]:
    """URL of an empty ledger in a PostgreSQL database that no other test uses meanwhile."""
    with databases.ledger() as url:
        yield url


@pytest.fixture(scope="session")
def empty_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty SQLite ledger that is migrated once and copied for each test."""
    path = tmp_path_factory.mktemp("ledger") / "empty.db"
    AttemptLedger(url=SecretStr(f"sqlite:///{path}")).upgrade()
    return path


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger_url(request: pytest.FixtureRequest, empty_file: Path, tmp_path: Path) -> str:
    """URL of an empty ledger database that is at its newest schema."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_url")
        return url
    shutil.copy(empty_file, tmp_path / "ledger.db")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture(params=["sqlite", "postgresql"])
def bare_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a database with nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'bare.db'}"
    else:
        databases: Databases = request.getfixturevalue("databases")
        with databases.bare() as url:
            yield url


@pytest.fixture
def made_url(bare_url: str, request: pytest.FixtureRequest) -> str:
    """URL of an empty ledger in a database of the same kind as the bare one."""
    if bare_url.startswith("sqlite"):
        return f"sqlite:///{request.getfixturevalue('empty_file')}"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
def ledger(ledger_url: str) -> Iterator[AttemptLedger]:
    """An empty ledger."""
    ledger = AttemptLedger(url=SecretStr(ledger_url))
    yield ledger
    ledger.close()


@pytest.fixture
def sql(ledger_url: str) -> Sql:
    """The ledger's database, past the ledger."""
    return Sql(ledger_url)
