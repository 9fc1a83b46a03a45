"""First schema: attempts, their history, handoffs."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INSTANT = sa.DateTime(timezone=True).with_variant(sa.String(32), "sqlite")
_STATES = [
    "recorded",
    "sending",
    "uncertain",
    "rejected",
    "submitted",
    "completed",
    "failed",
    "lost",
    "delivered",
    "missing",
    "superseded",
    "abandoned",
]
_GROUNDS = ["never_sent", "refused", "terminal_verdict", "operator_override"]
_HANDOFF_STATES = ["ready", "sending", "uncertain", "accepted", "consumed", "refused"]


def _one_of(values: list[str], name: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, create_constraint=True, length=24)


def upgrade() -> None:
    """Create the tables; what they mean is told in the ledger's tables module."""
    _create_attempt()
    _create_attempt_event()
    _create_handoff()


def _create_attempt() -> None:
    op.create_table(
        "attempt",
        sa.Column("attempt_id", sa.String(length=200), nullable=False),
        sa.Column("item_key", sa.String(length=200), nullable=False),
        sa.Column("request_key", sa.String(length=64), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("edition", sa.String(length=100), nullable=True),
        sa.Column("batch_key", sa.String(length=200), nullable=True),
        sa.Column("api", sa.String(length=200), nullable=False),
        sa.Column("state", _one_of(_STATES, "state"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("batch_job_ids", sa.JSON(), nullable=False),
        sa.Column("grounds", _one_of(_GROUNDS, "grounds"), nullable=True),
        sa.Column("replaces", sa.String(length=200), nullable=True),
        sa.Column("superseded_by", sa.String(length=200), nullable=True),
        sa.Column("closed_from", _one_of(_STATES, "closed_from"), nullable=True),
        sa.Column("twin", sa.Boolean(), nullable=False),
        sa.Column("remote_status", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("lookups", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_found_count", sa.Integer(), nullable=False),
        sa.Column("not_found_since", _INSTANT, nullable=True),
        sa.Column("size_bytes", sa.BigInteger(), nullable=True),
        sa.Column("object_key", sa.Text(), nullable=True),
        sa.Column("asked_at", _INSTANT, nullable=False),
        sa.Column("sent_at", _INSTANT, nullable=True),
        sa.Column("send_deadline", _INSTANT, nullable=True),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.Column("due_at", _INSTANT, nullable=True),
        sa.Column("leased_by", sa.String(length=200), nullable=True),
        sa.Column("leased_until", _INSTANT, nullable=True),
        sa.CheckConstraint(
            "(state = 'superseded') = (superseded_by IS NOT NULL)", name=op.f("ck_attempt_superseded_by_one")
        ),
        sa.CheckConstraint("job_id <> ''", name=op.f("ck_attempt_job_id_not_empty")),
        sa.CheckConstraint(
            "state = 'recorded' OR sent_at IS NOT NULL OR state IN ('abandoned')",
            name=op.f("ck_attempt_sent_has_time"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('completed', 'delivered', 'failed', 'lost', 'missing', 'submitted') "
            "OR job_id IS NOT NULL OR batch_id IS NOT NULL",
            name=op.f("ck_attempt_bought_has_id"),
        ),
        sa.CheckConstraint(
            "state NOT IN ('recorded', 'rejected', 'sending', 'uncertain') "
            "OR (job_id IS NULL AND batch_id IS NULL)",
            name=op.f("ck_attempt_unbought_has_no_id"),
        ),
        sa.CheckConstraint(
            "(grounds IS NULL) = (replaces IS NULL)", name=op.f("ck_attempt_replacement_has_grounds")
        ),
        sa.CheckConstraint("version > 0", name=op.f("ck_attempt_version_positive")),
        sa.ForeignKeyConstraint(["replaces"], ["attempt.attempt_id"], name=op.f("fk_attempt_replaces")),
        sa.ForeignKeyConstraint(
            ["superseded_by"],
            ["attempt.attempt_id"],
            name=op.f("fk_attempt_superseded_by"),
            initially="DEFERRED",
            deferrable=True,
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("api", "job_id", name=op.f("uq_attempt_api_job_id")),
    )
    op.create_index("ix_attempt_batch", "attempt", ["batch_key"], unique=False)
    op.create_index(
        "ix_attempt_due",
        "attempt",
        ["state", "due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index("ix_attempt_item", "attempt", ["item_key"], unique=False)
    op.create_index(
        "ix_attempt_twin",
        "attempt",
        ["twin"],
        unique=False,
        sqlite_where=sa.text("twin = 1"),
        postgresql_where=sa.text("twin"),
    )
    op.create_index("ix_attempt_request", "attempt", ["request_key"], unique=False)
    op.create_index(
        "uq_attempt_live_request",
        "attempt",
        ["request_key"],
        unique=True,
        sqlite_where=sa.text("state NOT IN ('abandoned', 'rejected', 'superseded')"),
        postgresql_where=sa.text("state NOT IN ('abandoned', 'rejected', 'superseded')"),
    )


def _create_attempt_event() -> None:
    op.create_table(
        "attempt_event",
        sa.Column(
            "event_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("attempt_id", sa.String(length=200), nullable=False),
        sa.Column("at", _INSTANT, nullable=False),
        sa.Column("event", sa.String(length=24), nullable=False),
        sa.Column("from_state", _one_of(_STATES, "from_state"), nullable=True),
        sa.Column("to_state", _one_of(_STATES, "to_state"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("actor", sa.String(length=200), nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempt.attempt_id"], name=op.f("fk_attempt_event_attempt_id")
        ),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_attempt_event")),
        sa.UniqueConstraint("attempt_id", "version", name=op.f("uq_attempt_event_attempt_id_version")),
    )


def _create_handoff() -> None:
    op.create_table(
        "handoff",
        sa.Column("delivery_key", sa.String(length=64), nullable=False),
        sa.Column("request_key", sa.String(length=64), nullable=False),
        sa.Column("consumer", sa.String(length=200), nullable=False),
        sa.Column("attempt_id", sa.String(length=200), nullable=False),
        sa.Column("state", _one_of(_HANDOFF_STATES, "state"), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("send_deadline", _INSTANT, nullable=True),
        sa.Column("accepted_at", _INSTANT, nullable=True),
        sa.Column("consumed_at", _INSTANT, nullable=True),
        sa.Column("changed_at", _INSTANT, nullable=False),
        sa.Column("due_at", _INSTANT, nullable=True),
        sa.CheckConstraint(
            "(state = 'consumed') = (consumed_at IS NOT NULL)", name=op.f("ck_handoff_consumed_has_time")
        ),
        sa.CheckConstraint(
            "state NOT IN ('accepted', 'consumed') OR accepted_at IS NOT NULL",
            name=op.f("ck_handoff_accepted_has_time"),
        ),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempt.attempt_id"], name=op.f("fk_handoff_attempt_id")),
        sa.PrimaryKeyConstraint("delivery_key", name=op.f("pk_handoff")),
        sa.UniqueConstraint("request_key", "consumer", name=op.f("uq_handoff_request_key_consumer")),
    )
    op.create_index("ix_handoff_attempt", "handoff", ["attempt_id"], unique=False)
    op.create_index(
        "ix_handoff_due",
        "handoff",
        ["consumer", "due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
