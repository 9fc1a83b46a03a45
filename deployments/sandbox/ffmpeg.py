"""Run the ffmpeg program of the ``imageio-ffmpeg`` wheel, bounded and without a shell."""

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from tempfile import TemporaryFile

from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError, SandboxError

TIME_LIMIT_S = 600
LOOK_AGAIN_S = 0.05
TEXT_LIMIT = 20_000
READABLE_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,flv,mp3,ogg,wav,flac,aac"
"""Demuxers that read one file. Playlists are not among them, because they may name files outside."""


def ffmpeg_program() -> str:
    """Return the path of the ffmpeg program.

    Raises:
        SandboxError: the extra that brings it is not installed.
    """
    try:
        # The wheel is large, optional, and needed only here.
        import imageio_ffmpeg  # type: ignore[import-untyped]  # noqa: PLC0415

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except (ImportError, RuntimeError) as error:
        raise SandboxError(
            "The sandbox needs ffmpeg: install the extra with pip install 'prefect-media-jobs[sandbox]'."
        ) from error


def run_ffmpeg(
    arguments: Sequence[str], *, stop: threading.Event | None = None, time_limit_s: float = TIME_LIMIT_S
) -> str:
    """Run ffmpeg to its end and return what it printed on its error stream.

    ``stop`` ends it early. Should this process be killed, ffmpeg ends by itself, at the latest when it has
    used ``time_limit_s`` of processor time.

    Raises:
        ProcessingFailedError: ffmpeg failed, was stopped, or took too long; the text is ffmpeg's last line.
    """
    command = [ffmpeg_program(), "-nostdin", "-hide_banner", "-y", "-timelimit", str(int(time_limit_s) or 1)]
    deadline = time.monotonic() + time_limit_s
    stop = stop or threading.Event()
    with TemporaryFile() as printed:
        child = subprocess.Popen(  # noqa: S603  a fixed program, arguments in a list, no shell
            [*command, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=printed
        )
        try:
            while child.poll() is None and not stop.is_set() and time.monotonic() < deadline:
                stop.wait(LOOK_AGAIN_S)
            finished = child.poll() is not None
        finally:
            child.kill()
            child.wait()
        printed.seek(0)
        text = printed.read(TEXT_LIMIT).decode(errors="replace")
    if not finished:
        raise ProcessingFailedError("Processing was stopped" if stop.is_set() else "Processing took too long")
    if child.returncode != 0:
        last_line = (text.strip().splitlines() or ["no reason given"])[-1]
        reason = re.sub(r"^\[[^]]*\] *", "", last_line)
        raise ProcessingFailedError(f"ffmpeg failed: {reason}")
    return text
