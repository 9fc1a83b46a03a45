"""The schema's version: looked at cheaply on every opening, brought up to date by Alembic when needed."""

from pathlib import Path

import sqlalchemy as sa

from prefect_media_jobs.blocks.errors import SchemaVersionError
from prefect_media_jobs.blocks.ledger.database import Database, Transaction

HEAD = "0002"
"""The migration this version works with; a test holds it against the migrations folder."""

VERSION_TABLE = "media_jobs_version"
_UPGRADE_LOCK = 7_230_411


def current_version(database: Database) -> str | None:
    """Return the schema's version; None when the database is empty."""
    return database.read(_version)


def upgrade(database: Database) -> str | None:
    """Create the schema or bring it up to date; safe to repeat, and from many processes at once.

    One process migrates in one transaction; the others wait for the lock, look again and go on.

    Returns:
        The version found before; None when the database was empty.
    Raises:
        SchemaVersionError: a newer version of the package has written to the database.
    """
    found = current_version(database)
    if found == HEAD:
        return found
    return database.write(lambda tx: _migrate(tx, database))


def require_head(database: Database) -> None:
    """Refuse a database that is not at the version this package works with."""
    found = current_version(database)
    if found is not None and found > HEAD:
        raise SchemaVersionError(_too_new(database, found))
    if found != HEAD:
        state = "is empty" if found is None else f"has schema {found}"
        raise SchemaVersionError(
            f"The ledger at {database.place} {state} and this version needs {HEAD}; run 'media-jobs upgrade'."
        )


def _migrate(tx: Transaction, database: Database) -> str | None:
    if not tx.sqlite:
        tx.connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
    found = _version(tx)
    if found == HEAD:
        return found
    # Alembic takes a while to import and is needed once in a ledger's life.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util.exc import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    config.attributes["connection"] = tx.connection
    try:
        command.upgrade(config, HEAD)
    except CommandError:
        raise SchemaVersionError(_too_new(database, found)) from None
    return found


def _too_new(database: Database, found: str | None) -> str:
    return (
        f"The ledger at {database.place} has schema {found}, which this version does not know; "
        "upgrade prefect-media-jobs on this machine."
    )


def _version(tx: Transaction) -> str | None:
    if not sa.inspect(tx.connection).has_table(VERSION_TABLE):
        return None
    version: str | None = tx.connection.execute(
        sa.select(sa.column("version_num")).select_from(sa.table(VERSION_TABLE))
    ).scalar()
    return version
