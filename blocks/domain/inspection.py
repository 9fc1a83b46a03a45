"""What the storage's answer says about a finished file. Pure: an answer goes in, a verdict comes out.

Judged by the answer, never by the time printed in a link: links die early when the credentials that signed
them do, and clocks are wrong.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Damaged,
    FileMissing,
    Forbidden,
    LinkExpired,
)
from prefect_media_jobs.blocks.domain.redaction import redact

FIRST_BYTES = 4096
"""How much of a file is looked at."""


@dataclass(frozen=True)
class Sound:
    """The file is there, has the right size, and begins like a media file.

    Args:
        container: What the first bytes say it is ("mp4", "webm", "mp3").
    """

    size_bytes: int
    container: str


Verdict = Sound | LinkExpired | FileMissing | Forbidden | Damaged | CouldNotAsk
_Refusal = type[LinkExpired | FileMissing | Forbidden | CouldNotAsk]


@dataclass(frozen=True)
class Phrase:
    """What a storage says when it refuses, and what it means.

    Args:
        text: Part of the error body, compared without regard to case.
        source: Who says it so.
    """

    text: str
    means: _Refusal
    source: str


PHRASES = (
    Phrase("RequestTimeTooSkewed", CouldNotAsk, "S3 API reference, error responses"),
    Phrase("Request has expired", LinkExpired, "S3 and OSS, message of AccessDenied"),
    Phrase("ExpiredToken", LinkExpired, "S3, temporary credentials; GCS V4 signatures"),
    Phrase("ExpiredRequest", LinkExpired, "R2, error codes"),
    Phrase("not valid in the specified time frame", LinkExpired, "Azure, detail of AuthenticationFailed"),
    Phrase("NoSuchKey", FileMissing, "S3 API reference, error responses; GCS and OSS say the same"),
    Phrase("BlobNotFound", FileMissing, "Azure Blob service error codes"),
    Phrase("expired", LinkExpired, "CDNs, in their own words"),
)
"""The first row that fits counts; only error answers are searched."""

_PHRASE_STATUSES = frozenset({400, 401, 403, 404, 410})
_BY_STATUS: Mapping[int, _Refusal] = {401: Forbidden, 403: Forbidden, 404: FileMissing, 410: FileMissing}
_NO_SUCH_RANGE = 416
_OK, _PARTIAL = 200, 206
_CONTENT_RANGE = re.compile(r"\s*bytes\s+(\d+)-(\d+)/(\d+|\*)\s*", re.IGNORECASE)
_ELEMENT = re.compile(r"<(Code|Message|AuthenticationErrorDetail)>([^<]*)<")
_BRANDS = {b"qt  ": "mov", b"M4A ": "m4a", b"M4B ": "m4a"}
_QUICKTIME_ATOMS = frozenset({b"moov", b"mdat", b"free", b"wide", b"skip"})
_LAYER_3 = 1


def judge_file(
    status: int, headers: Mapping[str, str], head: bytes, size_bytes: int | None, *, ended: bool = False
) -> Verdict:
    """Judge the storage's answer to a ranged GET of a file's first bytes.

    Args:
        headers: With names in lower case, or without regard to case.
        head: First bytes of the body, at most ``FIRST_BYTES``.
        size_bytes: The job's own figure; None when the API told none.
        ended: True when the body ended with ``head``.
    """
    if status in {_OK, _PARTIAL}:
        return _judge_content(status, headers, head, size_bytes, ended=ended)
    if status == _NO_SUCH_RANGE:
        return Damaged("The file is empty (HTTP 416).")
    if "cf-mitigated" in headers:
        return CouldNotAsk(f"A bot check before the storage answered HTTP {status}.")
    return _judge_refusal(status, head)


def _judge_refusal(status: int, head: bytes) -> Verdict:
    text = head.decode("utf-8", "replace")
    told = f"The storage answered HTTP {status}{_said(text)}."
    if status in _PHRASE_STATUSES:
        for phrase in PHRASES:
            if phrase.text.casefold() in text.casefold():
                if phrase.means is CouldNotAsk:
                    told = (
                        f"The storage says that a clock is wrong; check the API's and this machine's. {told}"
                    )
                return phrase.means(told)
    return _BY_STATUS.get(status, CouldNotAsk)(told)


def _said(text: str) -> str:
    """Return the code and message of an error body, or its beginning."""
    said = [match.group(2).strip() for match in _ELEMENT.finditer(text)]
    shown = redact(": ".join(part for part in said if part) or " ".join(text.split()), 200)
    return f": {shown}" if shown else ""


def _judge_content(
    status: int, headers: Mapping[str, str], head: bytes, expected: int | None, *, ended: bool
) -> Verdict:
    total, part = _partial_sizes(headers) if status == _PARTIAL else _whole_sizes(headers, head, ended=ended)
    if total is None:
        return CouldNotAsk("The storage does not tell the size of the file, or sent another part of it.")
    if total == 0:
        return Damaged("The file is empty.")
    if len(head) < min(part, FIRST_BYTES):
        return CouldNotAsk("The storage broke off within the first bytes.")
    return _judge_bytes(head, total, expected)


def _judge_bytes(head: bytes, total: int, expected: int | None) -> Verdict:
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"<":
        return Damaged(f"The file is {_page_name(head)}, not media.")
    if expected is not None and total != expected:
        return Damaged(f"The file has {total} bytes, and the API says {expected}.")
    container = container_of(head)
    if container is None:
        return Damaged("The file does not begin like any media container.")
    return Sound(total, container)


def _partial_sizes(headers: Mapping[str, str]) -> tuple[int | None, int]:
    """Return the size of the whole file, None when it is not told, and of the part that was sent."""
    told = _CONTENT_RANGE.fullmatch(headers.get("content-range", ""))
    if told is None or int(told.group(1)) != 0 or told.group(3) == "*":
        return None, 0
    return int(told.group(3)), int(told.group(2)) + 1


def _whole_sizes(headers: Mapping[str, str], head: bytes, *, ended: bool) -> tuple[int | None, int]:
    length = headers.get("content-length", "").strip()
    total = int(length[:20]) if length.isdecimal() else len(head) if ended else None
    return total, total or 0


def _page_name(head: bytes) -> str:
    return (
        "an HTML page" if b"<html" in head.lower() or b"<!doctype html" in head.lower() else "an XML document"
    )


def container_of(head: bytes) -> str | None:
    """Tell the container by a file's first bytes; None when they are no media file's.

    Source: ISO/IEC 14496-12 (ftyp), QuickTime File Format, RFC 8794 (EBML), RFC 3533 (Ogg), RFC 7845 (Opus),
    ID3v2 and ISO/IEC 11172-3 (MPEG audio).
    """
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "mp4")
    if head[4:8] in _QUICKTIME_ATOMS:
        return "mov"
    if head[:4] == b"\x1aE\xdf\xa3":
        return "webm" if b"webm" in head[:64] else "mkv"
    if head[:4] == b"OggS":
        return "opus" if b"OpusHead" in head[:64] else "ogg"
    if head[:3] == b"ID3" or _is_mp3_frame(head):
        return "mp3"
    return None


def _is_mp3_frame(head: bytes) -> bool:
    """Tell whether an MPEG audio frame of layer 3 starts here; a UTF-16 text's first bytes look similar."""
    if len(head) < 3 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:  # noqa: PLR2004 (the frame's sync bits)
        return False
    return (head[1] >> 1) & 3 == _LAYER_3 and head[2] >> 4 != 0xF  # noqa: PLR2004 (an invalid bit rate)
