"""Reading the job list back to a time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, JobList, ListedJob
from prefect_media_jobs.blocks.media.wire import read_instant

SINCE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def entry(number: int, age_s: float = 0, **more: object) -> dict[str, object]:
    """Make one entry, so many seconds older than the time searched for."""
    at = SINCE - timedelta(seconds=age_s)
    created_at = int(at.timestamp() * 1000)
    return {"id": f"j-{number}", "url": "https://x/y", "status": "Pending", "created_at": created_at} | more


def page(*entries: object) -> dict[str, object]:
    """Make one page of the list."""
    return {"jobs": list(entries), "total": 999, "limit": 100, "offset": 0}


def offsets(server: Any) -> list[int]:
    """Tell which pages were asked for."""
    return [int(parse_qs(urlsplit(request.target).query)["offset"][0]) for request in server.requests]


def test_an_entry_is_read_with_its_marker(api: Any, server: Any, reply: Any) -> None:
    """An entry gives id, source, status, time, and the marker from its object key."""
    listed = entry(1, s3_key="videos/shows/episode-42-attempt-1.mp4")
    server.will(reply(200, page(listed)), reply(200, page()))
    key = "videos/shows/episode-42-attempt-1.mp4"
    job = ListedJob("j-1", "https://x/y", "Pending", "episode-42-attempt-1", key, SINCE)
    assert api.find(SINCE) == JobList((job,), complete=True)
    first = server.requests[0]
    assert first.target == "/jobs?limit=100&offset=0"
    assert first.headers["x-api-key"].startswith("sk_live")


def test_pages_overlap_and_each_job_comes_once(api: Any, server: Any, reply: Any) -> None:
    """Jobs that arrive while the list is read are neither lost nor listed twice."""
    newest = [entry(number) for number in range(300, 0, -1)]
    server.will(
        reply(200, page(*newest[:100])),
        reply(200, page(*newest[85:185])),
        reply(200, page(*newest[170:270])),
        reply(200, page(*newest[255:])),
        reply(200, page()),
    )
    found = api.find(SINCE)
    assert found.complete
    assert [job.job_id for job in found.jobs] == [f"j-{number}" for number in range(300, 0, -1)]
    assert offsets(server) == [0, 90, 180, 270, 305]


def test_reading_stops_at_the_time_asked_for(api: Any, server: Any, reply: Any) -> None:
    """The list is read back to the time and five minutes for clocks, and no further."""
    server.will(reply(200, page(entry(3), entry(2, 299), entry(1, 301))))
    found = api.find(SINCE)
    assert [job.job_id for job in found.jobs] == ["j-3", "j-2"]
    assert found.complete
    assert len(server.requests) == 1


def test_a_list_that_is_too_long_is_not_complete(make_api: Any, server: Any, reply: Any) -> None:
    """A search is bounded, and says so: absence from such a list means nothing."""
    server.will(reply(200, page(*(entry(number) for number in range(100)))))
    found = make_api(max_list_pages=3).find(SINCE)
    assert not found.complete
    assert len(found.jobs) == 100
    assert offsets(server) == [0, 90, 180]


def test_a_server_with_smaller_pages_is_read_without_gaps(api: Any, server: Any, reply: Any) -> None:
    """What was received decides where the next page begins."""
    entries = [entry(number) for number in range(40, 0, -1)]
    server.will(
        reply(200, page(*entries[:20])),
        reply(200, page(*entries[10:30])),
        reply(200, page(*entries[20:])),
        reply(200, page(*entries[30:])),
        reply(200, page()),
    )
    assert len(api.find(SINCE).jobs) == 40
    assert offsets(server) == [0, 10, 20, 30, 40]


def test_a_first_page_that_cannot_be_read_is_no_answer(api: Any, server: Any, reply: Any, html: Any) -> None:
    """Without the first page nothing is known, and why is told."""
    for answer in (
        html(502),
        reply(200, {"error": "x"}),
        reply(200, b"["),
        reply(404, None),
        reply(200, None),
    ):
        server.will(answer)
        assert isinstance(api.find(SINCE), CouldNotAsk)
    server.will(reply(401, {"error": "Invalid API Key"}))
    assert api.find(SINCE).credentials
    server.will(reply(429, {"error": "busy"}, retry_after="9"))
    assert api.find(SINCE).retry_after_s == 9.0


def test_a_later_page_that_cannot_be_read_leaves_the_list_incomplete(
    api: Any, server: Any, reply: Any, html: Any
) -> None:
    """What was read before the trouble is kept and marked as not complete."""
    server.will(reply(200, page(entry(1))), html(502))
    found = api.find(SINCE)
    assert [job.job_id for job in found.jobs] == ["j-1"]
    assert not found.complete


def test_entries_without_an_id_are_left_out(api: Any, server: Any, reply: Any) -> None:
    """What cannot be named cannot be adopted, and does not spoil the rest."""
    broken = [None, 7, "x", {}, {"id": None}, {"id": ""}, {"id": 1.5}, {"id": True}]
    server.will(
        reply(200, page(*broken, {"id": 12}, {"id": "j", "url": 5, "status": None})), reply(200, page())
    )
    assert api.find(SINCE).jobs == (
        ListedJob("12", "", "", None, None, None),
        ListedJob("j", "", "", None, None, None),
    )


def test_a_link_in_place_of_a_key_is_dropped(api: Any, server: Any, reply: Any) -> None:
    """A signed link never becomes a stored reference."""
    server.will(reply(200, page(entry(1, s3_key="https://b/o.mp4?sig=feedface"))), reply(200, page()))
    (job,) = api.find(SINCE).jobs
    assert (job.object_key, job.marker) == (None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1772366400000, SINCE),
        (1772366400000.0, SINCE),
        (1772366400, SINCE),
        ("1772366400000", SINCE),
        ("2026-03-01T12:00:00Z", SINCE),
        ("2026-03-01T12:00:00", SINCE),
        ("2026-03-01T17:30:00+05:30", SINCE),
        ("2026-03-01 12:00:00.000", SINCE),
        ("1712011500000", datetime(2024, 4, 1, 22, 45, tzinfo=UTC)),
        (None, None),
        (True, None),
        ("yesterday", None),
        ("", None),
        ([], None),
        (float("nan"), None),
        (float("inf"), None),
        (10**400, None),
        (-(10**18), None),
        ("0001-01-01T00:00:00+10:00", None),
    ],
)
def test_times_are_read_leniently(value: object, expected: datetime | None) -> None:
    """Milliseconds, seconds and ISO texts become aware UTC; anything else is as if not told (C92)."""
    assert read_instant(value) == expected
