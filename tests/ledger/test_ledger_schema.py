"""The schema: what the migrations make is what the tables say, and versions are told apart."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.errors import SchemaVersionError
from prefect_media_jobs.blocks.ledger import schema
from prefect_media_jobs.blocks.ledger.database import Database
from prefect_media_jobs.blocks.ledger.locating import parse_url
from prefect_media_jobs.blocks.ledger.tables import METADATA
from tests.support.attempts import a_request
from tests.support.ledgers import Sql

MIGRATIONS = Path(schema.__file__).with_name("migrations")


def described(url: str) -> dict[str, Any]:
    """Return everything the database tells about its tables, the version table left out."""
    engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
    inspector = sa.inspect(engine)
    described: dict[str, Any] = {}
    for table in sorted(set(inspector.get_table_names()) - {schema.VERSION_TABLE}):
        columns = [column | {"type": str(column["type"])} for column in inspector.get_columns(table)]
        described[table] = {
            "columns": sorted(columns, key=lambda column: column["name"]),
            "key": inspector.get_pk_constraint(table),
            "checks": sorted((str(c["name"]), c["sqltext"]) for c in inspector.get_check_constraints(table)),
            "uniques": sorted(map(str, inspector.get_unique_constraints(table))),
            "indexes": sorted(
                (str(index["name"]), str(index["column_names"]), index["unique"])
                for index in inspector.get_indexes(table)
            ),
            "foreign keys": sorted(map(str, inspector.get_foreign_keys(table))),
        }
    return described


def index_conditions(url: str) -> set[tuple[Any, ...]]:
    """Return the SQL of each partial index."""
    rows = Sql(url).run("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'")
    return {(name, " ".join(text.split())) for name, text in rows}


def test_the_migrations_make_the_tables(ledger_url: str, tmp_path: Path) -> None:
    """A migrated database has the columns, keys, checks, uniques, indexes and links of the tables in code."""
    created_url = f"sqlite:///{tmp_path / 'created.db'}"
    engine = sa.create_engine(created_url, poolclass=sa.pool.NullPool)
    METADATA.create_all(engine)
    expected, migrated = described(created_url), described(ledger_url)
    assert set(expected) == {"attempt", "attempt_event", "handoff", "ledger_identity"} == set(migrated)
    for table, parts in expected.items():
        for part, value in parts.items():
            assert value == migrated[table][part], (table, part)
    assert index_conditions(created_url) == index_conditions(ledger_url) != set()


def test_every_rule_has_a_name(ledger_url: str) -> None:
    """Each check, key and link is named, so that a later migration can change it on any database."""
    for table, parts in described(ledger_url).items():
        assert parts["key"]["name"] == f"pk_{table}"
        assert all(name.startswith(f"ck_{table}_") for name, _ in parts["checks"])
        assert "'name': None" not in str(parts)


def test_the_head_is_the_newest_migration() -> None:
    """The version the code works with is the one head of the migrations folder."""
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [schema.HEAD]


def test_an_upgrade_may_be_repeated(tmp_path: Path) -> None:
    """The first upgrade makes the schema, each further one finds it and changes nothing."""
    ledger = AttemptLedger(url=SecretStr(f"sqlite:///{tmp_path / 'ledger.db'}"))
    assert ledger.upgrade() is None
    ledger.record_attempts([a_request()])
    before = Sql(ledger.url.get_secret_value()).dump()
    assert [ledger.upgrade() for _ in range(3)] == [schema.HEAD] * 3
    assert Sql(ledger.url.get_secret_value()).dump() == before
    ledger.close()


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A migration that stops half-way is rolled back whole, and the next one starts from the beginning."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    sql = Sql(url)
    sql.run("CREATE TABLE handoff (in_the_way INTEGER)")
    ledger = AttemptLedger(url=SecretStr(url))
    with pytest.raises(Exception, match="handoff"):
        ledger.upgrade()
    assert sql.run("SELECT name FROM sqlite_master WHERE type = 'table'") == [("handoff",)]
    sql.run("DROP TABLE handoff")
    ledger.check()
    ledger.close()


@pytest.mark.parametrize("method", ["upgrade", "check", "recovery_plan", "summary"])
def test_a_newer_schema_is_refused(ledger_url: str, method: str) -> None:
    """A ledger that a newer version of the package made is not touched, and the sentence says what to do."""
    sql = Sql(ledger_url)
    sql.run(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    before = sql.dump()
    with pytest.raises(SchemaVersionError, match=r"9999.*upgrade prefect-media-jobs") as caught:
        getattr(AttemptLedger(url=SecretStr(ledger_url)), method)()
    assert "\n" not in str(caught.value)
    assert sql.dump() == before
    assert sql.run(f"SELECT version_num FROM {schema.VERSION_TABLE}") == [("9999",)]


def test_a_database_that_is_not_migrated_by_itself_is_told(ledger_url: str, tmp_path: Path) -> None:
    """Where the schema is not made on first use, an empty or foreign database is told with the command."""
    empty = Database(parse_url(f"sqlite:///{tmp_path / 'empty.db'}"))
    with pytest.raises(SchemaVersionError, match=r"is empty.*media-jobs upgrade"):
        schema.require_head(empty)
    ready = Database(parse_url(ledger_url))
    schema.require_head(ready)
    for database in (empty, ready):
        database.dispose()


def test_another_package_may_have_migrations_of_its_own(tmp_path: Path) -> None:
    """The ledger's version is kept beside the team's own Alembic version, not in it."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    sql = Sql(url)
    sql.run("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    sql.run("INSERT INTO alembic_version VALUES ('team-7')")
    ledger = AttemptLedger(url=SecretStr(url))
    ledger.check()
    ledger.close()
    assert sql.run("SELECT version_num FROM alembic_version") == [("team-7",)]


def test_the_tables_are_not_in_a_teams_metadata() -> None:
    """A team's SQLModel tables and the ledger's never meet."""
    from sqlmodel import SQLModel  # noqa: PLC0415

    assert not {"attempt", "attempt_event", "handoff"} & set(SQLModel.metadata.tables)
