"""What the answer to the one POST, or its absence, means for an attempt."""

import pytest

from prefect_media_jobs.blocks.domain.decisions import Patience, decide_overdue, decide_submission
from prefect_media_jobs.blocks.domain.outcomes import (
    Accepted,
    AcceptedBatch,
    NotSent,
    Refused,
    SubmitOutcome,
    Unknown,
)
from prefect_media_jobs.blocks.domain.states import Event, State

ANSWERS: list[tuple[SubmitOutcome, Event, State, float | None, dict[str, object]]] = [
    (Accepted("j-1"), Event.ACKNOWLEDGE, State.SUBMITTED, 2.0, {"job_id": "j-1", "reason": None}),
    (
        AcceptedBatch("b-1", ("j-1", "j-2")),
        Event.ACKNOWLEDGE,
        State.SUBMITTED,
        None,
        {
            "batch_id": "b-1",
            "batch_job_ids": ("j-1", "j-2"),
            "reason": "The API made a batch of 2 jobs of this source.",
        },
    ),
    (
        Refused(422, "format is not known"),
        Event.REFUSE,
        State.REJECTED,
        None,
        {"reason": "HTTP 422: format is not known"},
    ),
    (NotSent("no route"), Event.NOT_SENT, State.RECORDED, 30.0, {"reason": "no route"}),
    (Unknown("read time-out"), Event.DOUBT, State.UNCERTAIN, 2.0, {"reason": "read time-out"}),
]


@pytest.mark.parametrize(
    ("outcome", "event", "to", "due_in_s", "facts"), ANSWERS, ids=lambda value: type(value).__name__
)
def test_each_answer_is_one_change(
    outcome: SubmitOutcome, event: Event, to: State, due_in_s: float | None, facts: dict[str, object]
) -> None:
    """Each kind of answer leads to one state, with the facts it told and the time of the next step."""
    change = decide_submission(outcome)
    assert (event, to, due_in_s, facts) == (change.event, change.to, change.due_in_s, dict(change.facts))
    assert change.detail


@pytest.mark.parametrize("outcome", [Unknown("HTTP 503"), Unknown("HTTP 409"), Unknown("no id in a 201")])
def test_an_unclear_answer_is_never_a_no(outcome: Unknown) -> None:
    """Whatever may have arrived stays uncertain; it is neither rejected nor recorded again."""
    assert decide_submission(outcome).to is State.UNCERTAIN


def test_a_batch_is_not_looked_up_by_itself() -> None:
    """A batch answer has no single job to ask about, so nothing is due and a person sees it."""
    assert decide_submission(AcceptedBatch("b-1", ())).due_in_s is None


def test_sending_again_waits_as_long_as_told() -> None:
    """What provably never left is due again after the pause of the patience."""
    assert decide_submission(NotSent("refused"), Patience(resend_after_s=5.0)).due_in_s == 5.0


def test_a_silent_sender_leaves_a_doubt() -> None:
    """An attempt whose sender never reported back becomes uncertain and is reconciled at once."""
    change = decide_overdue()
    assert (change.event, change.to, change.due_in_s) == (Event.DOUBT, State.UNCERTAIN, 0.0)
    assert "may have arrived" in str(change.facts["reason"])
