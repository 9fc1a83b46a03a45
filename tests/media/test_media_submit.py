"""What the answer to the one POST means."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.outcomes import Accepted, AcceptedBatch, Refused, Unknown
from prefect_media_jobs.blocks.media import TornadoApi

REFUSALS = {400, 401, 402, 403, 422, 429}
STATUSES = [*range(300, 309), *range(400, 419), *range(421, 432), 451, *range(500, 512), 520, 522, 524, 599]


def yes() -> bool:
    """Say that there is time left."""
    return True


@pytest.fixture
def submit(server: Any, api: TornadoApi, make_attempt: Callable[..., Attempt]) -> Callable[..., Any]:
    """Submit once and make sure that one request left."""

    def submit(answer: Any, **overrides: Any) -> Any:
        server.will(answer)
        before = len(server.requests)
        outcome = api.submit(make_attempt(**overrides), yes)
        assert len(server.requests) == before + 1
        return outcome

    return submit


def test_the_request_is_the_one_of_the_contract(submit: Any, server: Any, reply: Any) -> None:
    """The POST carries source, settings, the attempt id as file name and idempotency key, and the API key."""
    submit(reply(201, {"job_id": "j-1"}))
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/jobs")
    assert request.json() == {
        "url": "https://user:pa55word@cdn.example/film.mp4?token=s3cr3t-value&sig=abcdefgh",
        "format": "mp4",
        "filename": "episode-42-attempt-1",
    }
    assert request.headers["x-api-key"] == "sk_live_0123456789abcdef"
    assert request.headers["x-idempotency-key"] == "episode-42-attempt-1"
    assert request.headers["content-type"] == "application/json"


def test_a_file_name_of_the_team_is_kept(submit: Any, server: Any, reply: Any) -> None:
    """Where the team gives a file name, that one is sent."""
    submit(reply(201, {"job_id": "j-1"}), settings={"filename": "pilot"})
    assert server.requests[0].json()["filename"] == "pilot"


@pytest.mark.parametrize("status", [200, 201, 202, 203, 206, 299])
def test_any_2xx_with_an_id_is_accepted(submit: Any, reply: Any, status: int) -> None:
    """The API's documents disagree on the status of success, so each 2xx with an id counts."""
    assert submit(reply(status, {"job_id": "j-1"})) == Accepted("j-1")


def test_every_other_status_is_unknown_unless_it_is_a_refusal(submit: Any, reply: Any) -> None:
    """Only the contract's refusals are a definite no; every other status may have created a job."""
    got = {status: type(submit(reply(status, {"error": "no"}))) for status in STATUSES}
    assert got == {status: Refused if status in REFUSALS else Unknown for status in STATUSES}


@pytest.mark.parametrize("status", sorted(REFUSALS))
def test_a_page_in_place_of_a_refusal_is_unknown(submit: Any, reply: Any, html: Any, status: int) -> None:
    """A refusal counts only from the API itself, not from a gateway or a bot check before it (C44)."""
    assert isinstance(submit(html(status)), Unknown)
    assert isinstance(submit(reply(status, b"\n<!DOCTYPE html>", "text/plain")), Unknown)
    assert isinstance(submit(reply(status, {"error": "x"}, cf_mitigated="challenge")), Unknown)


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (b'{"error":"Folder name too long"}', "application/json", "Folder name too long"),
        (b'{"message":"token used with different parameters"}', "application/json", "token used with"),
        (b'{"error":"Storage quota exceeded","message":"Ask"}', "application/json", "exceeded: Ask"),
        (b'{"error":{"code":7,"message":"nested"}}', "application/json", "nested"),
        (b'{"code":"E7"}', "application/json", "E7"),
        (b"Failed to deserialize the JSON body", "text/plain", "Failed to deserialize the JSON body"),
        (b"null", "application/json", "no reason given"),
        (b"", "", "no reason given"),
        (b'{"error":"your key sk_live_0123456789abcdef"}', "application/json", "your key [hidden]"),
    ],
)
def test_a_refusal_tells_the_reason(submit: Any, reply: Any, body: bytes, kind: str, reason: str) -> None:
    """The reason of a refusal is read from wherever the API puts it, and hides secrets."""
    outcome = submit(reply(422, body, kind))
    assert isinstance(outcome, Refused)
    assert outcome.status == 422
    assert reason in outcome.reason


@pytest.mark.parametrize(
    ("told", "job_id"),
    [
        ("j-1", "j-1"),
        (12345, "12345"),
        (0, "0"),
        ("0012345", "0012345"),
        ("a/b", "a/b"),
        ("a?b#c", "a?b#c"),
        (" job-1 ", " job-1 "),
        ("models/veo/operations/xyz", "models/veo/operations/xyz"),
        ("../../secrets", "../../secrets"),
        ("日本", "日本"),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_an_id_is_kept_as_received(submit: Any, reply: Any, told: object, job_id: str) -> None:
    """An id is opaque text; a whole number is the same id as its digits (C20, C22)."""
    assert submit(reply(200, {"job_id": told})) == Accepted(job_id)


@pytest.mark.parametrize(
    "told",
    [True, False, None, "", "  ", 1.0, float("nan"), {"id": "x"}, ["x"], "job-1\n", "a\x00b", "\ud800"],
)
def test_what_cannot_be_an_id_leaves_the_outcome_unknown(submit: Any, reply: Any, told: object) -> None:
    """Booleans, null, blanks, floats, objects and control characters are no id (C20, C22)."""
    assert isinstance(submit(reply(200, {"job_id": told})), Unknown)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"status":null,"message":"HTTPError"}', "application/json"),
        (b'{"data":null,"error":{"code":400}}', "application/json"),
        (b'{"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}', "application/json"),
        (b"<html>Sign in</html>", "text/html"),
        (b"", ""),
        (b"null", "application/json"),
        (b'["j-1"]', "application/json"),
        (b'{"job_id":"j-', "application/json"),
        (b'{"job_id":' + b"[" * 100_000, "application/json"),
        (b'{"job_id":' + b"1" * 5000 + b"}", "application/json"),
        (b"\xff\xfe\x00", "application/json"),
        (b'{"batch_id":"b-1"}', "application/json"),
    ],
)
def test_success_without_an_id_is_unknown(submit: Any, reply: Any, body: bytes, kind: str) -> None:
    """A 2xx without a readable id is never accepted and never a refusal (C17)."""
    assert isinstance(submit(reply(200, body, kind)), Unknown)


