"""Recognising the job of an attempt whose answer was lost."""

from datetime import datetime, timedelta

import pytest

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Patience, decide_search
from prefect_media_jobs.blocks.domain.matching import hints, marker_in_key, marker_of
from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, JobList, ListedJob
from prefect_media_jobs.blocks.domain.states import Event, State
from tests.support.attempts import NOW, SOURCE, an_attempt

OURS = "episode-42-attempt-1"
NOBODY: frozenset[str] = frozenset()


def listed(
    job_id: str, marker: str | None, url: str = SOURCE, created_at: datetime | None = NOW
) -> ListedJob:
    """Return one entry of the job list."""
    return ListedJob(job_id, url, "Processing", marker, None, created_at)


def doubted(**changes: object) -> Attempt:
    """Return an attempt that may have been accepted."""
    return an_attempt(**{"state": State.UNCERTAIN, "job_id": None} | changes)


def search(
    *jobs: ListedJob, attempt: Attempt | None = None, owned: frozenset[str] = NOBODY, complete: bool = True
) -> Change:
    """Decide on a job list that holds these jobs."""
    return decide_search(attempt or doubted(), JobList(jobs, complete), owned, NOW)


def test_one_exact_match_is_adopted() -> None:
    """Exactly one job that carries the attempt's own marker is adopted, with the evidence kept."""
    change = search(listed("j-7", OURS), listed("j-8", "someone-else"), listed("j-9", None))
    assert (change.event, change.to, change.due_in_s) == (Event.ADOPT, State.SUBMITTED, 2.0)
    assert dict(change.facts) == {"job_id": "j-7", "reason": None}
    assert change.detail == f"job j-7: the job list shows our marker {OURS}"


def test_a_marker_is_compared_whole() -> None:
    """A file name that only begins like ours, or differs in case, is no match."""
    change = search(listed("j-1", f"{OURS}0"), listed("j-2", OURS.upper()), listed("j-3", OURS[:-1]))
    assert change.event is Event.SEARCH


def test_an_exact_match_beats_a_hint() -> None:
    """Other jobs of the same source do not stand in the way of the one with our marker."""
    assert search(listed("j-1", None), listed("j-2", OURS), listed("j-3", None)).facts["job_id"] == "j-2"


UNCLEAR = [
    ([listed("j-1", OURS), listed("j-2", OURS)], "2 jobs carry our marker (j-1, j-2)"),
    ([listed("j-1", None)], "1 jobs have the same source (j-1)"),
    ([listed("j-1", "other"), listed("j-2", None, "https://other.example.org/")], "no job of ours found"),
    ([], "no job of ours found"),
]


@pytest.mark.parametrize(("jobs", "found"), UNCLEAR)
def test_anything_else_stays_uncertain(jobs: list[ListedJob], found: str) -> None:
    """Several matches, hints alone, or nothing adopt no job: the search is written down, and repeated."""
    change = search(*jobs)
    assert (change.event, change.to, change.due_in_s) == (Event.SEARCH, State.UNCERTAIN, 60.0)
    assert "job_id" not in change.facts
    assert found in str(change.facts["reason"])


def test_absence_from_a_whole_list_is_still_no_proof() -> None:
    """Even a list that was read back to the time of sending never turns a doubt into a no."""
    assert search(complete=True).to is State.UNCERTAIN


def test_how_far_the_list_reached_is_written_down() -> None:
    """The reason tells whether absence means something."""
    assert "read back to the time of sending" in str(search(complete=True).facts["reason"])
    assert "only partly readable" in str(search(complete=False).facts["reason"])


def test_a_job_of_another_attempt_is_not_adopted() -> None:
    """A job that belongs to another attempt is never adopted, though it carries our marker."""
    assert search(listed("j-1", OURS), owned=frozenset({"j-1"})).event is Event.SEARCH


def test_an_owned_job_does_not_hide_ours() -> None:
    """Of two jobs with our marker, the one nobody owns is adopted."""
    change = search(listed("j-1", OURS), listed("j-2", OURS), owned=frozenset({"j-1"}))
    assert change.facts["job_id"] == "j-2"


