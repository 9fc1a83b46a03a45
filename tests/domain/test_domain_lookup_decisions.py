"""What the answer to a look-up means, and what no answer means."""

from datetime import timedelta

import pytest

from prefect_media_jobs.blocks.domain.decisions import Patience, decide_lookup, unanswered
from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Link,
    LookupOutcome,
    NotFound,
    Running,
    Succeeded,
    Unrecognised,
    Unsuccessful,
)
from prefect_media_jobs.blocks.domain.states import Event, State
from tests.support.attempts import NOW, an_attempt

ANSWERED = {"lookups": 8, "failures": 0, "not_found_count": 0, "not_found_since": None}
LINK = Link("https://bucket.example.org/42.mp4?X-Amz-Signature=canary")
AGED = NOW - timedelta(minutes=10)

ANSWERS: list[tuple[LookupOutcome, Event, State, float | None, dict[str, object]]] = [
    (
        Running("Pending"),
        Event.PROGRESS,
        State.SUBMITTED,
        60.0,
        {"remote_status": "Pending", "reason": None},
    ),
    (
        Running("Processing", "Downloading"),
        Event.PROGRESS,
        State.SUBMITTED,
        60.0,
        {"remote_status": "Processing, Downloading", "reason": None},
    ),
    (
        Running("Processing", "Processing"),
        Event.PROGRESS,
        State.SUBMITTED,
        60.0,
        {"remote_status": "Processing", "reason": None},
    ),
    (
        Unrecognised("aborted"),
        Event.PROGRESS,
        State.SUBMITTED,
        300.0,
        {
            "remote_status": "aborted",
            "reason": "The API answered with a status this version does not know: aborted",
        },
    ),
    (
        Succeeded("Completed", LINK, 123, "videos/42.mp4"),
        Event.COMPLETE,
        State.COMPLETED,
        0.0,
        {"remote_status": "Completed", "size_bytes": 123, "object_key": "videos/42.mp4", "reason": None},
    ),
    (
        Succeeded("Completed"),
        Event.COMPLETE,
        State.COMPLETED,
        0.0,
        {"remote_status": "Completed", "size_bytes": None, "object_key": None, "reason": None},
    ),
    (
        Unsuccessful("Failed", "source is private"),
        Event.FAIL,
        State.FAILED,
        None,
        {"remote_status": "Failed", "reason": "Failed: source is private"},
    ),
]


@pytest.mark.parametrize(("outcome", "event", "to", "due_in_s", "facts"), ANSWERS)
def test_each_answer_is_one_change(
    outcome: LookupOutcome, event: Event, to: State, due_in_s: float | None, facts: dict[str, object]
) -> None:
    """Each answer leads to one state, counts as a look-up and forgets what went wrong before."""
    attempt = an_attempt(
        changed_at=AGED, lookups=7, failures=3, not_found_count=2, not_found_since=AGED, reason="old"
    )
    change = decide_lookup(attempt, outcome, NOW)
    expected = (event, to, due_in_s, ANSWERED | facts)
    assert expected == (change.event, change.to, change.due_in_s, dict(change.facts))


@pytest.mark.parametrize("word", ["aborted", "canceled", "model_downloading", "THROTTLED", "", "日本"])
def test_an_unknown_status_word_keeps_the_job_open(word: str) -> None:
    """A status word nobody has told us is shown and asked about again, never taken for an end."""
    change = decide_lookup(an_attempt(), Unrecognised(word), NOW)
    assert change.to is State.SUBMITTED
    assert change.due_in_s is not None
    assert word in str(change.detail)


def test_a_job_may_go_back_in_its_queue() -> None:
    """Progress that goes backwards is the same attempt and no alarm."""
    change = decide_lookup(an_attempt(remote_status="Processing"), Running("Pending"), NOW)
    assert (change.event, change.facts["reason"]) == (Event.PROGRESS, None)


def test_the_same_answer_again_is_no_news() -> None:
    """The history does not grow while the API keeps saying the same."""
    said = decide_lookup(an_attempt(), Running("Pending"), NOW)
    again = decide_lookup(an_attempt(remote_status="Pending"), Running("Pending"), NOW)
    assert (said.detail, again.detail) == ("Pending", None)


def test_a_signed_link_is_not_a_fact() -> None:
    """A decision never carries the link that came with the answer."""
    change = decide_lookup(an_attempt(), Succeeded("Completed", LINK, 1, "k"), NOW)
    assert "canary" not in repr(change)
    assert "link" not in change.facts


