from collections.abc import Callable
from typing import Any

import httpx
import pytest

from prefect_media_jobs.deployments.sandbox.storage import parse_range

Start = Callable[..., Any]


def fetch(link: str, method: str = "GET", **headers: str) -> httpx.Response:
    """Follow a signed link."""
    return httpx.request(
        method, link, headers={k.replace("_", "-"): v for k, v in headers.items()}, trust_env=False
    )


def code_in(answer: httpx.Response) -> str:
    """Return the code of an XML error."""
    return answer.text.partition("<Code>")[2].partition("</Code>")[0]


@pytest.mark.parametrize(
    ("asked", "status", "told", "part"),
    [
        ("bytes=0-15", 206, "bytes 0-15/100000", slice(0, 16)),
        ("bytes=99990-", 206, "bytes 99990-99999/100000", slice(99_990, None)),
        ("bytes=-10", 206, "bytes 99990-99999/100000", slice(-10, None)),
        ("bytes=5-999999", 206, "bytes 5-99999/100000", slice(5, None)),
        ("bytes=5-1", 200, None, slice(None)),
        ("bytes=0-1,4-5", 200, None, slice(None)),
        ("lines=0-1", 200, None, slice(None)),
    ],
)
def test_ranges(shared: Any, asked: str, status: int, told: str | None, part: slice) -> None:
    """A range is answered with 206, its place and its bytes; what is no single range with the whole file."""
    answer = fetch(shared.finished()["s3_url"], range=asked)
    assert (answer.status_code, answer.headers.get("content-range")) == (status, told)
    assert answer.content == shared.source.read_bytes()[part]


def test_a_range_behind_the_end_cannot_be_had(shared: Any) -> None:
    """A range that begins behind the end is answered with 416 and the file's size."""
    answer = fetch(shared.finished()["s3_url"], range="bytes=100000-")
    assert (answer.status_code, answer.headers["content-range"]) == (416, "bytes */100000")


@pytest.mark.parametrize("size", [0, 1, 10])
def test_no_range_of_an_empty_part_is_granted(size: int) -> None:
    """The last zero bytes of a file are an empty part, whatever its size."""
    assert parse_range("bytes=-0", size) == (size, size)


def test_the_content_type_follows_the_format(shared: Any) -> None:
    """Each format comes with its own content type."""
    assert fetch(shared.finished(format="mkv")["s3_url"]).headers["content-type"] == "video/x-matroska"
    assert fetch(shared.finished(audio_only=True)["s3_url"]).headers["content-type"] == "audio/mp4"


def test_a_link_expires_by_itself(start: Start) -> None:
    """After its lifetime a link answers 403 "Request has expired", and a new lookup brings a good one."""
    api = start(link_lifetime_s=1)
    job = api.finished()
    expired = api.until(lambda: fetch(job["s3_url"]), lambda answer: answer.status_code != 200)
    assert (expired.status_code, code_in(expired)) == (403, "AccessDenied")
    assert "<Message>Request has expired</Message>" in expired.text
    assert fetch(api.look_up(job["id"])["s3_url"]).status_code == 200


def test_links_can_be_expired_at_once(api: Any) -> None:
    """The switch ends all links made so far, and only those."""
    job = api.finished()
    api.sandbox.expire_links()
    assert "Request has expired" in fetch(job["s3_url"]).text
    assert fetch(api.look_up(job["id"])["s3_url"]).status_code == 200


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("X-Amz-Expires=86400", "X-Amz-Expires=99999"),
        ("/a.mp4", "/b.mp4"),
        ("X-Amz-Signature=", "X-Amz-Signature=0"),
    ],
)
def test_a_link_cannot_be_altered(shared: Any, old: str, new: str) -> None:
    """A changed lifetime, object or signature is answered with 403 SignatureDoesNotMatch."""
    link = shared.finished(filename="a")["s3_url"]
    answer = fetch(link.replace(old, new))
    assert (answer.status_code, code_in(answer)) == (403, "SignatureDoesNotMatch")


def test_the_storage_needs_a_signature(shared: Any) -> None:
    """Without a signature nothing is handed out, API key or not."""
    link = shared.finished()["s3_url"].partition("?")[0]
    assert fetch(link, x_api_key=shared.sandbox.api_key).status_code == 403


def test_head_is_not_covered_by_the_link(shared: Any) -> None:
    """HEAD on a link that is good for GET is answered with 403 and no body."""
    answer = fetch(shared.finished()["s3_url"], "HEAD")
    assert (answer.status_code, answer.content) == (403, b"")


def test_a_lost_file_is_no_such_key(shared: Any) -> None:
    """When the file is lost behind the API's back, a fresh link answers 404 NoSuchKey."""
    job = shared.finished()
    shared.sandbox.delete_file(job["id"])
    fresh = shared.look_up(job["id"])["s3_url"]
    assert (fetch(fresh).status_code, code_in(fetch(fresh))) == (404, "NoSuchKey")


def test_a_second_permission_is_refused(shared: Any) -> None:
    """An Authorization header beside the signature is answered with 400, as S3 does."""
    answer = fetch(shared.finished()["s3_url"], authorization="Bearer x")
    assert (answer.status_code, code_in(answer)) == (400, "InvalidArgument")


def test_an_api_key_sent_to_the_storage_is_noticed(api: Any) -> None:
    """The bill counts storage requests that carried the API key, because that is a leak."""
    link = api.finished()["s3_url"]
    fetch(link)
    assert api.sandbox.bill().keyed_storage_requests == 0
    fetch(link, x_api_key="secret")
    assert api.sandbox.bill().keyed_storage_requests == 1


def test_a_finished_file_outlives_a_restart(api: Any, start: Start) -> None:
    """A new sandbox in the same folder has forgotten the jobs, but the files are still there."""
    job = api.finished(filename="kept")
    again = start()
    assert again.http.get(f"/jobs/{job['id']}").status_code == 404
    assert list(again.source.parent.parent.glob("sandbox/objects/videos/kept.mp4"))
