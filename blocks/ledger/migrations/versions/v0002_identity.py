"""An identity for each ledger, by which an emptied or exchanged one is noticed."""

from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give this ledger an identity."""
    table = op.create_table(
        "ledger_identity",
        sa.Column("identity", sa.String(length=36), nullable=False),
        sa.PrimaryKeyConstraint("identity", name=op.f("pk_ledger_identity")),
    )
    op.bulk_insert(table, [{"identity": str(uuid4())}])
