"""What an attempt needs next, by its state."""

from datetime import timedelta

import pytest

from prefect_media_jobs.blocks.domain.attempt import Action, PlannedAction, next_action
from prefect_media_jobs.blocks.domain.states import State
from tests.support.attempts import NOW, an_attempt

DAY_S = 86_400.0

NEXT: dict[str, str | None] = {
    "recorded": "submit",
    "sending": "reconcile",
    "uncertain": "reconcile",
    "submitted": "lookup",
    "completed": "inspect",
    "delivered": "handoff",
    "rejected": "review",
    "failed": "review",
    "lost": "review",
    "missing": "review",
    "superseded": None,
    "abandoned": None,
}


@pytest.mark.parametrize("state", list(State))
def test_each_state_has_its_next_step(state: State) -> None:
    """Each state leads to the action of the design, and a settled attempt to none."""
    expected = NEXT[state]
    assert expected == next_action(an_attempt(state=state), NOW, DAY_S)


@pytest.mark.parametrize("state", [State.SUPERSEDED, State.ABANDONED, State.DELIVERED])
def test_a_settled_twin_is_reviewed(state: State) -> None:
    """A settled attempt for which a second job may exist is shown to a person."""
    assert next_action(an_attempt(state=state, twin=True, due_at=None), NOW, DAY_S) is Action.REVIEW


def test_a_result_that_was_handed_over_needs_nothing() -> None:
    """A delivered attempt with nothing due is settled."""
    assert next_action(an_attempt(state=State.DELIVERED, due_at=None), NOW, DAY_S) is None


@pytest.mark.parametrize(
    ("expected", "asked_s_ago"),
    [(Action.SUBMIT, 0), (Action.SUBMIT, 86_400), (Action.REVIEW, 86_401), (Action.REVIEW, 10**7)],
)
def test_an_old_backlog_waits_for_a_person(expected: Action, asked_s_ago: int) -> None:
    """What was asked for too long ago is not sent by itself, so that a backlog is not a purchase."""
    attempt = an_attempt(state=State.RECORDED, asked_at=NOW - timedelta(seconds=asked_s_ago))
    assert expected is next_action(attempt, NOW, DAY_S)


def test_a_batch_is_reviewed() -> None:
    """A batch answer has no single job to look up, so a person sees it."""
    batch = an_attempt(job_id=None, batch_id="b-1", batch_job_ids=("j-1", "j-2"))
    assert next_action(batch, NOW, DAY_S) is Action.REVIEW


def test_planned_actions_compare_by_what_is_to_be_done() -> None:
    """Two plans are equal if they name the same steps, whatever the reasons and times."""
    assert PlannedAction("a", Action.LOOKUP, "j-1", "one", NOW) == PlannedAction("a", Action.LOOKUP, "j-1")
