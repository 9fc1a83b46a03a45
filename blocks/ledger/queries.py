"""Reading the ledger: one attempt, what is due, what needs a person, how it stands."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.attempt import (
    Action,
    Attempt,
    AttemptEvent,
    PlannedAction,
    next_action,
)
from prefect_media_jobs.blocks.domain.handoff import HandoffState
from prefect_media_jobs.blocks.domain.states import FOR_A_PERSON, State
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.rows import read_attempt, read_pairs, to_attempt, to_event
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, EVENT, HANDOFF

OPEN = frozenset(
    {State.RECORDED, State.SENDING, State.UNCERTAIN, State.SUBMITTED, State.COMPLETED} | FOR_A_PERSON
)
"""States in which something is still to be done by the sweep or by a person."""


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Which attempts are meant; what is None does not narrow.

    Args:
        api: Name of the media API block.
        attempt_ids: These alone.
    """

    api: str | None = None
    batch_key: str | None = None
    attempt_ids: Sequence[str] | None = None

    def where(self, tx: Transaction) -> list[sa.ColumnElement[bool]]:
        """Return the conditions."""
        conditions: list[sa.ColumnElement[bool]] = []
        if self.api is not None:
            conditions.append(ATTEMPT.c.api == self.api)
        if self.batch_key is not None:
            conditions.append(ATTEMPT.c.batch_key == self.batch_key)
        if self.attempt_ids is not None:
            conditions.append(_one_of(tx, ATTEMPT.c.attempt_id, self.attempt_ids))
        return conditions


def _one_of(tx: Transaction, column: sa.Column[str], values: Sequence[str]) -> sa.ColumnElement[bool]:
    """Return the condition that a column is one of many values.

    They go as one JSON parameter, because databases bound how many parameters a statement may have.
    """
    text = sa.literal(json.dumps(list(values)), sa.Text)
    listed = (
        sa.func.json_each(text).table_valued("value")
        if tx.sqlite
        else sa.func.json_array_elements_text(sa.cast(text, sa.JSON)).table_valued("value")
    )
    return column.in_(sa.select(listed.c.value))


@dataclass(frozen=True)
class LedgerSummary:
    """How a ledger, or a batch in it, stands.

    Args:
        attempts: Number of attempts by state; states without any are left out.
        handoffs: The same for handoffs.
        for_a_person: Attempts that wait for a decision.
        twins: Attempts for which a second job may exist.
        oldest_open: When the oldest attempt that still needs something was asked for.
    """

    attempts: dict[State, int] = field(default_factory=dict)
    handoffs: dict[HandoffState, int] = field(default_factory=dict)
    for_a_person: int = 0
    twins: int = 0
    oldest_open: datetime | None = None

    @property
    def total(self) -> int:
        """Number of attempts."""
        return sum(self.attempts.values())


