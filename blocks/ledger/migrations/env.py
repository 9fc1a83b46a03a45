"""Run the migrations on the connection the ledger hands over, inside its transaction."""

from alembic import context

from prefect_media_jobs.blocks.ledger.schema import VERSION_TABLE
from prefect_media_jobs.blocks.ledger.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
