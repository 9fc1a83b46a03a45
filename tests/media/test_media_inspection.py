"""The storage's answers, in each vendor's dialect, and what they say about the file."""

import pytest

from prefect_media_jobs.blocks.domain.inspection import FIRST_BYTES, PHRASES, Sound, container_of, judge_file
from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Damaged,
    FileMissing,
    Forbidden,
    LinkExpired,
)

MP4 = b"\x00\x00\x00\x20ftypisom\x00\x00\x02\x00"
WHOLE = {"content-length": str(len(MP4))}


def error(code: str, message: str = "", more: str = "") -> bytes:
    """Make an error document as S3 and those like it send it."""
    return (
        f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{more}</Error>".encode()
    )


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (403, error("AccessDenied", "Request has expired", "<Expires>x</Expires>"), LinkExpired),
        (400, error("ExpiredToken", "The provided token has expired."), LinkExpired),
        (403, error("ExpiredToken"), LinkExpired),
        (403, error("ExpiredRequest", "Request has expired."), LinkExpired),
        (
            403,
            error(
                "AuthenticationFailed",
                "Server failed to authenticate the request.",
                "<AuthenticationErrorDetail>Signature not valid in the specified time frame: Start [x]"
                "</AuthenticationErrorDetail>",
            ),
            LinkExpired,
        ),
        (403, b"URL signature expired", LinkExpired),
        (410, b"This link has expired", LinkExpired),
        (403, error("RequestTimeTooSkewed", "The difference is too large; expired"), CouldNotAsk),
        (403, error("AccessDenied", "Access Denied"), Forbidden),
        (403, error("SignatureDoesNotMatch"), Forbidden),
        (403, error("AuthenticationFailed", "Signature did not match."), Forbidden),
        (403, b"", Forbidden),
        (401, b"", Forbidden),
        (404, error("NoSuchKey", "The specified key does not exist."), FileMissing),
        (403, error("NoSuchKey"), FileMissing),
        (404, error("BlobNotFound"), FileMissing),
        (404, b"", FileMissing),
        (410, b"", FileMissing),
        (400, error("InvalidArgument", "Only one auth mechanism allowed"), CouldNotAsk),
        (416, error("InvalidRange"), Damaged),
        (500, error("InternalError", "expired"), CouldNotAsk),
        (503, error("SlowDown"), CouldNotAsk),
        (429, b"", CouldNotAsk),
        (302, b"", CouldNotAsk),
        (204, b"", CouldNotAsk),
    ],
)
def test_each_dialect_has_its_verdict(status: int, body: bytes, expected: type) -> None:
    """Expired, missing, forbidden and a wrong clock are told apart by what the storage says (C55, C69)."""
    assert isinstance(judge_file(status, {}, body, None), expected)


def test_a_wrong_clock_is_named() -> None:
    """A clock problem is told as one (C69)."""
    verdict = judge_file(403, {}, error("RequestTimeTooSkewed"), None)
    assert isinstance(verdict, CouldNotAsk)
    assert "clock" in verdict.reason


def test_a_bot_check_before_the_storage_is_no_verdict() -> None:
    """A challenge says nothing about the file (C44)."""
    assert isinstance(judge_file(403, {"cf-mitigated": "challenge"}, b"<html>", None), CouldNotAsk)


def test_each_phrase_tells_who_says_it() -> None:
    """Every row of the table has its source, and none is out of reach behind an earlier one."""
    for number, phrase in enumerate(PHRASES):
        assert phrase.source
        assert not any(p.text.casefold() in phrase.text.casefold() for p in PHRASES[:number])


def test_a_reason_shows_code_and_message_alone() -> None:
    """Of an error document only code and message are shown, and nothing that looks like a key (C62)."""
    body = error("InvalidArgument", "no", "<ArgumentValue>Bearer sk-live</ArgumentValue>")
    assert judge_file(400, {}, body, None) == CouldNotAsk(
        "The storage answered HTTP 400: InvalidArgument: no."
    )


