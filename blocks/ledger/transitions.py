"""Guarded writes: one UPDATE of one row, and its history row, in one transaction.

The guard carries what the decision was made on. Zero rows means somebody moved the attempt first; the
refusal then says so.
"""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import CLOSED_BY_DECISION, Event, State, allows, sources_of
from prefect_media_jobs.blocks.errors import (
    ConflictingJobError,
    LedgerError,
    StaleAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.rows import (
    Guard,
    append_events,
    claim,
    event_of,
    in_seconds,
    move,
    move_all,
    moved,
    read_attempt,
)
from prefect_media_jobs.blocks.ledger.tables import EVENT

_BEGIN = Guard(frozenset({State.RECORDED}), version=False)
_ACKNOWLEDGE = Guard(sources_of(Event.ACKNOWLEDGE), no_job=True)
_LOOKS = 3
_FREE = {"leased_by": None, "leased_until": None}


def begin(tx: Transaction, attempt_id: str, window_s: float, claim_id: str) -> Attempt:
    """Claim a recorded attempt for sending; of several callers one wins.

    Args:
        window_s: How long the sender may be sending, in seconds.
        claim_id: Names this one claim in the history, so that it can be told from any other.
    Raises:
        TransitionRefusedError: the attempt is not ``recorded``, so it must not be sent.
    Writes: one row, one commit.
    """
    values = _FREE | sending_values(tx.now, window_s)
    after = claim(tx, attempt_id, _BEGIN, values)
    if after is None:
        current = read_attempt(tx, attempt_id)
        raise TransitionRefusedError(
            f"Attempt {attempt_id} is {current.state}, not recorded, so it must not be sent."
        )
    append_events(tx, [event_of(tx, after, Event.BEGIN, State.RECORDED, claim_id)])
    return after


def begun(tx: Transaction, attempt_id: str, claim_id: str) -> Attempt | None:
    """Return the attempt if this claim is what began it; None when the database does not have the claim."""
    query = sa.select(EVENT.c.version).where(
        EVENT.c.attempt_id == attempt_id,
        EVENT.c.event == Event.BEGIN,
        EVENT.c.detail.startswith(claim_id, autoescape=True),
    )
    has_claim = tx.connection.execute(query).first() is not None
    return read_attempt(tx, attempt_id) if has_claim else None


def applied(
    tx: Transaction, before: Attempt, change: Change, instants: Collection[datetime]
) -> Attempt | None:
    """Return the attempt if this very decision is what moved it on; None when that cannot be told.

    Args:
        instants: When the write was tried; they stand in what it wrote, and in nobody else's writes.
    """
    current = read_attempt(tx, before.attempt_id)
    if (current.version, current.state) != (before.version + 1, change.to):
        return None
    if not _history(tx, before, change, current):
        expected = {in_seconds(instant, change.due_in_s) for instant in instants} - {None}
        return current if current.due_at in expected else None
    query = sa.select(EVENT.c.at, EVENT.c.event).where(
        EVENT.c.attempt_id == before.attempt_id, EVENT.c.version == current.version
    )
    row = tx.connection.execute(query).first()
    return current if row is not None and row[0] in instants and row[1] == change.event else None


def sending_values(now: datetime, window_s: float) -> dict[str, Any]:
    """Return the columns of an attempt that is being sent from now on."""
    deadline = now + timedelta(seconds=window_s)
    return {
        "state": State.SENDING,
        "sent_at": now,
        "send_deadline": deadline,
        "changed_at": now,
        "due_at": deadline,
        "reason": None,
    }


def apply(tx: Transaction, attempt: Attempt, change: Change) -> Attempt:
    """Write a decision, if the attempt is still as it was when the decision was made.

    Raises:
        StaleAttemptError: another writer moved the row after it was read.
        TransitionRefusedError: the table has no such move.
    Writes: one row, one commit.
    """
    guard, values = _decided(tx, attempt, change)
    after = move(tx, attempt, guard, values)
    if after is None:
        current = read_attempt(tx, attempt.attempt_id)
        raise StaleAttemptError(
            f"Attempt {attempt.attempt_id} was read as {attempt.state} (version {attempt.version}) and is "
            f"now {current.state} (version {current.version}); nothing was written."
        )
    append_events(tx, _history(tx, attempt, change, after))
    return after


def apply_together(tx: Transaction, decided: Sequence[tuple[Attempt, Change]]) -> list[Attempt]:
    """Write many decisions with as few statements as there are kinds of them.

    Raises:
        StaleAttemptError: another writer moved one of the rows; nothing at all may be kept.
    Writes: one row a decision, one commit for all.
    """
    kinds: dict[tuple[Guard, tuple[str, ...]], list[tuple[Attempt, dict[str, Any]]]] = {}
    written: list[Attempt] = []
    events: list[dict[str, Any]] = []
    for attempt, change in decided:
        guard, values = _decided(tx, attempt, change)
        kinds.setdefault((guard, tuple(values)), []).append((attempt, values))
        written.append(moved(attempt, values))
        events += _history(tx, attempt, change, written[-1])
    for (guard, columns), moves in kinds.items():
        if not move_all(tx, guard, columns, moves):
            raise StaleAttemptError("Another writer moved one of these attempts first.")
    append_events(tx, events)
    return written


def apply_each(tx: Transaction, decided: Sequence[tuple[Attempt, Change]]) -> list[Attempt | None]:
    """Write many decisions one by one; None stands for an attempt that somebody moved first.

    Writes: one row a decision, one commit for all.
    """
    written: list[Attempt | None] = []
    for attempt, change in decided:
        try:
            written.append(apply(tx, attempt, change))
        except StaleAttemptError:
            written.append(None)
    return written


def _decided(tx: Transaction, attempt: Attempt, change: Change) -> tuple[Guard, dict[str, Any]]:
    """Return the guard and the columns of a decision, if the table has that move."""
    if not allows(change.event, attempt.state, change.to):
        raise TransitionRefusedError(
            f"Attempt {attempt.attempt_id} is {attempt.state}; it cannot {change.event} to {change.to}."
        )
    values = _values(tx, change, changes_state=change.to != attempt.state)
    if change.to in CLOSED_BY_DECISION:
        values["closed_from"] = attempt.state
    return Guard(sources_of(change.event)), values


def _history(tx: Transaction, before: Attempt, change: Change, after: Attempt) -> list[dict[str, Any]]:
    """Return the history row of a write; one that moved nothing and learnt nothing new has none."""
    if change.detail is None and before.state is after.state:
        return []
    return [event_of(tx, after, change.event, before.state, change.detail)]


def acknowledge(tx: Transaction, before: Attempt, change: Change) -> tuple[Attempt, LedgerError | None]:
    """Write down the id the API answered with; evidence is never dropped, whoever moved the row meanwhile.

    The attempt may have changed since it was read: what counts is that no id is set yet, because only the one
    sender of the attempt can have this answer.

    Returns:
        The attempt, and what the caller must be told after the commit: another id is kept in the history and
        refused.
    Writes: one row, one commit.
    """
    for _ in range(_LOOKS):
        after = move(tx, before, _ACKNOWLEDGE, _values(tx, change, changes_state=True))
        if after is not None:
            append_events(tx, [event_of(tx, after, Event.ACKNOWLEDGE, before.state, change.detail)])
            return after, None
        before = read_attempt(tx, before.attempt_id)
        if before.state not in sources_of(Event.ACKNOWLEDGE):
            break
    return _late(tx, before, change)


def _late(tx: Transaction, before: Attempt, change: Change) -> tuple[Attempt, LedgerError | None]:
    facts = change.facts
    if before.job_id is not None and before.job_id == facts.get("job_id"):
        return before, None
    if before.batch_id is not None and before.batch_id == facts.get("batch_id"):
        return before, None
    known = before.job_id or before.batch_id
    values: dict[str, Any] = {"twin": True}
    error: LedgerError | None = None
    if known is not None:
        error = ConflictingJobError(
            f"Attempt {before.attempt_id} belongs to job {clean(known)}; another answer named "
            f"{clean(str(change.detail))}, which is kept in its history."
        )
    elif before.state in sources_of(Event.LATE_ACKNOWLEDGE):
        values |= _columns(facts)
    else:
        return before, TransitionRefusedError(
            f"Attempt {before.attempt_id} is {before.state}, so no answer to it can exist."
        )
    after = move(tx, before, Guard(), values)
    if after is None:
        return before, StaleAttemptError(f"Attempt {before.attempt_id} was moved at this moment; try again.")
    append_events(tx, [event_of(tx, after, Event.LATE_ACKNOWLEDGE, before.state, change.detail)])
    return after, error


def _values(tx: Transaction, change: Change, *, changes_state: bool) -> dict[str, Any]:
    values: dict[str, Any] = _FREE | {"due_at": in_seconds(tx.now, change.due_in_s)} | _columns(change.facts)
    if changes_state:
        values |= {"state": change.to, "changed_at": tx.now}
    if change.event is Event.NOT_SENT:
        values["sent_at"] = None
    if changes_state and change.to in {State.SUBMITTED, State.COMPLETED}:
        values |= {"failures": 0}
    return values


def _columns(facts: Facts) -> dict[str, Any]:
    """Return the facts as columns; texts are made fit for any database."""
    columns: dict[str, Any] = dict(facts)
    for name in ("reason", "remote_status", "object_key"):
        if columns.get(name) is not None:
            columns[name] = clean(columns[name], 2000)
    if "batch_job_ids" in columns:
        columns["batch_job_ids"] = list(columns["batch_job_ids"])
    return columns
