"""A way past the ledger, and attempts brought to a state through its front door."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, HANDOFF
from tests.support.attempts import a_request


class Sql:
    """Statements past the ledger, each committed by itself, with the database's own rules switched on.

    Args:
        url: As the ledger has it.
    """

    def __init__(self, url: str) -> None:
        self.engine = sa.create_engine(url, poolclass=sa.pool.NullPool)
        self.sqlite = self.engine.dialect.name == "sqlite"
        if self.sqlite:
            sa.event.listen(self.engine, "connect", lambda connection, _: _switch_on(connection))

    def run(self, text: str, **values: Any) -> list[tuple[Any, ...]]:
        """Run one statement of SQL text and return its rows."""
        with self.engine.begin() as connection:
            result = connection.execute(sa.text(text), values)
            return [tuple(row) for row in result] if result.returns_rows else []

    def set(self, attempt_id: str, **columns: Any) -> None:
        """Overwrite columns of one attempt, leaving its version alone."""
        with self.engine.begin() as connection:
            statement = sa.update(ATTEMPT).where(ATTEMPT.c.attempt_id == attempt_id).values(**columns)
            assert connection.execute(statement).rowcount == 1

    def set_handoff(self, delivery_key: str, **columns: Any) -> None:
        """Overwrite columns of one handoff, leaving its version alone."""
        with self.engine.begin() as connection:
            statement = sa.update(HANDOFF).where(HANDOFF.c.delivery_key == delivery_key).values(**columns)
            assert connection.execute(statement).rowcount == 1

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every row of every table, as the database stores them."""
        return {
            "attempt": self.run("SELECT * FROM attempt ORDER BY attempt_id"),
            "attempt_event": self.run("SELECT * FROM attempt_event ORDER BY event_id"),
            "handoff": self.run("SELECT * FROM handoff ORDER BY delivery_key"),
        }


def _switch_on(connection: Any) -> None:
    connection.execute("PRAGMA foreign_keys=ON").close()
    connection.execute("PRAGMA busy_timeout=30000").close()


NOTHING = Facts()

_AFTER_SENDING: dict[State, Sequence[tuple[Event, State]]] = {
    State.UNCERTAIN: [(Event.DOUBT, State.UNCERTAIN)],
    State.REJECTED: [(Event.REFUSE, State.REJECTED)],
    State.ABANDONED: [(Event.DOUBT, State.UNCERTAIN), (Event.ABANDON, State.ABANDONED)],
}
_AFTER_SUBMITTED: dict[State, Sequence[tuple[Event, State]]] = {
    State.SUBMITTED: [],
    State.COMPLETED: [(Event.COMPLETE, State.COMPLETED)],
    State.FAILED: [(Event.FAIL, State.FAILED)],
    State.LOST: [(Event.LOSE, State.LOST)],
    State.DELIVERED: [(Event.COMPLETE, State.COMPLETED), (Event.DELIVER, State.DELIVERED)],
    State.MISSING: [(Event.COMPLETE, State.COMPLETED), (Event.MISS, State.MISSING)],
}
_NOT_DUE = {State.REJECTED, State.FAILED, State.LOST, State.MISSING, State.ABANDONED}


def move(ledger: AttemptLedger, attempt: Attempt, event: Event, to: State, facts: Facts = NOTHING) -> Attempt:
    """Apply one event; what is open afterwards is due at once."""
    due_in_s = None if to in _NOT_DUE else 0.0
    return ledger.apply(attempt, Change(event, to, facts, due_in_s, str(event)))


def bring_to(ledger: AttemptLedger, state: State, item_key: str = "episode-42", **fields: Any) -> Attempt:
    """Return a new attempt that was brought to a state by the ledger's public methods.

    Its job, if it has one, is called ``job-<item_key>``.
    """
    options = {name: fields.pop(name) for name in ("batch_key", "api") if name in fields}
    request = a_request(item_key, **fields)
    (attempt,) = ledger.record_attempts([request], **options)
    if state is State.RECORDED:
        return attempt
    attempt = ledger.begin_attempt(attempt.attempt_id)
    if state in _AFTER_SUBMITTED:
        attempt = ledger.remember_job(attempt.attempt_id, f"job-{item_key}")
    path = _AFTER_SUBMITTED.get(state) or _AFTER_SENDING.get(state) or []
    if state is State.SUPERSEDED:
        path = _AFTER_SENDING[State.REJECTED]
    for event, to in path:
        attempt = move(ledger, attempt, event, to)
    if state is State.SUPERSEDED:
        ledger.record_attempts([request], **options)
        attempt = ledger.read(attempt.attempt_id)
    assert attempt.state is state
    return attempt