def test_an_answer_of_another_shape_is_kept_for_a_person(submit: Any, reply: Any) -> None:
    """The reason holds the body's beginning, so that a person can find the id by hand (C16)."""
    told = {"remainingCredits": 30, "media": [{"name": "m-1"}], "workflows": [{"name": "w-1"}]}
    outcome = submit(reply(200, told))
    assert isinstance(outcome, Unknown)
    assert '"name": "m-1"' in outcome.reason


@pytest.mark.parametrize(
    "case",
    [
        ("id", {"id": 12345}),
        ("task_id", {"task_id": "12345"}),
        ("operations.0.name", {"operations": [{"name": "12345"}]}),
    ],
)
def test_the_place_of_the_id_can_be_set(
    make_api: Any, make_attempt: Any, server: Any, reply: Any, case: tuple[str, object]
) -> None:
    """The block can be told where the API puts the id (C16)."""
    path, told = case
    server.will(reply(200, told))
    assert make_api(job_id_field=path).submit(make_attempt(), yes) == Accepted("12345")


@pytest.mark.parametrize(
    "path", ["operations.1.name", "operations.x.name", "operations.0.name.deeper", "other"]
)
def test_a_place_that_is_not_there_gives_no_id(
    make_api: Any, make_attempt: Any, server: Any, reply: Any, path: str
) -> None:
    """A path that leads nowhere leaves the outcome unknown."""
    server.will(reply(200, {"operations": [{"name": "12345"}], "job_id": "j-1"}))
    assert isinstance(make_api(job_id_field=path).submit(make_attempt(), yes), Unknown)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"batch_id": "b", "total_episodes": 2, "episode_jobs": ["1", "2"]}, AcceptedBatch("b", ("1", "2"))),
        ({"batch_id": "b", "total_videos": 2, "video_jobs": ["1", 2, "1"]}, AcceptedBatch("b", ("1", "2"))),
        ({"batch_id": "b", "episode_jobs": []}, AcceptedBatch("b", ())),
        ({"batch_id": "b", "episode_jobs": [], "job_id": "j"}, Accepted("j")),
        ({"batch_id": "b", "episode_jobs": ["1"], "job_id": "j"}, AcceptedBatch("b", ("1",))),
        ({"batch_id": "b", "job_id": "j"}, Accepted("j")),
        ({"job_id": "j", "cached": True}, Accepted("j")),
    ],
)
def test_one_source_can_become_a_batch(submit: Any, reply: Any, told: object, expected: object) -> None:
    """A show or playlist is answered with a batch, whose job ids are all kept."""
    assert submit(reply(201, told)) == expected


def test_a_huge_answer_is_not_read_to_its_end(
    make_api: Any, make_attempt: Any, server: Any, reply: Any
) -> None:
    """An answer over the cap is unknown, and only a bounded part of it is kept (C46)."""
    server.will(reply(200, {"job_id": "j-1", "image": "x" * 200_000}))
    outcome = make_api(max_body_bytes=1024).submit(make_attempt(), yes)
    assert isinstance(outcome, Unknown)
    assert "longer than 1024 bytes" in outcome.reason
    assert len(outcome.reason) < 700


def test_an_answer_that_never_ends_is_given_up(
    make_api: Any, make_attempt: Any, server: Any, raw_reply: Any
) -> None:
    """A body that keeps coming is cut off at the time-out (C46)."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.will(raw_reply(head, endless=b"1\r\n \r\n"))
    api = make_api(connect_timeout_s=0.1, submit_timeout_s=0.2, max_body_bytes=200_000_000)
    assert isinstance(api.submit(make_attempt(), yes), Unknown)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [200, 401, 503])
def test_an_answer_that_breaks_off_is_unknown(submit: Any, raw_reply: Any, status: int) -> None:
    """An answer that is cut within its body is unknown, whatever its status."""
    head = f"HTTP/1.1 {status} X\r\nContent-Length: 100\r\nContent-Type: application/json\r\n\r\n"
    assert isinstance(submit(raw_reply(head.encode() + b'{"job_id": "j-', then="close")), Unknown)


def test_an_id_that_was_read_whole_counts(submit: Any, raw_reply: Any) -> None:
    """An id is not thrown away because the connection broke right behind it."""
    body = json.dumps({"job_id": "j-1"}).encode()
    raw = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(body), body)
    assert submit(raw_reply(raw, then="close")) == Accepted("j-1")
