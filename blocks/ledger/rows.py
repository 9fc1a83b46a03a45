"""Between rows and values, and the two statements every write of an attempt is made of."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.attempt import Attempt, AttemptEvent
from prefect_media_jobs.blocks.domain.handoff import Handoff
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import AttemptNotFoundError
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, EVENT

SHOWN_DETAIL = 2000
"""Longest text kept in a history row, in characters."""

_INSERT_EVENT = sa.insert(EVENT)


def to_attempt(row: sa.RowMapping) -> Attempt:
    """Make the value of a row."""
    fields: dict[str, Any] = dict(row)
    fields["batch_job_ids"] = tuple(fields["batch_job_ids"])
    return Attempt(**fields)


def to_event(row: sa.RowMapping) -> AttemptEvent:
    """Make the value of a history row."""
    return AttemptEvent(**{name: value for name, value in row.items() if name != "event_id"})


def to_handoff(row: sa.RowMapping) -> Handoff:
    """Make the value of a handoff row."""
    return Handoff(**row)


def read_attempt(tx: Transaction, attempt_id: str) -> Attempt:
    """Read one attempt.

    Raises:
        AttemptNotFoundError: there is none with this id.
    """
    row = (
        tx.connection.execute(sa.select(ATTEMPT).where(ATTEMPT.c.attempt_id == attempt_id)).mappings().first()
    )
    if row is None:
        raise AttemptNotFoundError(f"The ledger has no attempt {clean(attempt_id)!r}.")
    return to_attempt(row)


def read_pairs(tx: Transaction, query: sa.Select[Any]) -> dict[Any, Any]:
    """Return the first two columns of a query as keys and values."""
    return {row[0]: row[1] for row in tx.connection.execute(query)}


def move(tx: Transaction, guard: sa.ColumnElement[bool], values: Mapping[str, Any]) -> Attempt | None:
    """Write one attempt if the guard still holds, raising its version; None when somebody was first."""
    statement = sa.update(ATTEMPT).where(guard).values(version=ATTEMPT.c.version + 1, **values)
    row = tx.connection.execute(statement.returning(*ATTEMPT.c)).mappings().first()
    return None if row is None else to_attempt(row)


def append_event(
    tx: Transaction,
    after: Attempt,
    event: str,
    before: State | None,
    detail: str | None,
) -> None:
    """Add one row to the history of an attempt that was just written."""
    values = {
        "attempt_id": after.attempt_id,
        "at": tx.now,
        "event": event,
        "from_state": before,
        "to_state": after.state,
        "version": after.version,
        "actor": clean(tx.actor, 200),
        "detail": None if detail is None else clean(detail, SHOWN_DETAIL),
    }
    tx.connection.execute(_INSERT_EVENT, values)


def in_seconds(now: datetime, seconds: float | None) -> datetime | None:
    """Return the instant so many seconds from now; None stays None."""
    return None if seconds is None else now + timedelta(seconds=seconds)