def test_an_owned_job_is_no_hint() -> None:
    """A job of the same source that belongs to another attempt is not shown to the operator."""
    change = search(listed("j-1", None), owned=frozenset({"j-1"}))
    assert "no job of ours found" in str(change.facts["reason"])


def test_a_file_name_the_team_chose_is_no_marker() -> None:
    """Two requests may share a file name, so a job that carries it is only a hint."""
    attempt = doubted(settings={"filename": "trailer"})
    change = search(listed("j-1", "trailer"), attempt=attempt)
    assert marker_of(attempt) is None
    assert change.event is Event.SEARCH
    assert "same source (j-1)" in str(change.facts["reason"])


def test_our_id_is_no_marker_where_the_team_chose_a_name() -> None:
    """A job called like the attempt id is not ours if we sent another file name."""
    change = search(listed("j-1", OURS), attempt=doubted(settings={"filename": "trailer"}))
    assert change.event is Event.SEARCH


@pytest.mark.parametrize(
    ("expected", "created_at"),
    [
        (True, NOW),
        (True, NOW - timedelta(minutes=5)),  # clocks may differ
        (False, NOW - timedelta(minutes=5, seconds=1)),
        (True, NOW + timedelta(days=1)),
        (True, None),  # the list does not tell
    ],
)
def test_a_job_older_than_the_sending_is_no_hint(expected: bool, created_at: datetime | None) -> None:  # noqa: FBT001
    """A job that existed before the request left cannot be what it created."""
    found = JobList((listed("j-1", None, created_at=created_at),), complete=True)
    assert expected == bool(hints(doubted(), found))


def test_a_long_list_of_hints_is_cut() -> None:
    """The reason names five candidates at most."""
    reason = str(search(*(listed(f"j-{n}", None) for n in range(9))).facts["reason"])
    assert "9 jobs have the same source (j-0, j-1, j-2, j-3, j-4)." in reason


def test_the_source_is_not_written_down() -> None:
    """What a search writes into the ledger does not show the source's query."""
    assert "canary" not in repr(search(listed("j-1", None)))


def test_a_search_that_failed_says_nothing() -> None:
    """A job list that cannot be read leaves the attempt uncertain, and the failure is counted."""
    change = decide_search(doubted(), CouldNotAsk("HTTP 500", 90.0), NOBODY, NOW)
    assert (change.event, change.to, change.due_in_s) == (Event.UNANSWERED, State.UNCERTAIN, 90.0)
    assert dict(change.facts) == {"failures": 1, "reason": "HTTP 500"}


def test_the_same_search_again_is_no_news() -> None:
    """The history does not grow while searching keeps finding the same."""
    first = search()
    assert first.detail == first.facts["reason"]
    assert search(attempt=doubted(reason=first.facts["reason"])).detail is None


@pytest.mark.parametrize(
    ("expected", "age_s", "every_s"), [(60.0, 0, 60.0), (300.0, 99_999, 60.0), (900.0, 0, 900.0)]
)
def test_an_old_doubt_is_searched_for_more_seldom(expected: float, age_s: int, every_s: float) -> None:
    """The pause between searches grows with the age of the doubt, and is never below the patience."""
    attempt = doubted(changed_at=NOW - timedelta(seconds=age_s))
    patience = Patience(search_every_s=every_s)
    assert expected == decide_search(attempt, JobList((), complete=True), NOBODY, NOW, patience).due_in_s


@pytest.mark.parametrize(
    ("expected", "key"),
    [
        ("42", "videos/season/42.mp4"),
        ("a.b", "a.b.mp4"),
        ("plain", "plain"),
        (None, None),
        (None, ""),
    ],
)
def test_the_marker_of_an_object_key(expected: str | None, key: str | None) -> None:
    """The marker in an object key is its file name without folder and ending."""
    assert expected == marker_in_key(key)
