"""What the answer to a look-up means; a failed question is not an answer."""

from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Link,
    NotFound,
    Running,
    Succeeded,
    Unrecognised,
    Unsuccessful,
)

SIGNED = "https://bucket.example/o.mp4?X-Amz-Signature=feedface&X-Amz-Credential=AKIA"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"status": "Pending"}, Running("Pending")),
        ({"status": "Pending", "step": "Queued"}, Running("Pending", "Queued")),
        ({"status": "PROCESSING", "step": "Muxing", "progress": 101}, Running("PROCESSING", "Muxing")),
        ({"status": "processing", "progress": "-1", "step": None}, Running("processing")),
        ({"status": "Processing", "filename": "a-1"}, Running("Processing", marker="a-1")),
        ({"status": "Completed"}, Succeeded("Completed")),
        ({"status": "completed", "s3_url": None, "file_size": 0}, Succeeded("completed")),
        ({"status": "Completed", "file_size": True}, Succeeded("Completed")),
        ({"status": "Completed", "file_size": "12"}, Succeeded("Completed")),
        (
            {"status": "Completed", "file_size": 12, "s3_key": "videos/a-1.mp4", "filename": "a-1"},
            Succeeded("Completed", None, 12, "videos/a-1.mp4", "a-1"),
        ),
        ({"status": "Completed", "s3_key": SIGNED}, Succeeded("Completed")),
        ({"status": "Completed", "s3_url": "file:///etc/passwd"}, Succeeded("Completed")),
        ({"status": "Failed", "error": "Bot detection"}, Unsuccessful("Failed", "Bot detection")),
        (
            {
                "status": "Failed",
                "error": "Job cancelled by user",
                "error_type": "error",
                "step": "Cancelled",
            },
            Unsuccessful("Failed", "Job cancelled by user (error, Cancelled)"),
        ),
        ({"status": "Warning", "error_type": "warning"}, Unsuccessful("Warning", "warning")),
        ({"status": "Skipped"}, Unsuccessful("Skipped", "no reason given")),
        ({"status": "Failed", "error": "two\nlines"}, Unsuccessful("Failed", "two lines")),
        (
            {"status": "Failed", "error": f"cannot read {SIGNED}"},
            Unsuccessful("Failed", "cannot read https://bucket.example/o.mp4"),
        ),
        ({"status": "aborted"}, Unrecognised("aborted")),
        ({"status": "Cancelled"}, Unrecognised("Cancelled")),
        ({"status": "expired", "filename": "a-1"}, Unrecognised("expired", "a-1")),
        ({"status": "model_downloading"}, Unrecognised("model_downloading")),
        ({"status": "THROTTLED"}, Unrecognised("THROTTLED")),
        ({"id": "j-1", "status": "Pending"}, Running("Pending")),
    ],
)
def test_each_status_has_its_outcome(look_up: Any, reply: Any, told: Any, expected: object) -> None:
    """Known words are understood in any case, unknown ones keep the job open (C34, C35, C50)."""
    assert look_up(reply(200, told)) == expected


def test_a_finished_job_gives_its_link(look_up: Any, reply: Any) -> None:
    """The signed link comes byte for byte, and nothing shows it."""
    outcome = look_up(reply(200, {"status": "Completed", "s3_url": SIGNED, "file_size": 5}))
    assert isinstance(outcome.link, Link)
    assert outcome.link.reveal() == SIGNED
    assert "feedface" not in repr(outcome)


@pytest.mark.parametrize(
    ("job_id", "told_id", "expected"),
    [
        ("12345", 12345, Succeeded),
        ("12345", "12345", Succeeded),
        ("12345", "0012345", CouldNotAsk),
        ("j-1", "j-2", CouldNotAsk),
        ("j-1", None, Succeeded),
        (" j ", "j", CouldNotAsk),
    ],
)
def test_an_answer_about_another_job_is_no_answer(
    look_up: Any, reply: Any, job_id: str, told_id: object, expected: type
) -> None:
    """The answer must be about the job that was asked for (C20)."""
    outcome = look_up(reply(200, {"id": told_id, "status": "Completed"}), job_id=job_id)
    assert isinstance(outcome, expected)


@pytest.mark.parametrize(
    ("job_id", "target"),
    [
        ("j-1", "/jobs/j-1"),
        ("a/b", "/jobs/a%2Fb"),
        ("a?b#c", "/jobs/a%3Fb%23c"),
        (" job ", "/jobs/%20job%20"),
        ("50%", "/jobs/50%25"),
        ("a%2Fb", "/jobs/a%252Fb"),
        ("../../secrets", "/jobs/..%2F..%2Fsecrets"),
        ("models/veo/operations/xyz", "/jobs/models%2Fveo%2Foperations%2Fxyz"),
        ("日本", "/jobs/%E6%97%A5%E6%9C%AC"),
        ("x" * 5000, "/jobs/" + "x" * 5000),
    ],
)
def test_an_id_is_one_step_of_the_path(
    look_up: Any, server: Any, reply: Any, job_id: str, target: str
) -> None:
    """No id can ask for anything but its own job (C22)."""
    look_up(reply(200, {"status": "Pending"}), job_id=job_id)
    assert [request.target for request in server.requests] == [target]


