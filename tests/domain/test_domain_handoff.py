"""The life cycle of a handoff, held against the design, and what a consumer's answer means."""

from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.handoff import (
    HANDOFF_TRANSITIONS,
    Handoff,
    HandoffChange,
    HandoffEvent,
    HandoffState,
    decide_handoff,
    decide_no_link,
    decide_overdue_handoff,
    handoff_sources,
)
from prefect_media_jobs.blocks.domain.outcomes import NotTaken, Taken, TakenUnknown
from tests.support.attempts import NOW

MOVES = {
    "offer": ("-", "ready"),
    "begin": ("ready uncertain", "sending"),
    "accept": ("sending uncertain", "accepted"),
    "consume": ("accepted", "consumed"),
    "doubt": ("sending", "uncertain"),
    "refuse": ("sending", "refused"),
    "postpone": ("ready uncertain", "ready uncertain"),
}
"""Event: the states it is allowed in ("-": no row yet), and those it leads to."""


def a_handoff(**changes: Any) -> Handoff:
    """Return a handoff that is being sent, changed as told."""
    values: dict[str, Any] = {
        "delivery_key": "d" * 32,
        "request_key": "0" * 64,
        "consumer": "publisher",
        "attempt_id": "episode-42-attempt-1",
        "state": HandoffState.SENDING,
        "version": 2,
        "tries": 1,
        "reason": None,
        "send_deadline": NOW,
        "accepted_at": None,
        "consumed_at": None,
        "changed_at": NOW,
        "due_at": NOW,
    }
    return Handoff(**values | changes)


@pytest.mark.parametrize("event", list(HandoffEvent))
def test_every_row_agrees_with_the_design(event: HandoffEvent) -> None:
    """Each event is allowed in the states of the design and leads to those of the design."""
    sources, targets = (set(names.split()) for names in MOVES[event])
    row = HANDOFF_TRANSITIONS[event]
    assert sources == {"-" if source is None else str(source) for source in row.sources}
    assert targets == {str(target) for target in row.targets}
    assert sources - {"-"} == {str(source) for source in handoff_sources(event)}


def test_every_event_and_state_is_in_the_table() -> None:
    """There are six states, each is reached by some event, and each event has its row."""
    expected = {"ready", "sending", "uncertain", "accepted", "consumed", "refused"}
    assert expected == {str(state) for state in HandoffState}
    assert expected == {str(target) for row in HANDOFF_TRANSITIONS.values() for target in row.targets}
    assert set(MOVES) == {str(event) for event in HANDOFF_TRANSITIONS} == {str(e) for e in HandoffEvent}


@pytest.mark.parametrize("state", [HandoffState.CONSUMED, HandoffState.REFUSED])
def test_what_is_over_is_not_offered_again(state: HandoffState) -> None:
    """A consumed or refused result is not handed over again by itself."""
    assert not any(state in handoff_sources(event) for event in HandoffEvent)


def test_an_accepted_result_is_not_sent_again() -> None:
    """After it was accepted, a result can only be finished."""
    expected = {HandoffEvent.CONSUME}
    assert expected == {event for event in HandoffEvent if HandoffState.ACCEPTED in handoff_sources(event)}


ACCEPT = HandoffChange(HandoffEvent.ACCEPT, HandoffState.ACCEPTED)
CONSUME = HandoffChange(HandoffEvent.CONSUME, HandoffState.CONSUMED)


@pytest.mark.parametrize(("finished", "expected"), [(False, (ACCEPT,)), (True, (ACCEPT, CONSUME))])
def test_accepted_and_finished_are_two_facts(finished: bool, expected: tuple[HandoffChange, ...]) -> None:  # noqa: FBT001
    """A consumer that finished at once is written down as accepted first, then as consumed."""
    assert expected == decide_handoff(a_handoff(), Taken(finished))


def test_a_definite_no_is_for_a_person() -> None:
    """A consumer's no is kept with its reason, and nothing is due by itself."""
    expected = (HandoffChange(HandoffEvent.REFUSE, HandoffState.REFUSED, "wrong format", None),)
    assert expected == decide_handoff(a_handoff(), NotTaken("wrong format"))


@pytest.mark.parametrize(("tries", "expected"), [(1, 4.0), (3, 16.0), (99, 300.0)])
def test_no_usable_answer_is_a_doubt(tries: int, expected: float) -> None:
    """A consumer that may have it is offered the same key again, more and more seldom."""
    change = HandoffChange(HandoffEvent.DOUBT, HandoffState.UNCERTAIN, "time-out", expected)
    assert (change,) == decide_handoff(a_handoff(tries=tries), TakenUnknown("time-out"))


def test_a_silent_sender_leaves_a_doubt() -> None:
    """A handoff whose sender never reported back is offered again at once."""
    change = decide_overdue_handoff()
    assert (change.event, change.to, change.due_in_s) == (HandoffEvent.DOUBT, HandoffState.UNCERTAIN, 0.0)


@pytest.mark.parametrize("state", [HandoffState.READY, HandoffState.UNCERTAIN])
def test_without_a_link_the_result_waits(state: HandoffState) -> None:
    """A result for which no fresh link can be had keeps its state and is offered again later."""
    change = decide_no_link(a_handoff(state=state), "the API is down")
    assert (change.event, change.to, change.reason) == (HandoffEvent.POSTPONE, state, "the API is down")
    assert change.due_in_s == 60.0


@pytest.mark.parametrize("outcome", [Taken(finished=True), NotTaken("no"), TakenUnknown("?")])
def test_every_decision_is_a_move_of_the_table(outcome: Taken | NotTaken | TakenUnknown) -> None:
    """Whatever the consumer answers, each change is allowed where the one before it led."""
    state = HandoffState.SENDING
    for change in decide_handoff(a_handoff(), outcome):
        assert state in handoff_sources(change.event)
        assert change.to in HANDOFF_TRANSITIONS[change.event].targets
        state = change.to
