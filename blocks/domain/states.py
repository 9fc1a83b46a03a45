"""The life cycle of an attempt: its states, its events, and the one table that joins them.

The guards of the ledger's writes, the tests and the table in the README are derived from ``TRANSITIONS``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where an attempt stands."""

    RECORDED = "recorded"
    """Durable, and provably not sent."""
    SENDING = "sending"
    """Claimed by one sender; its request may be on the wire."""
    UNCERTAIN = "uncertain"
    """The request may have been accepted; the job id is unknown."""
    REJECTED = "rejected"
    """The API said a definite no; nothing was created."""
    SUBMITTED = "submitted"
    """The API answered with an id; the job is not known to have ended."""
    COMPLETED = "completed"
    """The API says done; the file has not been checked yet."""
    FAILED = "failed"
    """The job ended without success at the API, which gave a reason."""
    LOST = "lost"
    """The API no longer knows a job it once had."""
    DELIVERED = "delivered"
    """The file was inspected and is what was bought."""
    MISSING = "missing"
    """The API says done, but the file cannot be had."""
    SUPERSEDED = "superseded"
    """Replaced by a newer attempt, which carries the grounds."""
    ABANDONED = "abandoned"
    """Given up by a named person, for a stated reason."""


class Event(StrEnum):
    """What can happen to an attempt. Each is one guarded write and one row of its history."""

    RECORD = "record"
    BEGIN = "begin"
    ACKNOWLEDGE = "acknowledge"
    REFUSE = "refuse"
    NOT_SENT = "not_sent"
    DOUBT = "doubt"
    ADOPT = "adopt"
    PROGRESS = "progress"
    COMPLETE = "complete"
    FAIL = "fail"
    LOSE = "lose"
    DELIVER = "deliver"
    MISS = "miss"
    RECHECK = "recheck"
    SUPERSEDE = "supersede"
    ABANDON = "abandon"
    SEARCH = "search"
    UNANSWERED = "unanswered"
    LATE_ACKNOWLEDGE = "late_acknowledge"


class Grounds(StrEnum):
    """Why buying again was allowed."""

    NEVER_SENT = "never_sent"
    """The replaced attempt provably never left."""
    REFUSED = "refused"
    """The API refused the replaced attempt, so it created nothing."""
    TERMINAL_VERDICT = "terminal_verdict"
    """The replaced attempt's job is known to have ended without a usable file."""
    OPERATOR_OVERRIDE = "operator_override"
    """A named person decided to buy again, for a stated reason."""


@dataclass(frozen=True)
class Transition:
    """One row of the table: from which states an event leads where.

    Args:
        sources: States the event is allowed in; None stands for "no attempt yet".
        targets: States it can lead to.
        meaning: One phrase for the README.
    """

    sources: frozenset[State | None]
    targets: frozenset[State]
    meaning: str


def _row(sources: Iterable[State | None], targets: Iterable[State], meaning: str) -> Transition:
    return Transition(frozenset(sources), frozenset(targets), meaning)


_S = State

TRANSITIONS: Mapping[Event, Transition] = {
    Event.RECORD: _row([None], [_S.RECORDED], "durable, provably not sent"),
    Event.BEGIN: _row(
        [None, _S.RECORDED],
        [_S.SENDING],
        "committed right before the POST; this move is the claim: one winner",
    ),
    Event.ACKNOWLEDGE: _row(
        [_S.SENDING, _S.UNCERTAIN], [_S.SUBMITTED], "the API answered with an id, which is set once"
    ),
    Event.REFUSE: _row([_S.SENDING], [_S.REJECTED], "a definite no; nothing was created"),
    Event.NOT_SENT: _row([_S.SENDING], [_S.RECORDED], "proof that no byte of the request left"),
    Event.DOUBT: _row([_S.SENDING], [_S.UNCERTAIN], "the request may have arrived"),
    Event.ADOPT: _row([_S.UNCERTAIN], [_S.SUBMITTED], "the job was found at the API; the evidence is kept"),
    Event.PROGRESS: _row([_S.SUBMITTED], [_S.SUBMITTED], "the API says it still runs"),
    Event.COMPLETE: _row([_S.SUBMITTED], [_S.COMPLETED], "the API says done; the file is not checked yet"),
    Event.FAIL: _row([_S.SUBMITTED], [_S.FAILED], "ended without success at the API, with its reason"),
    Event.LOSE: _row([_S.SUBMITTED], [_S.LOST], "the API no longer knows a job it once had"),
    Event.DELIVER: _row([_S.COMPLETED], [_S.DELIVERED], "inspected; a stable reference is stored"),
    Event.MISS: _row([_S.COMPLETED], [_S.MISSING], "done, but the file cannot be had"),
    Event.RECHECK: _row(
        [_S.FAILED, _S.LOST, _S.MISSING], [_S.SUBMITTED, _S.COMPLETED], "a person asks to look again"
    ),
    Event.SUPERSEDE: _row(
        [_S.UNCERTAIN, _S.REJECTED, _S.FAILED, _S.LOST, _S.MISSING],
        [_S.SUPERSEDED],
        "a newer attempt replaces it, with grounds",
    ),
    Event.ABANDON: _row(
        [_S.RECORDED, _S.UNCERTAIN, _S.REJECTED, _S.FAILED, _S.LOST, _S.MISSING],
        [_S.ABANDONED],
        "a named person gives it up, with a reason",
    ),
}
"""Every event that can move an attempt."""

OBSERVATIONS: Mapping[Event, frozenset[State]] = {
    Event.SEARCH: frozenset({_S.UNCERTAIN}),
    Event.UNANSWERED: frozenset({_S.UNCERTAIN, _S.SUBMITTED, _S.COMPLETED}),
    Event.LATE_ACKNOWLEDGE: frozenset({_S.SUPERSEDED, _S.ABANDONED}),
}
"""Facts that are written down without moving the attempt, and the states they can be learnt in."""

CLOSED = frozenset({_S.REJECTED, _S.SUPERSEDED, _S.ABANDONED})
"""States that do not count: another attempt for the same request may be made."""

CLOSED_BY_DECISION = frozenset({_S.SUPERSEDED, _S.ABANDONED})
"""States an attempt is put in whatever it was before; the ledger keeps which state that was."""

LIVE = frozenset(State) - CLOSED
"""States of which a request may have one attempt at most; the database enforces it."""

TERMINAL = frozenset({_S.DELIVERED, _S.SUPERSEDED, _S.ABANDONED})
"""States nothing leads out of."""

FOR_A_PERSON = frozenset({_S.REJECTED, _S.FAILED, _S.LOST, _S.MISSING})
"""States that wait for a decision, because going on would mean to buy again or to give up."""


def sources_of(event: Event) -> frozenset[State]:
    """Tell the states an existing attempt must be in for this event."""
    if event in OBSERVATIONS:
        return OBSERVATIONS[event]
    return frozenset(state for state in TRANSITIONS[event].sources if state is not None)


def allows(event: Event, source: State, target: State) -> bool:
    """Tell whether the table has this move (an observation must keep the state)."""
    if source not in sources_of(event):
        return False
    return target == source if event in OBSERVATIONS else target in TRANSITIONS[event].targets
