"""Looking at a finished file through its signed link."""

from collections.abc import Callable
from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Damaged,
    FileMissing,
    Forbidden,
    Intact,
    LinkExpired,
)

FILM = b"\x00\x00\x00\x20ftypisom" + b"\x00" * 988
SIGNED = "/o%2Fp/a+b'c.mp4?X-Amz-Signature=feed%2Fface+x&b=[1]|{2}\"^`&X-Amz-Credential=AKIA/x"
EXPIRED = b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>"
Look = Callable[..., Any]


@pytest.fixture
def open_result(api: Any, server: Any, storage: Any, reply: Any) -> Look:
    """Look at a file of which the storage gives these answers."""

    def open_result(*answers: Any, size_bytes: int | None = None, path: str = SIGNED, **job: Any) -> Any:
        told = {"id": "j-1", "status": "Completed", "s3_url": storage.url + path, "file_size": 1000} | job
        server.will(reply(200, told))
        storage.will(*answers)
        return api.open_result("j-1", size_bytes)

    return open_result


@pytest.fixture
def part(reply: Any) -> Callable[..., Any]:
    """Make the storage's answer to a request for the first bytes."""

    def part(body: bytes = FILM, total: int | str = 1000) -> Any:
        return reply(206, body, "video/mp4", content_range=f"bytes 0-{len(body) - 1}/{total}")

    return part


def test_a_file_that_is_there_is_intact(open_result: Look, part: Any, storage: Any) -> None:
    """A file with the right size and first bytes is intact, and the link it was read from is given."""
    outcome = open_result(part(), s3_key="videos/o.mp4")
    assert outcome == Intact(outcome.link, 1000, "mp4", "videos/o.mp4")
    assert outcome.link.reveal() == storage.url + SIGNED


def test_the_link_is_asked_for_byte_by_byte(open_result: Look, part: Any, storage: Any) -> None:
    """Signed characters are not re-encoded on the way, and only a GET for the first bytes is made (C52)."""
    open_result(part())
    (request,) = storage.requests
    assert (request.method, request.target) == ("GET", SIGNED)
    assert request.headers["range"] == "bytes=0-4095"
    assert request.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("", "/"),
        ("?sig=a", "/?sig=a"),
        ("/a/../b//c/.?x=%2e", "/a/../b//c/.?x=%2e"),
        ("/a#fragment", "/a"),
        ("/a b?ü=1", "/a%20b?%C3%BC=1"),
    ],
)
def test_only_what_cannot_be_sent_is_changed(
    open_result: Look, part: Any, storage: Any, path: str, target: str
) -> None:
    """Dot segments stay, fragments are not sent, and blanks and foreign letters are encoded."""
    open_result(part(), path=path)
    assert storage.requests[0].target == target


def test_the_api_key_never_reaches_the_storage(
    open_result: Look, part: Any, reply: Any, storage: Any
) -> None:
    """Neither the storage nor a host it redirects to gets the key (C62)."""
    outcome = open_result(
        reply(302, location="/moved?sig=1"), reply(307, location=f"{storage.url}/x"), part()
    )
    assert isinstance(outcome, Intact)
    assert [request.target for request in storage.requests] == [SIGNED, "/moved?sig=1", "/x"]
    for request in storage.requests:
        assert b"sk_live" not in request.head
        assert "authorization" not in request.headers


def test_a_redirect_keeps_its_link_byte_by_byte(
    open_result: Look, part: Any, reply: Any, storage: Any
) -> None:
    """A signed link that comes as a redirect is asked for as it is."""
    open_result(reply(302, location=f"{storage.url}/m?sig=a%2fb'c&e="), part())
    assert storage.requests[1].target == "/m?sig=a%2fb'c&e="


def test_redirects_are_bounded(open_result: Look, reply: Any, storage: Any) -> None:
    """A storage that redirects in circles is given up after three redirects."""
    assert isinstance(open_result(reply(302, location="/again")), CouldNotAsk)
    assert len(storage.requests) == 4


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "ftp://x/y", "http://[", "http://127.0.0.1:99999/"]
)
def test_a_redirect_to_nowhere_is_no_answer(open_result: Look, reply: Any, location: str) -> None:
    """A redirect to anything but a web address says nothing about the file."""
    assert isinstance(open_result(reply(302, location=location)), CouldNotAsk)


def test_an_expired_link_is_renewed_once(open_result: Look, part: Any, reply: Any, server: Any) -> None:
    """Expired means: ask the API for a fresh link by job id, and look again (C55)."""
    assert isinstance(open_result(reply(403, EXPIRED, "application/xml"), part()), Intact)
    assert [request.target for request in server.requests] == ["/jobs/j-1"] * 2


