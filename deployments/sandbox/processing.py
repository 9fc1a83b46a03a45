"""Turn a source file into the wanted file."""

import shutil
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError
from prefect_media_jobs.deployments.sandbox.ffmpeg import READABLE_FORMATS, ffmpeg_program, run_ffmpeg
from prefect_media_jobs.deployments.sandbox.job_request import JobRequest, seconds_of

VIDEO_ENCODERS: dict[str, tuple[str, ...]] = {
    "h264": ("libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p"),
    "h265": ("libx265", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-x265-params", "log-level=error"),
    "vp9": ("libvpx-vp9", "-deadline", "realtime", "-cpu-used", "8", "-b:v", "0", "-pix_fmt", "yuv420p"),
}
AUDIO_ENCODERS = {"aac": "aac", "opus": "libopus", "mp3": "libmp3lame"}
NATIVE_AUDIO = {"webm": "opus", "mp3": "mp3", "ogg": "opus", "opus": "opus"}
"""Containers that do not take every codec, and the one used where the request leaves it open."""
MUXERS = {"mkv": "matroska", "m4a": "ipod"}


@dataclass(frozen=True, slots=True)
class ProcessingTask:
    """One job's work.

    Args:
        request: What was asked for.
        source: Local file to read.
        target: File to write; its folder exists.
        stop: Set when the sandbox is ending; the work should end soon after.
    """

    request: JobRequest
    source: Path
    target: Path
    stop: threading.Event = field(default_factory=threading.Event)


class Processor(Protocol):
    """What makes the files."""

    def process(self, task: ProcessingTask) -> None:
        """Write ``task.target``.

        Raises:
            ProcessingFailedError: the job is to end as Failed, with this text.
        """


@dataclass(frozen=True, slots=True)
class CopyProcessor:
    """Copies the bytes and ignores the settings: for tests that need speed, not pictures.

    Args:
        delay_s: Seconds each job takes.
    """

    delay_s: float = 0.0

    def process(self, task: ProcessingTask) -> None:
        """Copy the source."""
        if task.stop.wait(self.delay_s) if self.delay_s else task.stop.is_set():
            raise ProcessingFailedError("Processing was stopped")
        shutil.copyfile(task.source, task.target)


class FfmpegProcessor:
    """Remuxes or transcodes with ffmpeg.

    Raises:
        SandboxError: ffmpeg is not installed; told at once, not by the first job.
    """

    def __init__(self) -> None:
        ffmpeg_program()

    def process(self, task: ProcessingTask) -> None:
        """Run ffmpeg; where the source's sound does not fit the container, run it again with AAC."""
        try:
            run_ffmpeg(ffmpeg_arguments(task, audio_codec=_audio_codec(task.request)), stop=task.stop)
        except ProcessingFailedError:
            if task.stop.is_set() or _audio_codec(task.request) != "copy" or not _takes_aac(task.request):
                raise
            run_ffmpeg(ffmpeg_arguments(task, audio_codec="aac"), stop=task.stop)


def ffmpeg_arguments(task: ProcessingTask, *, audio_codec: str) -> list[str]:
    """Return ffmpeg's arguments for a task."""
    wanted = task.request
    arguments = ["-loglevel", "error", "-protocol_whitelist", "file", "-format_whitelist", READABLE_FORMATS]
    if wanted.clip_start is not None:
        arguments += ["-ss", str(seconds_of(wanted.clip_start))]
    if wanted.clip_end is not None:
        arguments += ["-to", str(seconds_of(wanted.clip_end))]
    arguments += ["-i", f"file:{task.source}", "-map_metadata", "0"]
    arguments += _video_arguments(wanted) if wanted.keeps_video else ["-vn", "-map", "0:a:0"]
    arguments += ["-map", "0:a:0?"] if wanted.keeps_video else []
    arguments += _audio_arguments(wanted, audio_codec)
    if wanted.max_duration:
        arguments += ["-t", str(wanted.max_duration)]
    if wanted.container in {"mp4", "mov", "m4a"}:
        arguments += ["-movflags", "+faststart"]
    return [
        *arguments,
        "-threads",
        "2",
        "-f",
        MUXERS.get(wanted.container, wanted.container),
        f"file:{task.target}",
    ]


def _video_arguments(wanted: JobRequest) -> list[str]:
    """Encode where asked to, where the container needs it, and where the picture has to become smaller."""
    codec = wanted.video_codec
    if codec == "copy" and (wanted.container == "webm" or wanted.max_resolution != "best"):
        codec = "vp9" if wanted.container == "webm" else "h264"
    if codec == "copy":
        return ["-map", "0:v:0", "-c:v", "copy"]
    arguments = ["-map", "0:v:0", "-c:v", *VIDEO_ENCODERS[codec], "-crf", str(wanted.quality)]
    if codec == "h265" and wanted.container in {"mp4", "mov"}:
        arguments += ["-tag:v", "hvc1"]
    if wanted.max_resolution != "best":
        arguments += ["-vf", f"scale=-2:'trunc(min(ih,{wanted.max_resolution})/2)*2'"]
    return arguments


def _audio_arguments(wanted: JobRequest, codec: str) -> list[str]:
    return (
        ["-c:a", "copy"] if codec == "copy" else ["-c:a", AUDIO_ENCODERS[codec], "-b:a", wanted.audio_bitrate]
    )


def _audio_codec(wanted: JobRequest) -> str:
    return NATIVE_AUDIO.get(wanted.container, "copy") if wanted.audio_codec == "copy" else wanted.audio_codec


def _takes_aac(wanted: JobRequest) -> bool:
    return wanted.container not in NATIVE_AUDIO
