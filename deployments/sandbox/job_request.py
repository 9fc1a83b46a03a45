"""The body of ``POST /jobs``: its fields, their limits, and what follows from leaving them out.

Source: remote API reference, "Create a job".
"""

import math
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prefect_media_jobs.deployments.sandbox.errors import RefusalError, bad_request

VIDEO_FORMATS = ("mp4", "mkv", "webm", "mov")
AUDIO_FORMATS = ("m4a", "mp3", "ogg", "opus")
ALLOWED: dict[str, tuple[str, ...]] = {
    "format": VIDEO_FORMATS + AUDIO_FORMATS,
    "video_codec": ("copy", "h264", "h265", "vp9"),
    "audio_codec": ("copy", "aac", "opus", "mp3"),
    "audio_bitrate": ("64k", "128k", "192k", "256k", "320k"),
    "quality_preset": ("highest", "high", "medium", "low", "lowest"),
    "max_resolution": ("best", "2160", "1440", "1080", "720", "480", "360"),
}
PRESET_QUALITY = {"highest": 16, "high": 20, "medium": 23, "low": 28, "lowest": 35}
FILENAME_LIMIT = 255
FOLDER_LIMIT = 200
QUALITY_LIMIT = 51
CLOCK_PARTS = 3


class JobRequest(BaseModel):
    """One request as sent. Unknown fields are ignored; a wrong type in a known one refuses the whole body."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    url: str
    format: str | None = None
    video_codec: str = "copy"
    audio_codec: str = "copy"
    audio_bitrate: str = "192k"
    video_quality: Annotated[int, Field(ge=0, le=255)] | None = None
    filename: str | None = None
    folder: str | None = None
    webhook_url: str | None = None
    audio_only: bool = False
    download_subtitles: bool = False
    download_thumbnail: bool = False
    quality_preset: str | None = None
    max_resolution: str = "best"
    clip_start: str | None = None
    clip_end: str | None = None
    live_recording: bool = False
    live_from_start: bool = False
    max_duration: Annotated[int, Field(ge=0)] | None = None
    wait_for_video: bool = False
    enable_progress_webhook: bool = False
    storage: dict[str, object] | None = None
    paused: bool = False

    @property
    def container(self) -> str:
        """File ending of the result."""
        return self.format or ("m4a" if self.audio_only else "mp4")

    @property
    def keeps_video(self) -> bool:
        """Whether the result has pictures."""
        return not self.audio_only and self.container in VIDEO_FORMATS

    @property
    def quality(self) -> int:
        """Constant rate factor for the encoder; a preset wins over a number."""
        if self.quality_preset:
            return PRESET_QUALITY[self.quality_preset]
        return PRESET_QUALITY["medium"] if self.video_quality is None else self.video_quality

    @property
    def echo(self) -> dict[str, object]:
        """What a lookup tells about the request once the job is persisted."""
        fields = {
            "format",
            "video_codec",
            "audio_codec",
            "audio_bitrate",
            "video_quality",
            "filename",
            "folder",
        }
        fields |= {"audio_only", "quality_preset", "max_resolution", "clip_start", "clip_end"}
        return self.model_dump(include=fields)


def parse_job_request(body: bytes) -> JobRequest:
    """Read the body of ``POST /jobs``.

    Raises:
        RefusalError: 422 in plain text for a wrong type, 400 for a value outside its limits.
    """
    try:
        wanted = JobRequest.model_validate_json(body)
    except ValidationError as error:
        raise _unreadable(error) from error
    for name, values in ALLOWED.items():
        value = getattr(wanted, name)
        if value is not None and value not in values:
            raise bad_request(f"Invalid {name} '{value[:40]}' (allowed: {', '.join(values)})")
    if wanted.video_quality is not None and wanted.video_quality > QUALITY_LIMIT:
        raise bad_request(f"video_quality must be between 0 and {QUALITY_LIMIT}")
    if wanted.storage is not None:
        raise bad_request("The sandbox keeps its files itself; leave out storage")
    _check_names(wanted)
    _check_clip(wanted)
    return wanted


def seconds_of(clock: str) -> float:
    """Return the seconds in ``HH:MM:SS``, ``MM:SS`` or plain seconds.

    Raises:
        RefusalError: it is none of the three.
    """
    parts = clock.split(":")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = [math.nan]
    if len(parts) > CLOCK_PARTS or not all(0 <= number < math.inf for number in numbers):
        raise bad_request(f"Invalid clip time '{clock[:40]}' (HH:MM:SS, MM:SS or seconds)")
    seconds = 0.0
    for number in numbers:
        seconds = seconds * 60 + number
    return seconds


def _unreadable(error: ValidationError) -> RefusalError:
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return RefusalError(400, f"Failed to parse the request body as JSON: {first['msg']}")
    where = ".".join(str(part) for part in first["loc"]) or "body"
    text = "Failed to deserialize the JSON body into the target type: "
    return RefusalError(422, f"{text}{where}: {first['msg']}")


def _check_names(wanted: JobRequest) -> None:
    name, folder = wanted.filename, wanted.folder
    if name is not None:
        if len(name) > FILENAME_LIMIT:
            raise bad_request(f"Filename too long (max {FILENAME_LIMIT} characters)")
        if not name.strip() or any(part in name for part in ("..", "/", "\\", "\0")):
            raise bad_request("Invalid filename (blank, or contains '..', '/', '\\' or NUL)")
    if folder is not None:
        if len(folder) > FOLDER_LIMIT:
            raise bad_request(f"Folder name too long (max {FOLDER_LIMIT} characters)")
        if not folder.strip() or folder.startswith(("/", "\\")) or ".." in folder or "\0" in folder:
            raise bad_request("Invalid folder (blank, starts with a slash, or contains '..' or NUL)")


def _check_clip(wanted: JobRequest) -> None:
    start = 0.0 if wanted.clip_start is None else seconds_of(wanted.clip_start)
    if wanted.clip_end is not None and seconds_of(wanted.clip_end) <= start:
        raise bad_request("clip_end must be after clip_start")