def claim_due(
    tx: Transaction,
    actions: Iterable[Action],
    scope: Scope,
    *,
    limit: int,
    lease_s: float,
    send_within_s: float,
    due_before: datetime | None,
) -> list[Attempt]:
    """Lease attempts that are due, raising their version, so that a paused holder cannot write later.

    Writes: the leased rows, one commit.
    """
    picked = (
        sa.select(ATTEMPT.c.attempt_id)
        .where(
            sa.or_(sa.false(), *(_due_for(action, tx.now, send_within_s) for action in actions)),
            ATTEMPT.c.due_at <= (due_before or tx.now),
            sa.or_(ATTEMPT.c.leased_until.is_(None), ATTEMPT.c.leased_until <= tx.now),
            *scope.where(tx),
        )
        .order_by(ATTEMPT.c.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
        .cte("picked")  # evaluated once: a plain subquery may be run again by the plan, locking more rows
    )
    statement = (
        sa.update(ATTEMPT)
        .where(ATTEMPT.c.attempt_id.in_(sa.select(picked.c.attempt_id)))
        .values(
            version=ATTEMPT.c.version + 1,
            leased_by=tx.actor,
            leased_until=tx.now + timedelta(seconds=lease_s),
        )
        .returning(*ATTEMPT.c)
    )
    return [to_attempt(row) for row in tx.connection.execute(statement).mappings()]


def _due_for(action: Action, now: datetime, send_within_s: float) -> sa.ColumnElement[bool]:
    state = ATTEMPT.c.state
    match action:
        case Action.SUBMIT:
            return (state == State.RECORDED) & (ATTEMPT.c.asked_at >= now - timedelta(seconds=send_within_s))
        case Action.LOOKUP:
            return (state == State.SUBMITTED) & ATTEMPT.c.job_id.is_not(None)
        case Action.RECONCILE:
            return state.in_([State.SENDING, State.UNCERTAIN])
        case Action.INSPECT:
            return (state == State.COMPLETED) & ATTEMPT.c.job_id.is_not(None)
        case Action.HANDOFF | Action.REVIEW:
            return sa.false()


def still_held(tx: Transaction, claimed: Sequence[Attempt]) -> list[Attempt]:
    """Return those of the claimed attempts that nobody has written since."""
    ids = [attempt.attempt_id for attempt in claimed]
    query = sa.select(ATTEMPT.c.attempt_id, ATTEMPT.c.version).where(_one_of(tx, ATTEMPT.c.attempt_id, ids))
    versions = read_pairs(tx, query)
    return [attempt for attempt in claimed if versions.get(attempt.attempt_id) == attempt.version]


def held_now(tx: Transaction, scope: Scope) -> list[Attempt]:
    """Return the attempts somebody has a lease on, the longest-held first."""
    query = (
        sa.select(ATTEMPT)
        .where(ATTEMPT.c.leased_until > tx.now, ATTEMPT.c.due_at.is_not(None), *scope.where(tx))
        .order_by(ATTEMPT.c.leased_until, ATTEMPT.c.attempt_id)
    )
    return [to_attempt(row) for row in tx.connection.execute(query).mappings()]


def next_due(tx: Transaction, scope: Scope, states: Iterable[State]) -> datetime | None:
    """Return when the next of these attempts is due; None when none is due by itself."""
    query = sa.select(sa.func.min(ATTEMPT.c.due_at)).where(
        ATTEMPT.c.state.in_(sorted(states)), ATTEMPT.c.due_at.is_not(None), *scope.where(tx)
    )
    due: datetime | None = tx.connection.execute(query).scalar()
    return due


def recovery_plan(
    tx: Transaction, limit: int | None, send_within_s: float, scope: Scope
) -> Iterator[PlannedAction]:
    """Yield what each open attempt needs next, what is due first coming first."""
    delivered_due = (ATTEMPT.c.state == State.DELIVERED) & ATTEMPT.c.due_at.is_not(None)
    query = (
        sa.select(ATTEMPT)
        .where(sa.or_(ATTEMPT.c.state.in_(sorted(OPEN)), delivered_due, ATTEMPT.c.twin), *scope.where(tx))
        .order_by(ATTEMPT.c.due_at.is_(None), ATTEMPT.c.due_at, ATTEMPT.c.asked_at, ATTEMPT.c.attempt_id)
        .limit(limit)
    )
    for row in tx.connection.execute(query).mappings():
        attempt = to_attempt(row)
        action = next_action(attempt, tx.now, send_within_s)
        if action is not None:
            due_at = None if action is Action.REVIEW else attempt.due_at
            yield PlannedAction(attempt.attempt_id, action, attempt.job_id, attempt.reason, due_at)


def refused_handoffs(tx: Transaction, scope: Scope) -> list[PlannedAction]:
    """Return the results a consumer refused; a person has to decide about them."""
    query = (
        sa.select(HANDOFF.c.attempt_id, ATTEMPT.c.job_id, HANDOFF.c.consumer, HANDOFF.c.reason)
        .join(ATTEMPT, ATTEMPT.c.attempt_id == HANDOFF.c.attempt_id)
        .where(HANDOFF.c.state == HandoffState.REFUSED, *scope.where(tx))
        .order_by(HANDOFF.c.changed_at)
    )
    return [
        PlannedAction(attempt_id, Action.REVIEW, job_id, f"Refused by {consumer}: {reason}")
        for attempt_id, job_id, consumer, reason in tx.connection.execute(query)
    ]


def history(tx: Transaction, attempt_id: str) -> list[AttemptEvent]:
    """Return the history of one attempt, oldest first."""
    read_attempt(tx, attempt_id)
    query = sa.select(EVENT).where(EVENT.c.attempt_id == attempt_id).order_by(EVENT.c.version)
    return [to_event(row) for row in tx.connection.execute(query).mappings()]


def list_attempts(
    tx: Transaction, scope: Scope, states: Iterable[State] | None, limit: int | None
) -> list[Attempt]:
    """Return attempts, oldest first."""
    conditions = scope.where(tx)
    if states is not None:
        conditions.append(ATTEMPT.c.state.in_(sorted(states)))
    query = sa.select(ATTEMPT).where(*conditions).order_by(ATTEMPT.c.asked_at, ATTEMPT.c.attempt_id)
    return [to_attempt(row) for row in tx.connection.execute(query.limit(limit)).mappings()]


def needs_a_person(tx: Transaction, scope: Scope, send_within_s: float, limit: int) -> list[Attempt]:
    """Return attempts that a person should look at, oldest first.

    Those that wait for a decision, are uncertain, came back as a batch, may have a twin, or were recorded too
    long ago to be sent without asking.
    """
    state, earliest = ATTEMPT.c.state, tx.now - timedelta(seconds=send_within_s)
    query = (
        sa.select(ATTEMPT)
        .where(
            sa.or_(
                state.in_(sorted(FOR_A_PERSON | {State.UNCERTAIN})),
                (state == State.SUBMITTED) & ATTEMPT.c.batch_id.is_not(None),
                (state == State.RECORDED) & (ATTEMPT.c.asked_at < earliest),
                ATTEMPT.c.twin,
            ),
            *scope.where(tx),
        )
        .order_by(ATTEMPT.c.asked_at, ATTEMPT.c.attempt_id)
        .limit(limit)
    )
    return [to_attempt(row) for row in tx.connection.execute(query).mappings()]


def owners_of(tx: Transaction, api: str, job_ids: Sequence[str]) -> dict[str, str]:
    """Return the attempt each of these jobs belongs to; jobs that belong to none are left out."""
    query = sa.select(ATTEMPT.c.job_id, ATTEMPT.c.attempt_id).where(
        ATTEMPT.c.api == api, _one_of(tx, ATTEMPT.c.job_id, job_ids)
    )
    return read_pairs(tx, query)


def summary(tx: Transaction, scope: Scope) -> LedgerSummary:
    """Count attempts and handoffs by state."""
    by_state = (
        sa.select(
            ATTEMPT.c.state,
            sa.func.count(),
            sa.func.min(ATTEMPT.c.asked_at),
            sa.func.sum(sa.cast(ATTEMPT.c.twin, sa.Integer)),
        )
        .where(*scope.where(tx))
        .group_by(ATTEMPT.c.state)
    )
    rows = tx.connection.execute(by_state).all()
    handoffs = (
        sa.select(HANDOFF.c.state, sa.func.count())
        .join(ATTEMPT, ATTEMPT.c.attempt_id == HANDOFF.c.attempt_id)
        .where(*scope.where(tx))
        .group_by(HANDOFF.c.state)
    )
    return LedgerSummary(
        attempts={state: count for state, count, _, _ in rows},
        handoffs=read_pairs(tx, handoffs),
        for_a_person=sum(count for state, count, _, _ in rows if state in FOR_A_PERSON),
        twins=sum(twins for *_, twins in rows),
        oldest_open=min((oldest for state, _, oldest, _ in rows if state in OPEN), default=None),
    )
