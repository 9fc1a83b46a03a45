"""Between rows and values, and the two statements every write of an attempt is made of."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.dml import ReturningUpdate

from prefect_media_jobs.blocks.domain.attempt import Attempt, AttemptEvent
from prefect_media_jobs.blocks.domain.handoff import Handoff
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import AttemptNotFoundError
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, EVENT, listed

SHOWN_DETAIL = 2000
"""Longest text kept in a history row, in characters."""

_INSERT_EVENT = sa.insert(EVENT)
_READ = sa.select(ATTEMPT).where(ATTEMPT.c.attempt_id == sa.bindparam("guard_id"))


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
    row = tx.connection.execute(_READ, {"guard_id": attempt_id}).mappings().first()
    if row is None:
        raise AttemptNotFoundError(f"The ledger has no attempt {clean(attempt_id)!r}.")
    return to_attempt(row)


def read_pairs(tx: Transaction, query: sa.Select[Any]) -> dict[Any, Any]:
    """Return the first two columns of a query as keys and values."""
    return {row[0]: row[1] for row in tx.connection.execute(query)}


@dataclass(frozen=True)
class Guard:
    """What must still hold for a write of one attempt.

    Args:
        states: It is in one of these; empty stands for any.
        version: It is at the version given with the write.
        no_job: It has neither a job nor a batch yet.
    """

    states: frozenset[State] = frozenset()
    version: bool = True
    no_job: bool = False


def move(
    tx: Transaction, attempt_id: str, guard: Guard, values: Mapping[str, Any], version: int | None = None
) -> Attempt | None:
    """Write one attempt if the guard still holds, raising its version; None when somebody was first."""
    bound = {f"set_{name}": value for name, value in values.items()}
    bound |= {"guard_id": attempt_id, "guard_version": version}
    row = tx.connection.execute(_update(guard, tuple(values)), bound).mappings().first()
    return None if row is None else to_attempt(row)


@lru_cache(maxsize=256)
def _update(guard: Guard, columns: tuple[str, ...]) -> ReturningUpdate[Any]:
    """Build the statement once for each kind of write: building it costs more than running it."""
    conditions = [ATTEMPT.c.attempt_id == sa.bindparam("guard_id")]
    if guard.version:
        conditions.append(ATTEMPT.c.version == sa.bindparam("guard_version"))
    if guard.states:
        conditions.append(sa.text(f"state IN ({listed(guard.states)})"))  # type: ignore[arg-type]
    if guard.no_job:
        conditions += [ATTEMPT.c.job_id.is_(None), ATTEMPT.c.batch_id.is_(None)]
    values = {name: sa.bindparam(f"set_{name}", type_=ATTEMPT.c[name].type) for name in columns}
    statement = sa.update(ATTEMPT).where(*conditions).values(version=ATTEMPT.c.version + 1, **values)
    return statement.returning(*ATTEMPT.c)


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
