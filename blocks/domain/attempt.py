"""An attempt and what to do with it, as frozen values; rows never leave the ledger."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from prefect_media_jobs.blocks.domain.redaction import shown_source
from prefect_media_jobs.blocks.domain.states import FOR_A_PERSON, Grounds, State


class Action(StrEnum):
    """The next step for an attempt."""

    SUBMIT = "submit"
    """Send what was recorded and provably never left."""
    LOOKUP = "lookup"
    """Ask the API about the job."""
    RECONCILE = "reconcile"
    """Find out what became of an attempt without a job id, without sending it again."""
    INSPECT = "inspect"
    """Check the finished file."""
    HANDOFF = "handoff"
    """Give the delivered result to its consumer."""
    REVIEW = "review"
    """A person has to decide."""


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try at buying one request.

    Args:
        attempt_id: Chosen by the application; sent as idempotency key and, by default, as file name.
        request_key: Fingerprint of item, source, settings and edition.
        source: As given, because it must be sent; show ``shown_source`` instead.
        settings: Output settings as the API's contract names them.
        api: Name of the media API block it belongs to.
        version: Raised by every write; a write carries the version it was decided on.
        closed_from: State it was in before it was superseded or abandoned.
        twin: True when a second job for the same request may exist.
        reason: Last thing worth telling a person, redacted.
        failures: Questions in a row that got no usable answer.
        asked_at: When somebody last asked for this to be bought.
        send_deadline: Until when the sender may still be sending.
        changed_at: When the state last changed.
        due_at: When the next step is due; None when nothing is due by itself.
    """

    attempt_id: str
    item_key: str
    request_key: str
    source: str = field(repr=False)
    settings: Mapping[str, object]
    edition: str | None
    batch_key: str | None
    api: str
    state: State
    version: int
    job_id: str | None
    batch_id: str | None
    batch_job_ids: tuple[str, ...]
    grounds: Grounds | None
    replaces: str | None
    superseded_by: str | None
    closed_from: State | None
    twin: bool
    remote_status: str | None
    reason: str | None
    lookups: int
    failures: int
    not_found_count: int
    not_found_since: datetime | None
    size_bytes: int | None
    object_key: str | None
    asked_at: datetime
    sent_at: datetime | None
    send_deadline: datetime | None
    changed_at: datetime
    due_at: datetime | None
    leased_by: str | None
    leased_until: datetime | None

    @property
    def shown_source(self) -> str:
        """The source without query, fragment and user part."""
        return shown_source(self.source)


@dataclass(frozen=True)
class AttemptEvent:
    """One row of an attempt's history.

    Args:
        actor: Who wrote it: host and process, or a person.
        detail: What was learnt, redacted.
    """

    attempt_id: str
    at: datetime
    event: str
    from_state: State | None
    to_state: State
    version: int
    actor: str
    detail: str | None


@dataclass(frozen=True)
class PlannedAction:
    """What an attempt needs next.

    Args:
        job_id: Known job id, if any.
        reason: Why, for a person.
        due_at: When it is due by itself; None when only a person can move it.
    """

    attempt_id: str
    action: Action
    job_id: str | None
    reason: str | None = field(default=None, compare=False)
    due_at: datetime | None = field(default=None, compare=False)


_NEXT = {
    State.SENDING: Action.RECONCILE,
    State.UNCERTAIN: Action.RECONCILE,
    State.SUBMITTED: Action.LOOKUP,
    State.COMPLETED: Action.INSPECT,
    State.DELIVERED: Action.HANDOFF,
} | dict.fromkeys(FOR_A_PERSON, Action.REVIEW)


def next_action(attempt: Attempt, now: datetime, send_within_s: float) -> Action | None:
    """Tell what an attempt needs next; None when it is settled.

    A recorded attempt that was asked for long ago waits for a person, so that a backlog after downtime does
    not become a purchase. A batch answer has no single job to look up, so a person sees it; so
    does a settled attempt for which a second job may exist.
    """
    if attempt.state is State.RECORDED:
        recent = now - attempt.asked_at <= timedelta(seconds=send_within_s)
        return Action.SUBMIT if recent else Action.REVIEW
    if attempt.batch_id is not None and attempt.state is State.SUBMITTED:
        return Action.REVIEW
    if attempt.state is State.DELIVERED and attempt.due_at is None:
        return Action.REVIEW if attempt.twin else None
    return _NEXT.get(attempt.state, Action.REVIEW if attempt.twin else None)
