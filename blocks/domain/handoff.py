"""The life cycle of handing one result to one consumer, and what a consumer's answer means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from prefect_media_jobs.blocks.domain.backoff import next_look_s
from prefect_media_jobs.blocks.domain.outcomes import ConsumeOutcome, NotTaken, Taken, TakenUnknown

NO_LINK_PAUSE_S = 60.0
"""Pause before a result whose file cannot be reached is offered again, in seconds."""


class HandoffState(StrEnum):
    """Where a result stands on its way to one consumer."""

    READY = "ready"
    """Waiting to be handed over."""
    SENDING = "sending"
    """One sender is handing it over."""
    UNCERTAIN = "uncertain"
    """The consumer may have it; it is offered again under the same key."""
    ACCEPTED = "accepted"
    """The application accepted the result."""
    CONSUMED = "consumed"
    """The downstream consumer finished with it."""
    REFUSED = "refused"
    """The consumer said a definite no; a person has to decide."""


class HandoffEvent(StrEnum):
    """What can happen to a handoff. Each is one guarded write."""

    OFFER = "offer"
    BEGIN = "begin"
    ACCEPT = "accept"
    CONSUME = "consume"
    DOUBT = "doubt"
    REFUSE = "refuse"
    POSTPONE = "postpone"


@dataclass(frozen=True)
class HandoffTransition:
    """One row of the table: from which states (None: no row yet) an event leads where."""

    sources: frozenset[HandoffState | None]
    targets: frozenset[HandoffState]
    meaning: str


def _row(
    sources: Iterable[HandoffState | None], targets: Iterable[HandoffState], meaning: str
) -> HandoffTransition:
    return HandoffTransition(frozenset(sources), frozenset(targets), meaning)


_H = HandoffState

HANDOFF_TRANSITIONS: Mapping[HandoffEvent, HandoffTransition] = {
    HandoffEvent.OFFER: _row([None], [_H.READY], "a delivered result is due to a consumer"),
    HandoffEvent.BEGIN: _row(
        [_H.READY, _H.UNCERTAIN], [_H.SENDING], "committed right before the consumer is called; one winner"
    ),
    HandoffEvent.ACCEPT: _row(
        [_H.SENDING, _H.UNCERTAIN], [_H.ACCEPTED], "the application accepted the result"
    ),
    HandoffEvent.CONSUME: _row([_H.ACCEPTED], [_H.CONSUMED], "the downstream consumer finished with it"),
    HandoffEvent.DOUBT: _row([_H.SENDING], [_H.UNCERTAIN], "no usable answer; the same key is offered again"),
    HandoffEvent.POSTPONE: _row(
        [_H.READY, _H.UNCERTAIN], [_H.READY, _H.UNCERTAIN], "no fresh link to hand over; offered again later"
    ),
    HandoffEvent.REFUSE: _row([_H.SENDING], [_H.REFUSED], "a definite no; a person has to decide"),
}


@dataclass(frozen=True, kw_only=True)
class Handoff:
    """One result on its way to one consumer.

    Args:
        delivery_key: Stable; what the consumer is given to recognise a repeat.
        consumer: Name of the consumer as the flow was given it.
        tries: How often the consumer was called.
        due_at: When it is offered next; None when nothing is due by itself.
    """

    delivery_key: str
    request_key: str
    consumer: str
    attempt_id: str
    state: HandoffState
    version: int
    tries: int
    reason: str | None
    send_deadline: datetime | None
    accepted_at: datetime | None
    consumed_at: datetime | None
    changed_at: datetime
    due_at: datetime | None


@dataclass(frozen=True)
class HandoffChange:
    """One decided write to a handoff.

    Args:
        due_in_s: Seconds until it is offered again; None when nothing is due by itself.
    """

    event: HandoffEvent
    to: HandoffState
    reason: str | None = None
    due_in_s: float | None = None


def handoff_sources(event: HandoffEvent) -> frozenset[HandoffState]:
    """Tell the states an existing handoff must be in for this event."""
    return frozenset(state for state in HANDOFF_TRANSITIONS[event].sources if state is not None)


def decide_handoff(handoff: Handoff, outcome: ConsumeOutcome) -> tuple[HandoffChange, ...]:
    """Decide what a consumer's answer means; accepted and finished are two recorded facts."""
    match outcome:
        case Taken(finished):
            accepted = HandoffChange(HandoffEvent.ACCEPT, HandoffState.ACCEPTED)
            consumed = HandoffChange(HandoffEvent.CONSUME, HandoffState.CONSUMED)
            return (accepted, consumed) if finished else (accepted,)
        case NotTaken(reason):
            return (HandoffChange(HandoffEvent.REFUSE, HandoffState.REFUSED, reason),)
        case TakenUnknown(reason):
            pause = next_look_s(0.0, handoff.tries)
            return (HandoffChange(HandoffEvent.DOUBT, HandoffState.UNCERTAIN, reason, pause),)
        case _:
            assert_never(outcome)


def decide_no_link(handoff: Handoff, reason: str) -> HandoffChange:
    """Decide about a handoff for which no fresh link can be had now; its consumer was not called."""
    return HandoffChange(HandoffEvent.POSTPONE, handoff.state, reason, NO_LINK_PAUSE_S)


def decide_overdue_handoff() -> HandoffChange:
    """Decide about a handoff whose sender said nothing until its deadline passed."""
    reason = "The sender did not report back; the consumer may have the result."
    return HandoffChange(HandoffEvent.DOUBT, HandoffState.UNCERTAIN, reason, 0.0)