@pytest.mark.parametrize(
    ("status", "headers", "head", "size", "expected"),
    [
        (200, WHOLE, MP4, None, Sound(16, "mp4")),
        (200, WHOLE, MP4, 16, Sound(16, "mp4")),
        (200, WHOLE | {"content-type": "text/html"}, MP4, 16, Sound(16, "mp4")),
        (206, {"content-range": "bytes 0-15/16"}, MP4, 16, Sound(16, "mp4")),
        (206, {"content-range": "BYTES 0-15/99999"}, MP4, 99999, Sound(99999, "mp4")),
        (200, WHOLE, MP4, 17, Damaged),
        (206, {"content-range": "bytes 0-15/999"}, MP4, 16, Damaged),
        (200, {"content-length": "0"}, b"", None, Damaged),
        (206, {"content-range": "bytes 0-0/0"}, b"", None, Damaged),
        (200, {"content-length": "14"}, b"<!DOCTYPE html", None, Damaged),
        (200, {"content-length": "24"}, b"\xef\xbb\xbf\n<Error><Code>X</Code>", None, Damaged),
        (200, {"content-length": "14"}, b'{"error":"not"', None, Damaged),
        (200, {"content-length": "100"}, MP4, None, CouldNotAsk),
        (206, {"content-range": "bytes 0-4095/9999"}, MP4, None, CouldNotAsk),
        (206, {"content-range": "bytes 50-65/100"}, MP4, None, CouldNotAsk),
        (206, {"content-range": "bytes 0-15/*"}, MP4, None, CouldNotAsk),
        (206, {}, MP4, None, CouldNotAsk),
        (200, {}, MP4, None, CouldNotAsk),
    ],
)
def test_content_is_judged_by_size_and_first_bytes(
    status: int, headers: dict[str, str], head: bytes, size: int | None, expected: object
) -> None:
    """A file of the right size that begins like media is sound; a page is not (C57, C60, C70)."""
    verdict = judge_file(status, headers, head, size)
    assert isinstance(verdict, expected) if isinstance(expected, type) else verdict == expected


def test_a_body_that_was_read_whole_tells_its_own_size() -> None:
    """Where the storage tells no size and the body ended, its length is the size."""
    assert judge_file(200, {}, MP4, None, ended=True) == Sound(16, "mp4")
    assert isinstance(judge_file(200, {}, b"", None, ended=True), Damaged)


def test_a_page_is_named_as_one() -> None:
    """The reason says what is there in place of the film (C57)."""
    page = b"<!DOCTYPE html><html>"
    verdict = judge_file(200, {"content-length": str(len(page))}, page, None)
    assert verdict == Damaged("The file is an HTML page, not media.")


@pytest.mark.parametrize(
    ("head", "container"),
    [
        (b"\x00\x00\x00\x18ftypmp42", "mp4"),
        (b"\x00\x00\x00\x14ftypqt  ", "mov"),
        (b"\x00\x00\x00\x1cftypM4A ", "m4a"),
        (b"\x00\x00\x00\x08wide\x00\x00", "mov"),
        (b"\x1aE\xdf\xa3\x9fB\x86\x81\x01B\x82\x84webm", "webm"),
        (b"\x1aE\xdf\xa3\xa3B\x86\x81\x01B\x82\x88matroska", "mkv"),
        (b"OggS\x00\x02" + b"\x00" * 20 + b"\x01vorbis", "ogg"),
        (b"OggS\x00\x02" + b"\x00" * 20 + b"OpusHead", "opus"),
        (b"ID3\x04\x00", "mp3"),
        (b"\xff\xfb\x90\x00", "mp3"),
        (b"\xff\xf3\x84\xc4", "mp3"),
        (b"\xff\xfe<\x00h\x00", None),
        (b"\xff\xff\xff\xff", None),
        (b"\xff\xf1\x50\x80", None),
        (b"\xff\xfb", None),
        (b"", None),
        (b"\x00" * 64, None),
        (b"PK\x03\x04", None),
        (b"ftypisom", None),
    ],
)
def test_a_container_is_known_by_its_first_bytes(head: bytes, container: str | None) -> None:
    """Each container the API makes is known by its signature, and nothing else is."""
    assert container_of(head) == container


def test_few_bytes_are_looked_at() -> None:
    """4096 bytes hold every signature."""
    assert FIRST_BYTES == 4096
