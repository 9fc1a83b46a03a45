"""The life cycle of an attempt, held against the table of the design, which is written out here by hand."""

import pytest

from prefect_media_jobs.blocks.domain.states import (
    CLOSED,
    FOR_A_PERSON,
    LIVE,
    OBSERVATIONS,
    TERMINAL,
    TRANSITIONS,
    Event,
    State,
    allows,
    sources_of,
)

MOVES = {
    "record": ("-", "recorded"),
    "begin": ("- recorded", "sending"),
    "acknowledge": ("sending uncertain", "submitted"),
    "refuse": ("sending", "rejected"),
    "not_sent": ("sending", "recorded"),
    "doubt": ("sending", "uncertain"),
    "adopt": ("uncertain", "submitted"),
    "progress": ("submitted", "submitted"),
    "complete": ("submitted", "completed"),
    "fail": ("submitted", "failed"),
    "lose": ("submitted", "lost"),
    "deliver": ("completed", "delivered"),
    "miss": ("completed", "missing"),
    "recheck": ("failed lost missing", "submitted completed"),
    "supersede": ("uncertain rejected failed lost missing", "superseded"),
    "abandon": ("recorded uncertain rejected failed lost missing", "abandoned"),
}
"""Event: the states it is allowed in ("-": no attempt yet), and those it leads to."""

STAYS = {
    "search": "uncertain",
    "unanswered": "uncertain submitted completed",
    "late_acknowledge": "superseded abandoned",
}
"""Event that moves nothing: the states it can be learnt in."""

STATES = (
    "recorded sending uncertain rejected submitted completed failed lost delivered missing "
    "superseded abandoned"
)


def expected_targets(state: str, event: str) -> set[str]:
    """Return where the hand-written table leads."""
    if event in STAYS:
        return {state} if state in STAYS[event].split() else set()
    sources, targets = MOVES[event]
    return set(targets.split()) if state in sources.split() else set()


def test_states_are_those_of_the_design() -> None:
    """There are twelve states, with the names of the design."""
    expected = set(STATES.split())
    assert expected == {str(state) for state in State}


def test_every_event_is_in_one_table() -> None:
    """Each event either moves an attempt or is an observation, never both."""
    expected = set(MOVES) | set(STAYS)
    assert expected == {str(event) for event in Event}
    assert set(MOVES) == {str(event) for event in TRANSITIONS}
    assert set(STAYS) == {str(event) for event in OBSERVATIONS}


@pytest.mark.parametrize("state", list(State))
@pytest.mark.parametrize("event", list(Event))
def test_every_pair_agrees_with_the_design(state: State, event: Event) -> None:
    """For each state and event, the code allows exactly the targets that the design's table names."""
    expected = expected_targets(state, event)
    assert expected == {str(target) for target in State if allows(event, state, target)}
    assert bool(expected) == (state in sources_of(event))


@pytest.mark.parametrize("event", list(TRANSITIONS))
def test_what_can_begin_an_attempt(event: Event) -> None:
    """Only recording and beginning make an attempt where there was none."""
    expected = "-" in MOVES[event][0].split()
    assert expected == (None in TRANSITIONS[event].sources)


def test_every_state_is_reachable_from_nothing() -> None:
    """Every state can be reached from no attempt at all."""
    reached = {target for row in TRANSITIONS.values() if None in row.sources for target in row.targets}
    while True:
        further = {
            target
            for event in Event
            for source in reached
            for target in State
            if allows(event, source, target)
        }
        if further <= reached:
            break
        reached |= further
    assert reached == set(State)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_nothing_leads_out_of_a_terminal_state(state: State) -> None:
    """A delivered, superseded or abandoned attempt is never moved again."""
    expected: set[State] = set()
    assert expected == {t for event in Event for t in State if t != state and allows(event, state, t)}


@pytest.mark.parametrize("state", sorted(set(State) - TERMINAL))
def test_every_other_state_can_be_left(state: State) -> None:
    """No state but the terminal ones is a dead end."""
    assert any(allows(event, state, target) for event in Event for target in State if target != state)


def test_terminal_states_are_three() -> None:
    """What is delivered, superseded or abandoned is settled."""
    expected = {"delivered", "superseded", "abandoned"}
    assert expected == {str(state) for state in TERMINAL}


def test_live_is_every_state_but_three() -> None:
    """An attempt counts against buying again unless it is rejected, superseded or abandoned."""
    expected = {"rejected", "superseded", "abandoned"}
    assert expected == {str(state) for state in CLOSED}
    assert set(STATES.split()) - expected == {str(state) for state in LIVE}


def test_a_person_decides_about_four_states() -> None:
    """A refused, failed, lost or missing purchase waits for a person."""
    expected = {"rejected", "failed", "lost", "missing"}
    assert expected == {str(state) for state in FOR_A_PERSON}


def test_sending_is_entered_by_beginning_alone() -> None:
    """The only event that leads to ``sending`` is ``begin``, and only from nothing or ``recorded``."""
    expected = {(Event.BEGIN, State.RECORDED)}
    assert expected == {
        (event, source) for event in Event for source in State if allows(event, source, State.SENDING)
    }


def test_every_row_has_a_meaning_for_the_readme() -> None:
    """Each row of the table carries one phrase for people."""
    assert all(row.meaning for row in TRANSITIONS.values())
