"""Between rows and values, and the two statements every write of an attempt is made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import sqlalchemy as sa

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
    row = tx.connection.execute(_READ, {"guard_id": clean(attempt_id, SHOWN_DETAIL)}).mappings().first()
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


def claim(tx: Transaction, attempt_id: str, guard: Guard, values: Mapping[str, Any]) -> Attempt | None:
    """Write one attempt that was not read before, raising its version; None when the guard does not hold."""
    statement = _update_returning(guard, tuple(values))
    row = tx.connection.execute(statement, _bound(attempt_id, None, values)).mappings().first()
    return None if row is None else to_attempt(row)


def move(tx: Transaction, before: Attempt, guard: Guard, values: Mapping[str, Any]) -> Attempt | None:
    """Write one attempt as it was read, raising its version; None when somebody was first."""
    bound = _bound(before.attempt_id, before.version, values)
    if tx.connection.execute(_update(guard, tuple(values)), bound).rowcount == 0:
        return None
    return moved(before, values)


def moved(before: Attempt, values: Mapping[str, Any]) -> Attempt:
    """Return the attempt as a write of these columns leaves it."""
    fields: dict[str, Any] = dict(values) | {"version": before.version + 1}
    if "batch_job_ids" in fields:
        fields["batch_job_ids"] = tuple(fields["batch_job_ids"])
    return replace(before, **fields)


def move_all(
    tx: Transaction,
    guard: Guard,
    columns: tuple[str, ...],
    moves: Sequence[tuple[Attempt, Mapping[str, Any]]],
) -> bool:
    """Write many attempts as they were read, the same columns of each; False when somebody moved any first.

    The caller must then give up the transaction.
    """
    bound = [_bound(before.attempt_id, before.version, values) for before, values in moves]
    return tx.connection.execute(_update(guard, columns), bound).rowcount == len(moves)


def _bound(attempt_id: str, version: int | None, values: Mapping[str, Any]) -> dict[str, Any]:
    bound = {f"set_{name}": value for name, value in values.items()}
    return bound | {"guard_id": attempt_id, "guard_version": version}


@lru_cache(maxsize=256)
def _update(guard: Guard, columns: tuple[str, ...]) -> sa.Update:
    """Build the statement once for each kind of write: building it costs more than running it."""
    conditions = [ATTEMPT.c.attempt_id == sa.bindparam("guard_id")]
    if guard.version:
        conditions.append(ATTEMPT.c.version == sa.bindparam("guard_version"))
    if guard.states:
        conditions.append(sa.text(f"state IN ({listed(guard.states)})"))  # type: ignore[arg-type]
    if guard.no_job:
        conditions += [ATTEMPT.c.job_id.is_(None), ATTEMPT.c.batch_id.is_(None)]
    values = {name: sa.bindparam(f"set_{name}", type_=ATTEMPT.c[name].type) for name in columns}
    return sa.update(ATTEMPT).where(*conditions).values(version=ATTEMPT.c.version + 1, **values)


@lru_cache(maxsize=16)
def _update_returning(guard: Guard, columns: tuple[str, ...]) -> sa.UpdateBase:
    return _update(guard, columns).returning(*ATTEMPT.c)


def append_events(tx: Transaction, events: Sequence[dict[str, Any]]) -> None:
    """Add rows to the history, in the transaction that wrote the attempts."""
    if events:
        tx.connection.execute(_INSERT_EVENT, events)


def event_of(
    tx: Transaction, after: Attempt, event: str, before: State | None, detail: str | None
) -> dict[str, Any]:
    """Return the history row of an attempt that was just written."""
    return {
        "attempt_id": after.attempt_id,
        "at": tx.now,
        "event": event,
        "from_state": before,
        "to_state": after.state,
        "version": after.version,
        "actor": clean(tx.actor, 200),
        "detail": None if detail is None else clean(detail, SHOWN_DETAIL),
    }


def in_seconds(now: datetime, seconds: float | None) -> datetime | None:
    """Return the instant so many seconds from now; None stays None."""
    return None if seconds is None else now + timedelta(seconds=seconds)
