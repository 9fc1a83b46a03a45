"""The ledger's tables. Rules live here as constraints, so that no writer can break them.

They have a registry of their own: a team's SQLModel tables never meet them.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import registry
from sqlalchemy.types import TypeDecorator, TypeEngine
from sqlmodel import Field, SQLModel

from prefect_media_jobs.blocks.domain.handoff import HandoffState
from prefect_media_jobs.blocks.domain.states import CLOSED, Grounds, State

NAMING = {
    "pk": "pk_%(table_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """An instant, aware and in UTC; text of fixed width in SQLite, so that it sorts and keeps its zone."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Use text on SQLite, which has no type for an instant."""
        plain: TypeEngine[Any] = sa.String(32) if dialect.name == "sqlite" else sa.DateTime(timezone=True)
        return dialect.type_descriptor(plain)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401 - as the driver takes it
        """Write UTC; a naive instant is a bug."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("the ledger stores aware instants only")
        value = value.astimezone(UTC)
        return value.isoformat(timespec="microseconds") if dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002 - as the driver gives it
        """Read UTC."""
        if value is None:
            return None
        instant: datetime = datetime.fromisoformat(value) if isinstance(value, str) else value
        return instant.astimezone(UTC)


def one_of(kind: type[StrEnum], name: str) -> sa.Enum:
    """Return a column type that stores the values of an enum and checks them in the database."""
    return sa.Enum(
        kind,
        name=name,
        values_callable=lambda members: [str(member) for member in members],
        native_enum=False,
        create_constraint=True,
        length=24,
    )


def listed(states: Iterable[StrEnum]) -> str:
    """Return states as SQL text for a constraint."""
    return ", ".join(f"'{state}'" for state in sorted(states))


class LedgerTable(SQLModel, registry=registry(metadata=sa.MetaData(naming_convention=NAMING))):
    """Base of the ledger's tables, with a registry and metadata of its own."""


_HAS_JOB = listed(
    {State.SUBMITTED, State.COMPLETED, State.FAILED, State.LOST, State.DELIVERED, State.MISSING}
)
_HAS_NO_JOB = listed({State.RECORDED, State.SENDING, State.UNCERTAIN, State.REJECTED})


class AttemptRow(LedgerTable, table=True):
    """One attempt; the meaning of the columns is told at ``domain.attempt.Attempt``."""

    __tablename__ = "attempt"
    __table_args__ = (
        sa.UniqueConstraint("api", "job_id"),
        sa.Index(
            "uq_attempt_live_request",
            "request_key",
            unique=True,
            sqlite_where=sa.text(f"state NOT IN ({listed(CLOSED)})"),
            postgresql_where=sa.text(f"state NOT IN ({listed(CLOSED)})"),
        ),
        sa.Index(
            "ix_attempt_due",
            "state",
            "due_at",
            sqlite_where=sa.text("due_at IS NOT NULL"),
            postgresql_where=sa.text("due_at IS NOT NULL"),
        ),
        sa.Index("ix_attempt_request", "request_key"),
        sa.Index("ix_attempt_item", "item_key"),
        sa.Index("ix_attempt_batch", "batch_key"),
        sa.Index(
            "ix_attempt_twin", "twin", sqlite_where=sa.text("twin = 1"), postgresql_where=sa.text("twin")
        ),
        sa.CheckConstraint(
            f"state NOT IN ({_HAS_JOB}) OR job_id IS NOT NULL OR batch_id IS NOT NULL", name="bought_has_id"
        ),
        sa.CheckConstraint(
            f"state NOT IN ({_HAS_NO_JOB}) OR (job_id IS NULL AND batch_id IS NULL)",
            name="unbought_has_no_id",
        ),
        sa.CheckConstraint(
            f"state = 'recorded' OR sent_at IS NOT NULL OR state IN ({listed({State.ABANDONED})})",
            name="sent_has_time",
        ),
        sa.CheckConstraint("(grounds IS NULL) = (replaces IS NULL)", name="replacement_has_grounds"),
        sa.CheckConstraint("(state = 'superseded') = (superseded_by IS NOT NULL)", name="superseded_by_one"),
        sa.CheckConstraint("job_id <> ''", name="job_id_not_empty"),
        sa.CheckConstraint("version > 0", name="version_positive"),
    )

    attempt_id: str = Field(primary_key=True, max_length=200)
    item_key: str = Field(max_length=200)
    request_key: str = Field(max_length=64)
    source: str = Field(sa_column=sa.Column(sa.Text, nullable=False))
    settings: dict[str, Any] = Field(sa_column=sa.Column(sa.JSON, nullable=False))
    edition: str | None = Field(default=None, max_length=100)
    batch_key: str | None = Field(default=None, max_length=200)
    api: str = Field(max_length=200)
    state: State = Field(sa_column=sa.Column(one_of(State, "state"), nullable=False))
    version: int
    job_id: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    batch_id: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    batch_job_ids: list[str] = Field(sa_column=sa.Column(sa.JSON, nullable=False))
    grounds: Grounds | None = Field(default=None, sa_column=sa.Column(one_of(Grounds, "grounds")))
    replaces: str | None = Field(default=None, foreign_key="attempt.attempt_id", max_length=200)
    superseded_by: str | None = Field(
        default=None,
        sa_column=sa.Column(
            sa.String(200), sa.ForeignKey("attempt.attempt_id", deferrable=True, initially="DEFERRED")
        ),
    )
    closed_from: State | None = Field(default=None, sa_column=sa.Column(one_of(State, "closed_from")))
    twin: bool = False
    remote_status: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    reason: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    lookups: int = 0
    failures: int = 0
    not_found_count: int = 0
    not_found_since: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    size_bytes: int | None = Field(default=None, sa_column=sa.Column(sa.BigInteger))
    object_key: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    asked_at: datetime = Field(sa_column=sa.Column(UtcDateTime, nullable=False))
    sent_at: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    send_deadline: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    changed_at: datetime = Field(sa_column=sa.Column(UtcDateTime, nullable=False))
    due_at: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    leased_by: str | None = Field(default=None, max_length=200)
    leased_until: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))


