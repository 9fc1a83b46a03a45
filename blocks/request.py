"""What a team asks for: ``MediaRequest`` and its typed output settings.

Everything is checked when the value is made, so that nothing outside the API's contract is ever recorded.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from prefect_media_jobs.blocks.domain.redaction import shown_source
from prefect_media_jobs.blocks.errors import InvalidInputError

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_PERCENT = re.compile(r"%[0-9a-fA-F]{2}")
_DEFAULT_PORTS = {"http": 80, "https": 443}
AUDIO_FORMATS = frozenset({"m4a", "mp3", "ogg", "opus"})


def _no_control_characters(text: str) -> str:
    if _CONTROL.search(text):
        raise ValueError("must not contain control characters")
    if text != text.strip():
        raise ValueError("must not begin or end with white space")
    return text


def _file_name(text: str) -> str:
    if ".." in text or "/" in text or "\\" in text:
        raise ValueError("must not contain '..', '/' or '\\'")
    return text


def _folder(text: str) -> str:
    if ".." in text or text[0] in "/\\":
        raise ValueError("must not contain '..' or start with '/' or '\\'")
    return text


def _attempt_id(text: str) -> str:
    if not _ATTEMPT_ID.fullmatch(text) or ".." in text:
        raise ValueError("must be 1 to 200 letters, digits, '.', '_' or '-', without '..'")
    return text


_Text = Annotated[str, Field(min_length=1), AfterValidator(_no_control_characters)]
_ClipTime = Annotated[str, Field(pattern=r"^(\d{1,2}:)?[0-5]?\d:[0-5]\d(\.\d+)?$|^\d+(\.\d+)?$")]


class OutputSettings(BaseModel):
    """What the media API shall make of a source; what is left out is left to the API.

    Source: remote API reference, "Create job", request fields.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    format: Literal["mp4", "mkv", "webm", "mov", "m4a", "mp3", "ogg", "opus"] | None = Field(
        default=None, description="Container of the output; audio formats need audio_only."
    )
    video_codec: Literal["copy", "h264", "h265", "vp9"] | None = Field(
        default=None, description="Video codec; copy does not transcode."
    )
    audio_codec: Literal["copy", "aac", "opus", "mp3"] | None = Field(
        default=None, description="Audio codec; copy does not transcode."
    )
    audio_bitrate: Literal["64k", "128k", "192k", "256k", "320k"] | None = Field(
        default=None, description="Audio bit rate when transcoding."
    )
    video_quality: Annotated[int, Field(strict=True, ge=0, le=51)] | None = Field(
        default=None, description="Constant rate factor, 0 (best) to 51."
    )
    quality_preset: Literal["highest", "high", "medium", "low", "lowest"] | None = Field(
        default=None, description="Overrides video_quality."
    )
    max_resolution: Literal["best", "2160", "1440", "1080", "720", "480", "360"] | None = Field(
        default=None, description="Largest height in pixels."
    )
    filename: Annotated[_Text, Field(max_length=255), AfterValidator(_file_name)] | None = Field(
        default=None,
        description="File name without ending. Left out, it is the attempt id, by which a lost job is found.",
    )
    folder: Annotated[_Text, Field(max_length=200), AfterValidator(_folder)] | None = Field(
        default=None, description="Folder in the storage."
    )
    audio_only: bool | None = Field(default=None, description="Keep the sound alone.")
    download_subtitles: bool | None = Field(default=None, description="Also fetch subtitles.")
    download_thumbnail: bool | None = Field(default=None, description="Also fetch a thumbnail.")
    clip_start: _ClipTime | None = Field(default=None, description="HH:MM:SS, MM:SS or seconds.")
    clip_end: _ClipTime | None = Field(default=None, description="HH:MM:SS, MM:SS or seconds.")
    live_recording: bool | None = Field(default=None, description="Record a live stream.")
    live_from_start: bool | None = Field(default=None, description="Record a live stream from its start.")
    max_duration: Annotated[int, Field(strict=True, gt=0)] | None = Field(
        default=None, description="Stop after so many seconds."
    )
    wait_for_video: bool | None = Field(default=None, description="Wait until the source is there.")

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.format in AUDIO_FORMATS and not self.audio_only:
            raise ValueError(f"format {self.format} is an audio format and needs audio_only=true")
        if self.audio_only and self.format is not None and self.format not in AUDIO_FORMATS:
            raise ValueError(f"audio_only does not go with the video format {self.format}")
        if self.clip_end is not None and _seconds(self.clip_end) <= _seconds(self.clip_start or "0"):
            raise ValueError("clip_end must be after clip_start")
        return self

    def contract(self) -> dict[str, object]:
        """Return what is set, under the API's names."""
        return self.model_dump(exclude_none=True)