def test_a_fresh_link_that_is_expired_is_told(
    open_result: Look, reply: Any, server: Any, storage: Any
) -> None:
    """If the fresh link is expired as well, that is the outcome; there is no third look."""
    assert isinstance(open_result(reply(403, EXPIRED, "application/xml")), LinkExpired)
    assert (len(server.requests), len(storage.requests)) == (2, 2)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, CouldNotAsk), (403, Forbidden), (404, FileMissing), (410, FileMissing), (416, Damaged)]
    + [(status, CouldNotAsk) for status in (304, 408, 409, 429, 500, 502, 503, 504)],
)
def test_a_refusal_is_judged_by_its_status(
    open_result: Look, reply: Any, storage: Any, status: int, kind: type
) -> None:
    """Without words that tell more, the status decides; nothing but "expired" is asked twice."""
    assert isinstance(open_result(reply(status, b"<Error><Code>X</Code></Error>", "application/xml")), kind)
    assert len(storage.requests) == 1


def test_a_file_is_checked_against_the_jobs_own_figure(open_result: Look, part: Any) -> None:
    """Size is checked against what the API says now, else against what it said before."""
    assert isinstance(open_result(part(), file_size=999), Damaged)
    assert isinstance(open_result(part(), size_bytes=999), Intact)
    assert isinstance(open_result(part(), file_size=None, size_bytes=999), Damaged)
    assert isinstance(open_result(part(), file_size=None, size_bytes=1000), Intact)
    assert isinstance(open_result(part(), file_size=None), Intact)


def test_a_server_that_ignores_the_range_is_not_read_to_its_end(
    open_result: Look, raw_reply: Any, storage: Any
) -> None:
    """A whole file in place of its first bytes is judged by these, and the connection is closed (C60)."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 5000000000\r\n\r\n"
    outcome = open_result(raw_reply(head + FILM, endless=b"\x00" * 65536), file_size=5_000_000_000)
    assert isinstance(outcome, Intact)
    storage.settle()


@pytest.mark.parametrize("then", ["close", "reset"])
@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 206 X\r\nContent-Length: 1000\r\n\r\n" + FILM[:40]])
def test_a_broken_transfer_is_no_verdict(open_result: Look, raw_reply: Any, raw: bytes, then: str) -> None:
    """A transfer that breaks off says nothing about the file (C58)."""
    assert isinstance(open_result(raw_reply(raw, then)), CouldNotAsk)


def test_a_silent_or_endless_storage_is_given_up(
    make_api: Any, server: Any, storage: Any, reply: Any, raw_reply: Any
) -> None:
    """A storage that does not answer in time says nothing about the file."""
    api = make_api(connect_timeout_s=0.1, lookup_timeout_s=0.2)
    server.will(reply(200, {"status": "Completed", "s3_url": f"{storage.url}/o"}))
    for answer in (
        raw_reply(b"", "hang"),
        raw_reply(b"HTTP/1.1 206 X\r\nContent-Length: 1000\r\n\r\n" + FILM[:40], "hang"),
    ):
        storage.will(answer)
        assert isinstance(api.open_result("j-1", None), CouldNotAsk)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"s3_url": None}, FileMissing("The API says done and gives no link.")),
        ({"s3_url": ""}, FileMissing("The API says done and gives no link.")),
        ({"s3_url": "not a link"}, FileMissing("The API says done and gives no link.")),
        ({"status": "Processing"}, CouldNotAsk("The API no longer says done, but Processing.")),
        ({"status": "aborted"}, CouldNotAsk("The API no longer says done, but aborted.")),
        (
            {"status": "Failed", "error": "deleted"},
            CouldNotAsk("The API no longer says done, but Failed, deleted."),
        ),
    ],
)
def test_without_a_link_the_storage_is_not_asked(
    open_result: Look, part: Any, storage: Any, told: Any, expected: object
) -> None:
    """What the API says about the job comes first (C67)."""
    assert open_result(part(), **told) == expected
    assert storage.requests == []


def test_a_failed_question_to_the_api_is_passed_on(api: Any, server: Any, reply: Any) -> None:
    """If the API cannot be asked, or does not find the job, nothing is said about the file."""
    server.will(reply(429, {"error": "busy"}, retry_after="5"))
    assert api.open_result("j-1", None).retry_after_s == 5.0
    server.will(reply(401, {"error": "no"}))
    assert api.open_result("j-1", None).credentials
    server.will(reply(404, None))
    assert isinstance(api.open_result("j-1", None), CouldNotAsk)
