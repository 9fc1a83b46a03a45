"""What looking at a finished file means for its attempt."""

from datetime import timedelta

import pytest

from prefect_media_jobs.blocks.domain.decisions import Patience, decide_inspection
from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Damaged,
    FileMissing,
    Forbidden,
    InspectOutcome,
    Intact,
    Link,
    LinkExpired,
)
from prefect_media_jobs.blocks.domain.states import Event, State
from tests.support.attempts import NOW, an_attempt

LINK = Link("https://bucket.example.org/42.mp4?X-Amz-Signature=canary")
DONE = an_attempt(state=State.COMPLETED, object_key="from/lookup.mp4")


def test_an_intact_file_is_delivered() -> None:
    """An intact file leads to ``delivered``, with its real size, and the handoff is due at once."""
    change = decide_inspection(DONE, Intact(LINK, 123, "mp4", "videos/42.mp4"), NOW)
    assert (change.event, change.to, change.due_in_s) == (Event.DELIVER, State.DELIVERED, 0.0)
    expected = {"size_bytes": 123, "object_key": "videos/42.mp4", "reason": None, "failures": 0}
    assert expected == dict(change.facts)
    assert change.detail == "123 bytes of mp4"


def test_a_known_object_key_is_not_forgotten() -> None:
    """An inspection that was told no object key does not overwrite the one already stored."""
    assert "object_key" not in decide_inspection(DONE, Intact(LINK, 123, "mp4"), NOW).facts


def test_the_signed_link_is_not_stored() -> None:
    """No decision carries the link the file was read from."""
    assert "canary" not in repr(decide_inspection(DONE, Intact(LINK, 123, "mp4", "k"), NOW))


@pytest.mark.parametrize("age", [timedelta(0), timedelta(minutes=10), timedelta(days=30)])
def test_an_expired_link_is_never_a_missing_file(age: timedelta) -> None:
    """However long links keep expiring, the attempt stays completed and is looked at again."""
    change = decide_inspection(DONE, LinkExpired("expired"), NOW + age)
    assert (change.event, change.to) == (Event.UNANSWERED, State.COMPLETED)
    assert change.due_in_s is not None


@pytest.mark.parametrize("age", [timedelta(0), timedelta(days=30)])
def test_a_storage_that_cannot_be_asked_is_never_a_missing_file(age: timedelta) -> None:
    """A storage that is down says nothing about the file."""
    change = decide_inspection(DONE, CouldNotAsk("HTTP 503", 60.0), NOW + age)
    assert (change.event, change.to) == (Event.UNANSWERED, State.COMPLETED)


NO_FILE: list[InspectOutcome] = [FileMissing("NoSuchKey"), Forbidden("HTTP 403"), Damaged("empty")]


@pytest.mark.parametrize("outcome", NO_FILE, ids=lambda outcome: type(outcome).__name__)
@pytest.mark.parametrize(("expected", "age_s"), [(State.COMPLETED, 599), (State.MISSING, 600)])
def test_no_file_has_a_budget_of_time(outcome: InspectOutcome, expected: State, age_s: int) -> None:
    """Done without an intact file is borne for a while; then it is missing and a person decides."""
    change = decide_inspection(DONE, outcome, NOW + timedelta(seconds=age_s))
    assert expected is change.to
    assert (change.due_in_s is None) == (expected is State.MISSING)


def test_the_budget_can_be_told() -> None:
    """How long a finished job may be without a file is the caller's choice."""
    patience = Patience(no_file_within_s=0.0)
    assert decide_inspection(DONE, FileMissing("gone"), NOW, patience).to is State.MISSING


def test_missing_says_why() -> None:
    """What made the file missing is kept as the reason and in the history."""
    change = decide_inspection(DONE, Damaged("The file is empty."), NOW + timedelta(hours=1))
    assert change.facts["reason"] == change.detail == "The file is empty."
