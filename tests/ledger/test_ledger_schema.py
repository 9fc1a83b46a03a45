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
from tests.support.postgres import Databases

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
    sql = Sql(url)
    query = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql LIKE '%WHERE%'"
        if sql.sqlite
        else "SELECT indexname, indexdef FROM pg_indexes WHERE indexdef LIKE '%WHERE%'"
    )
    return {(name, " ".join(text.split())) for name, text in sql.run(query)}


def made(url: str) -> AttemptLedger:
    """Return the ledger that was just made in a bare database."""
    ledger = AttemptLedger(url=SecretStr(url))
    ledger.upgrade()
    return ledger


def test_the_migrations_make_the_tables(bare_url: str, made_url: str) -> None:
    """A migrated database has the columns, keys, checks, uniques, indexes and links of the tables in code."""
    METADATA.create_all(sa.create_engine(bare_url, poolclass=sa.pool.NullPool))
    expected, migrated = described(bare_url), described(made_url)
    assert set(METADATA.tables) == set(expected) == set(migrated)
    for table, parts in expected.items():
        for part, value in parts.items():
            assert value == migrated[table][part], (table, part)
    assert index_conditions(bare_url) == index_conditions(made_url) != set()


def test_every_rule_has_a_name(ledger_url: str) -> None:
    """Each check, key and link is named, so that a later migration can change it on any database."""
    for table, parts in described(ledger_url).items():
        assert parts["key"]["name"] == f"pk_{table}"
        assert all(name.startswith(f"ck_{table}_") for name, _ in parts["checks"])
        assert "'name': None" not in str(parts)


def test_the_head_is_the_newest_migration() -> None:
    """The version the code works with is the one head of the migrations folder."""
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [schema.HEAD]


def test_an_upgrade_may_be_repeated(bare_url: str) -> None:
    """The first upgrade makes the schema, each further one finds it and changes nothing."""
    ledger = AttemptLedger(url=SecretStr(bare_url))
    assert ledger.upgrade() is None
    ledger.record_attempts([a_request()])
    before = Sql(bare_url).dump()
    assert [ledger.upgrade() for _ in range(3)] == [schema.HEAD] * 3
    assert Sql(bare_url).dump() == before
    ledger.close()


def test_an_upgrade_that_fails_leaves_nothing(bare_url: str) -> None:
    """A migration that stops half-way is rolled back whole, and the next one starts from the beginning."""
    sql = Sql(bare_url)
    sql.run("CREATE TABLE handoff (in_the_way INTEGER)")
    with pytest.raises(Exception, match="handoff"):
        AttemptLedger(url=SecretStr(bare_url)).upgrade()
    assert sa.inspect(sql.engine).get_table_names() == ["handoff"]
    sql.run("DROP TABLE handoff")
    ledger = made(bare_url)
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


def test_a_database_that_is_not_migrated_by_itself_is_told(bare_url: str) -> None:
    """Where the schema is not made on first use, an empty database is told with the command."""
    database = Database(parse_url(bare_url))
    with pytest.raises(SchemaVersionError, match=r"is empty.*media-jobs upgrade"):
        schema.require_head(database)
    made(bare_url).close()
    schema.require_head(database)
    database.dispose()


def test_a_refused_opening_leaves_no_connection_behind(postgres_url: str, databases: Databases) -> None:
    """A worker that is refused because of the schema, again and again, does not use up the connections."""
    Sql(postgres_url).run(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'")
    ledger = AttemptLedger(url=SecretStr(postgres_url))
    kept = []
    for _ in range(3):
        with pytest.raises(SchemaVersionError) as caught:
            ledger.check()
        kept.append(caught.value)
    name = sa.make_url(postgres_url).database
    query = f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'"
    assert databases.run(query) == [(0,)]


def test_another_package_may_have_migrations_of_its_own(bare_url: str) -> None:
    """The ledger's version is kept beside the team's own Alembic version, not in it."""
    sql = Sql(bare_url)
    sql.run("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
    sql.run("INSERT INTO alembic_version VALUES ('team-7')")
    ledger = made(bare_url)
    ledger.check()
    ledger.close()
    assert sql.run("SELECT version_num FROM alembic_version") == [("team-7",)]


def test_the_tables_are_not_in_a_teams_metadata() -> None:
    """A team's SQLModel tables and the ledger's never meet."""
    from sqlmodel import SQLModel  # noqa: PLC0415

    assert not {"attempt", "attempt_event", "handoff"} & set(SQLModel.metadata.tables)