class AttemptEventRow(LedgerTable, table=True):
    """One row of an attempt's history; rows are only ever added."""

    __tablename__ = "attempt_event"
    __table_args__ = (sa.UniqueConstraint("attempt_id", "version"),)

    event_id: int | None = Field(
        default=None,
        sa_column=sa.Column(
            sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
        ),
    )
    attempt_id: str = Field(foreign_key="attempt.attempt_id", max_length=200)
    at: datetime = Field(sa_column=sa.Column(UtcDateTime, nullable=False))
    event: str = Field(max_length=24)
    from_state: State | None = Field(default=None, sa_column=sa.Column(one_of(State, "from_state")))
    to_state: State = Field(sa_column=sa.Column(one_of(State, "to_state"), nullable=False))
    version: int
    actor: str = Field(max_length=200)
    detail: str | None = Field(default=None, sa_column=sa.Column(sa.Text))


class HandoffRow(LedgerTable, table=True):
    """One result on its way to one consumer; one row per request and consumer, so twins cannot both go."""

    __tablename__ = "handoff"
    __table_args__ = (
        sa.UniqueConstraint("request_key", "consumer"),
        sa.Index(
            "ix_handoff_due",
            "consumer",
            "due_at",
            sqlite_where=sa.text("due_at IS NOT NULL"),
            postgresql_where=sa.text("due_at IS NOT NULL"),
        ),
        sa.Index("ix_handoff_attempt", "attempt_id"),
        sa.CheckConstraint(
            "state NOT IN ('accepted', 'consumed') OR accepted_at IS NOT NULL", name="accepted_has_time"
        ),
        sa.CheckConstraint("(state = 'consumed') = (consumed_at IS NOT NULL)", name="consumed_has_time"),
    )

    delivery_key: str = Field(primary_key=True, max_length=64)
    request_key: str = Field(max_length=64)
    consumer: str = Field(max_length=200)
    attempt_id: str = Field(foreign_key="attempt.attempt_id", max_length=200)
    state: HandoffState = Field(sa_column=sa.Column(one_of(HandoffState, "state"), nullable=False))
    version: int
    tries: int = 0
    reason: str | None = Field(default=None, sa_column=sa.Column(sa.Text))
    send_deadline: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    accepted_at: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    consumed_at: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))
    changed_at: datetime = Field(sa_column=sa.Column(UtcDateTime, nullable=False))
    due_at: datetime | None = Field(default=None, sa_column=sa.Column(UtcDateTime))


class IdentityRow(LedgerTable, table=True):
    """One row that tells this ledger from any other, made with its schema."""

    __tablename__ = "ledger_identity"

    identity: str = Field(primary_key=True, max_length=36)


METADATA = LedgerTable.metadata
ATTEMPT: sa.Table = METADATA.tables["attempt"]
EVENT: sa.Table = METADATA.tables["attempt_event"]
HANDOFF: sa.Table = METADATA.tables["handoff"]
IDENTITY: sa.Table = METADATA.tables["ledger_identity"]
