"""Handing over: rows that make each result reach each consumer under one key."""

import hashlib
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.handoff import (
    Handoff,
    HandoffChange,
    HandoffEvent,
    HandoffState,
    decide_overdue_handoff,
    handoff_sources,
)
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import AttemptNotFoundError, StaleAttemptError
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.queries import Scope
from prefect_media_jobs.blocks.ledger.rows import in_seconds, to_handoff
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, HANDOFF


def delivery_key(request_key: str, consumer: str) -> str:
    """Return the stable key of one result for one consumer: 32 hexadecimal digits."""
    return hashlib.sha256(f"{request_key}\n{consumer}".encode()).hexdigest()[:32]


def due_handoffs(tx: Transaction, consumer: str, limit: int, scope: Scope) -> list[Handoff]:
    """Return handoffs that are due, after offering what was delivered and doubting what was never reported.

    Writes: the new and the overdue rows, one commit.
    """
    _offer(tx, consumer, limit, scope)
    _doubt_overdue(tx, consumer)
    query = (
        sa.select(HANDOFF)
        .join(ATTEMPT, ATTEMPT.c.attempt_id == HANDOFF.c.attempt_id)
        .where(
            HANDOFF.c.consumer == consumer,
            HANDOFF.c.due_at <= tx.now,
            HANDOFF.c.state.in_(sorted(handoff_sources(HandoffEvent.BEGIN))),
            *scope.where(tx),
        )
        .order_by(HANDOFF.c.due_at, HANDOFF.c.delivery_key)
        .limit(limit)
    )
    return [to_handoff(row) for row in tx.connection.execute(query).mappings()]


def begin_handoff(tx: Transaction, handoff: Handoff, window_s: float) -> Handoff:
    """Claim a handoff right before its consumer is called; of several callers one wins.

    Raises:
        StaleAttemptError: another caller was first, or the handoff is not due to be sent.
    Writes: one row, one commit.
    """
    deadline = tx.now + timedelta(seconds=window_s)
    values = {
        "state": HandoffState.SENDING,
        "tries": HANDOFF.c.tries + 1,
        "send_deadline": deadline,
        "changed_at": tx.now,
        "due_at": deadline,
    }
    return _move(tx, handoff, handoff_sources(HandoffEvent.BEGIN), values)


def apply_handoff(tx: Transaction, handoff: Handoff, changes: tuple[HandoffChange, ...]) -> Handoff:
    """Write what a consumer's answer means.

    Raises:
        StaleAttemptError: another writer moved the row after it was read.
    Writes: one row, and that its attempt needs no more handing over; one commit.
    """
    for change in changes:
        values: dict[str, Any] = {
            "state": change.to,
            "reason": None if change.reason is None else clean(change.reason),
            "changed_at": tx.now,
            "due_at": in_seconds(tx.now, change.due_in_s),
        }
        if change.to is HandoffState.ACCEPTED:
            values["accepted_at"] = tx.now
        if change.to is HandoffState.CONSUMED:
            values["consumed_at"] = tx.now
        handoff = _move(tx, handoff, handoff_sources(change.event), values)
    if handoff.due_at is None:
        settled = (ATTEMPT.c.attempt_id == handoff.attempt_id) & (ATTEMPT.c.state == State.DELIVERED)
        tx.connection.execute(sa.update(ATTEMPT).where(settled).values(due_at=None))
    return handoff


def read_handoff(tx: Transaction, key: str) -> Handoff:
    """Read one handoff by its delivery key.

    Raises:
        AttemptNotFoundError: there is none with this key.
    """
    row = tx.connection.execute(sa.select(HANDOFF).where(HANDOFF.c.delivery_key == key)).mappings().first()
    if row is None:
        raise AttemptNotFoundError(f"The ledger has no delivery {clean(key)!r}.")
    return to_handoff(row)


def handoffs_of(tx: Transaction, scope: Scope) -> list[Handoff]:
    """Return the handoffs of these attempts."""
    query = (
        sa.select(HANDOFF)
        .join(ATTEMPT, ATTEMPT.c.attempt_id == HANDOFF.c.attempt_id)
        .where(*scope.where(tx))
        .order_by(HANDOFF.c.changed_at, HANDOFF.c.delivery_key)
    )
    return [to_handoff(row) for row in tx.connection.execute(query).mappings()]


def _offer(tx: Transaction, consumer: str, limit: int, scope: Scope) -> None:
    known = sa.exists().where(HANDOFF.c.request_key == ATTEMPT.c.request_key, HANDOFF.c.consumer == consumer)
    query = (
        sa.select(ATTEMPT.c.attempt_id, ATTEMPT.c.request_key)
        .where(ATTEMPT.c.state == State.DELIVERED, ~known, *scope.where(tx))
        .order_by(ATTEMPT.c.changed_at, ATTEMPT.c.attempt_id)
        .limit(limit)
    )
    rows = [
        {
            "delivery_key": delivery_key(request_key, consumer),
            "request_key": request_key,
            "consumer": consumer,
            "attempt_id": attempt_id,
            "state": HandoffState.READY,
            "version": 1,
            "tries": 0,
            "changed_at": tx.now,
            "due_at": tx.now,
        }
        for attempt_id, request_key in tx.connection.execute(query)
    ]
    if rows:
        tx.connection.execute(sa.insert(HANDOFF), rows)


def _doubt_overdue(tx: Transaction, consumer: str) -> None:
    change = decide_overdue_handoff()
    tx.connection.execute(
        sa.update(HANDOFF)
        .where(
            HANDOFF.c.consumer == consumer,
            HANDOFF.c.state == HandoffState.SENDING,
            HANDOFF.c.send_deadline <= tx.now,
        )
        .values(
            state=change.to,
            version=HANDOFF.c.version + 1,
            reason=change.reason,
            changed_at=tx.now,
            due_at=in_seconds(tx.now, change.due_in_s),
        )
    )


def _move(
    tx: Transaction,
    handoff: Handoff,
    sources: frozenset[HandoffState],
    values: dict[str, Any],
) -> Handoff:
    statement = (
        sa.update(HANDOFF)
        .where(
            HANDOFF.c.delivery_key == handoff.delivery_key,
            HANDOFF.c.version == handoff.version,
            HANDOFF.c.state.in_(sorted(sources)),
        )
        .values(version=HANDOFF.c.version + 1, **values)
        .returning(*HANDOFF.c)
    )
    row = tx.connection.execute(statement).mappings().first()
    if row is None:
        current = read_handoff(tx, handoff.delivery_key)
        raise StaleAttemptError(
            f"Delivery {handoff.delivery_key} was read as {handoff.state} (version {handoff.version}) and is "
            f"now {current.state} (version {current.version}); nothing was written."
        )
    return to_handoff(row)