@pytest.mark.parametrize(
    ("expected", "age_s", "count", "since_s"),
    [
        (State.SUBMITTED, 29, 99, 99_999),  # within the grace after creation
        (State.SUBMITTED, 30, 0, None),  # the first that counts
        (State.SUBMITTED, 9_999, 4, 3_599),  # often enough, too young
        (State.SUBMITTED, 9_999, 3, 9_999),  # old enough, too seldom
        (State.SUBMITTED, 9_999, 0, None),  # an old job, not found for the first time
        (State.LOST, 9_999, 4, 3_600),  # both
        (State.LOST, 9_999, 99, 99_999),
    ],
)
def test_not_found_needs_repetition_and_age(
    expected: State, age_s: int, count: int, since_s: int | None
) -> None:
    """A job is lost only after it was not found often enough, for long enough, past its first seconds."""
    attempt = an_attempt(
        changed_at=NOW - timedelta(seconds=age_s),
        not_found_count=count,
        not_found_since=None if since_s is None else NOW - timedelta(seconds=since_s),
    )
    change = decide_lookup(attempt, NotFound("Job not found"), NOW)
    assert expected is change.to
    assert (change.due_in_s is None) == (expected is State.LOST)


def test_not_found_within_the_grace_is_not_counted() -> None:
    """Just after creation "not found" counts for nothing and is asked again soon."""
    change = decide_lookup(an_attempt(), NotFound("null"), NOW + timedelta(seconds=10))
    assert (change.event, change.due_in_s) == (Event.UNANSWERED, 2.0)
    assert "not_found_count" not in change.facts
    assert "not visible" in str(change.facts["reason"])


def test_the_count_of_not_found_starts_with_the_first() -> None:
    """The first "not found" sets the instant from which the age is counted; later ones keep it."""
    attempt = an_attempt(changed_at=AGED)
    first = decide_lookup(attempt, NotFound("gone"), NOW)
    assert (first.facts["not_found_count"], first.facts["not_found_since"]) == (1, NOW)
    known = an_attempt(changed_at=AGED, not_found_count=1, not_found_since=NOW)
    later = decide_lookup(known, NotFound("gone"), NOW + timedelta(minutes=12))
    assert (later.facts["not_found_count"], later.facts["not_found_since"]) == (2, NOW)


def test_the_patience_can_be_told() -> None:
    """How long "not found" is borne is the caller's choice."""
    patience = Patience(not_found_grace_s=0.0, lost_after_s=0.0, lost_after_count=1)
    assert decide_lookup(an_attempt(), NotFound("gone"), NOW, patience).to is State.LOST


def test_being_lost_says_how_it_was_found_out() -> None:
    """The reason of a lost job names how often and since when it was not found."""
    attempt = an_attempt(changed_at=AGED, not_found_count=4, not_found_since=NOW - timedelta(hours=2))
    change = decide_lookup(attempt, NotFound("Job not found"), NOW)
    expected = "Not found 5 times since 2026-07-01 10:00:00 UTC: Job not found"
    assert expected == change.facts["reason"] == change.detail


@pytest.mark.parametrize(
    "outcome",
    [
        CouldNotAsk("HTTP 502"),
        CouldNotAsk("HTTP 401: the key is not accepted", credentials=True),
        CouldNotAsk("HTTP 429", retry_after_s=17.0),
    ],
)
@pytest.mark.parametrize("failures", [0, 1, 500])
def test_a_failed_question_changes_nothing_about_the_job(outcome: CouldNotAsk, failures: int) -> None:
    """A question that failed is counted and asked again; nothing the job told before is touched."""
    attempt = an_attempt(failures=failures, remote_status="Processing", not_found_count=3)
    change = decide_lookup(attempt, outcome, NOW)
    assert (change.event, change.to) == (Event.UNANSWERED, State.SUBMITTED)
    assert dict(change.facts) == {"failures": failures + 1, "reason": outcome.reason}
    assert change.due_in_s is not None


@pytest.mark.parametrize("state", [State.UNCERTAIN, State.SUBMITTED, State.COMPLETED])
def test_a_failed_question_keeps_the_state(state: State) -> None:
    """Whatever an attempt was waiting for, a failed question leaves it there."""
    change = unanswered(an_attempt(state=state), CouldNotAsk("HTTP 500"), NOW)
    assert (change.event, change.to) == (Event.UNANSWERED, state)


@pytest.mark.parametrize(
    ("expected", "failures", "retry_after_s"),
    [(4.0, 0, None), (8.0, 1, None), (300.0, 9, None), (120.0, 0, 120.0), (8.0, 1, 1.0), (3600.0, 0, 3600.0)],
)
def test_failed_questions_are_asked_more_and_more_seldom(
    expected: float, failures: int, retry_after_s: float | None
) -> None:
    """Each failure in a row doubles the pause, and the API's own wish is never undercut."""
    change = unanswered(an_attempt(failures=failures), CouldNotAsk("HTTP 503", retry_after_s), NOW)
    assert expected == change.due_in_s


def test_a_clock_that_went_back_is_age_zero() -> None:
    """An instant before the last change counts as no age, not as a negative one."""
    change = decide_lookup(an_attempt(), Running("Pending"), NOW - timedelta(hours=1))
    assert change.due_in_s == 2.0
