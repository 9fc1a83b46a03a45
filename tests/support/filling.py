"""Many attempts at once, put into a ledger by one statement that goes past it."""

from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.handoff import HandoffState
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, HANDOFF
from tests.support.ledgers import Sql


def fill(sql: Sql, state: State, count: int, stem: str = "e", due_at: datetime | None = None) -> None:
    """Insert attempts of one state, each of an item of its own; what is bought has a job.

    Args:
        stem: Beginning of the items' names.
        due_at: When all of them are due; None for never.
    """
    numbers = _numbers(count)
    bought = state not in {State.RECORDED, State.SENDING, State.UNCERTAIN, State.REJECTED}
    at = due_at or datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    name = sa.literal(f"{stem}-") + sa.cast(numbers.c.n, sa.String)
    values: dict[str, Any] = {
        "attempt_id": name + "-attempt-1",
        "item_key": name,
        "request_key": name,
        "source": sa.literal("https://media.example.org/x"),
        "settings": sa.literal({}, ATTEMPT.c.settings.type),
        "api": sa.literal("media-api"),
        "state": sa.literal(state, ATTEMPT.c.state.type),
        "version": sa.literal(3),
        "job_id": "job-" + name if bought else sa.null(),
        "batch_job_ids": sa.literal([], ATTEMPT.c.batch_job_ids.type),
        "twin": sa.literal(value=False),
        "lookups": sa.literal(0),
        "failures": sa.literal(0),
        "not_found_count": sa.literal(0),
        "asked_at": sa.literal(at, ATTEMPT.c.asked_at.type),
        "sent_at": sa.null() if state is State.RECORDED else sa.literal(at, ATTEMPT.c.sent_at.type),
        "changed_at": sa.literal(at, ATTEMPT.c.changed_at.type),
        "due_at": sa.null() if due_at is None else sa.literal(due_at, ATTEMPT.c.due_at.type),
    }
    with sql.engine.begin() as connection:
        picked = sa.select(*values.values()).select_from(numbers)
        connection.execute(sa.insert(ATTEMPT).from_select(list(values), picked))


def hand_over(sql: Sql, consumer: str) -> None:
    """Let a consumer have finished with every delivered result."""
    values: dict[str, Any] = {
        "delivery_key": sa.func.substr(ATTEMPT.c.attempt_id, 1, 64),
        "request_key": ATTEMPT.c.request_key,
        "consumer": sa.literal(consumer),
        "attempt_id": ATTEMPT.c.attempt_id,
        "state": sa.literal(HandoffState.CONSUMED, HANDOFF.c.state.type),
        "version": sa.literal(3),
        "tries": sa.literal(1),
        "accepted_at": ATTEMPT.c.changed_at,
        "consumed_at": ATTEMPT.c.changed_at,
        "changed_at": ATTEMPT.c.changed_at,
    }
    with sql.engine.begin() as connection:
        picked = sa.select(*values.values()).where(ATTEMPT.c.state == State.DELIVERED)
        connection.execute(sa.insert(HANDOFF).from_select(list(values), picked))


def _numbers(count: int) -> Any:
    """Return a table of the numbers from one to ``count``."""
    first = sa.select(sa.literal(1).label("n")).cte(recursive=True)
    return first.union_all(sa.select(first.c.n + 1).where(first.c.n < count))


def long_ago(sql: Sql) -> datetime:
    """Return an instant that has passed by the database's clock."""
    ((now,),) = sql.run("SELECT CURRENT_TIMESTAMP")
    instant = datetime.fromisoformat(f"{now}+00:00") if isinstance(now, str) else now
    return instant - timedelta(minutes=1)