@pytest.mark.parametrize("job_id", ["", ".", "..", "...", "\ud800"])
def test_an_id_that_is_no_name_is_not_asked_about(look_up: Any, server: Any, reply: Any, job_id: str) -> None:
    """An id that servers would resolve to another address is not asked about (C22)."""
    assert isinstance(look_up(reply(200, {"status": "Completed"}), job_id=job_id), CouldNotAsk)
    assert server.requests == []


def test_a_path_in_the_base_url_is_kept(make_api: Any, server: Any, reply: Any) -> None:
    """An API below a path is asked below that path."""
    server.will(reply(200, {"status": "Pending"}))
    make_api(base_url=f"{server.url}/media/v1/").look_up("j-1")
    assert server.requests[0].target == "/media/v1/jobs/j-1"


def test_only_404_means_not_found(look_up: Any, reply: Any) -> None:
    """No status but 404 says anything about the job."""
    statuses = range(300, 600)
    got = {status for status in statuses if isinstance(look_up(reply(status, {"error": "x"})), NotFound)}
    assert got == {404}
    assert all(
        isinstance(look_up(reply(status, {"error": "x"})), CouldNotAsk)
        for status in (301, 400, 410, 429, 500)
    )


@pytest.mark.parametrize(
    ("body", "kind", "found_by"),
    [
        (b"null", "application/json", NotFound),
        (b'{"error":"Job not found"}', "application/json", NotFound),
        (b"", "", NotFound),
        (b"not found", "text/plain", NotFound),
        (b"<html>404</html>", "text/html", CouldNotAsk),
        (b"<h1>404</h1>", "text/plain", CouldNotAsk),
    ],
)
def test_not_found_must_come_from_the_api(
    look_up: Any, reply: Any, body: bytes, kind: str, found_by: type
) -> None:
    """A gateway's 404 page says nothing about the job."""
    assert isinstance(look_up(reply(404, body, kind)), found_by)


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("body", [{"error": "Invalid API Key"}, None])
def test_a_refused_key_is_about_the_key(look_up: Any, reply: Any, status: int, body: object) -> None:
    """401 and 403 are a matter of our configuration, not of the job (C42)."""
    outcome = look_up(reply(status, body))
    assert isinstance(outcome, CouldNotAsk)
    assert outcome.credentials
    assert "about the key, not about the job" in outcome.reason


def test_a_bot_check_is_not_about_the_key(look_up: Any, reply: Any, html: Any) -> None:
    """A page before the API says nothing about the key (C44)."""
    for answer in (html(403, cf_mitigated="challenge"), html(401), reply(403, {}, cf_mitigated="challenge")):
        outcome = look_up(answer)
        assert isinstance(outcome, CouldNotAsk)
        assert not outcome.credentials


def test_a_redirect_is_not_followed(look_up: Any, server: Any, reply: Any) -> None:
    """A redirected question is not answered, and the key is not carried along."""
    for status in (301, 302, 303, 307, 308):
        assert isinstance(look_up(reply(status, location=f"{server.url}/other")), CouldNotAsk)
    assert {request.target for request in server.requests} == {"/jobs/j-1"}


def test_trouble_on_the_way_is_over_when_it_is_over(
    api: Any, server: Any, reply: Any, html: Any, raw_reply: Any
) -> None:
    """A gateway page, an empty body, half a JSON and a reset are no verdicts; the next answer is (C27)."""
    server.will(
        html(502),
        reply(200, b""),
        reply(200, b'{"status":"runn'),
        raw_reply(b"", "reset"),
        reply(200, {"status": "Completed"}),
    )
    outcomes = [api.look_up("j-1") for _ in range(5)]
    assert [type(outcome) for outcome in outcomes] == [CouldNotAsk] * 4 + [Succeeded]


@pytest.mark.parametrize(
    "body", [b"null", b"[]", b'"Completed"', b"{}", b'{"status":null}', b'{"status":7}', b'{"status":" "}']
)
def test_an_answer_of_another_shape_is_no_verdict(look_up: Any, reply: Any, body: bytes) -> None:
    """Only a job with a status word is an answer."""
    assert isinstance(look_up(reply(200, body)), CouldNotAsk)