class MediaRequest(BaseModel):
    """One thing to buy: an item, its source and how the output shall look."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    item_key: Annotated[_Text, Field(max_length=200)] = Field(
        description="The team's own name for the item, such as episode-42."
    )
    source: Annotated[_Text, Field(max_length=8000)] = Field(
        description="Where the API finds the source. Shown without its query, fragment and user part."
    )
    settings: OutputSettings = Field(default_factory=OutputSettings, description="How the output shall look.")
    attempt_id: Annotated[str, AfterValidator(_attempt_id)] | None = Field(
        default=None, description="Name for the attempt; left out, it is made from the item key."
    )
    edition: Annotated[_Text, Field(max_length=100)] | None = Field(
        default=None, description="Set or change it to buy the same thing again on purpose."
    )

    def __repr_args__(self) -> Iterable[tuple[str | None, object]]:
        yield "item_key", self.item_key
        yield "source", shown_source(self.source)
        yield "settings", self.settings.contract()
        yield from ((name, getattr(self, name)) for name in ("attempt_id", "edition") if getattr(self, name))

    @property
    def request_key(self) -> str:
        """Fingerprint of what is asked for: SHA-256 of its canonical JSON, 64 hexadecimal digits."""
        asked = {
            "item_key": self.item_key,
            "source": _comparable(self.source),
            "settings": self.settings.contract(),
            "edition": self.edition,
        }
        text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def id_stem(self) -> str:
        """The item key as it can stand in an attempt id, a header and a file name."""
        stem = re.sub(r"[^A-Za-z0-9_-]+", "-", self.item_key).strip("-")[:120]
        if stem == self.item_key and stem[0] != "_":
            return stem
        digest = hashlib.sha256(self.item_key.encode()).hexdigest()[:8]
        return f"{stem}-{digest}".lstrip("_-")


def check_requests(requests: Iterable[MediaRequest]) -> list[MediaRequest]:
    """Return the requests if they can be recorded together.

    Raises:
        InvalidInputError: there are none, or one item key (and edition) asks for two different things.
    """
    listed = list(requests)
    if not listed:
        raise InvalidInputError("The request list is empty; give at least one item to buy.")
    seen: dict[tuple[str, str | None], str] = {}
    for request in listed:
        if seen.setdefault((request.item_key, request.edition), request.request_key) != request.request_key:
            raise InvalidInputError(
                f"Item {request.item_key!r} is asked for twice with different settings or sources; "
                "give each output its own item_key."
            )
    return listed


def _comparable(source: str) -> str:
    """Bring spellings of one address together without knowing the host.

    Scheme and host in lower case, percent codes in upper case, no default port, no fragment. The user part
    and the query stay: they may select what is fetched.
    """
    try:
        parts = urlsplit(source)
        port = parts.port
    except ValueError:
        return source
    if not parts.hostname:
        return source
    user = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    shown_port = "" if port in {None, _DEFAULT_PORTS.get(parts.scheme)} else f":{port}"
    path = parts.path or "/"
    whole = urlunsplit((parts.scheme, f"{user}{host}{shown_port}", path, parts.query, ""))
    return _PERCENT.sub(lambda match: match.group().upper(), whole)


def _seconds(clip_time: str) -> float:
    seconds = 0.0
    for part in clip_time.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds
