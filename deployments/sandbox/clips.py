"""Make small real films, and read back what a film is."""

import re
from dataclasses import dataclass
from pathlib import Path

from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError
from prefect_media_jobs.deployments.sandbox.ffmpeg import READABLE_FORMATS, run_ffmpeg

PROBE_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class Probe:
    """What ffmpeg says about a file.

    Args:
        duration_s: None where the container does not tell.
        width: In pixels; None without pictures.
        height: In pixels; None without pictures.
        video_codec: None without pictures.
        audio_codec: None without sound.
    """

    duration_s: float | None
    width: int | None
    height: int | None
    video_codec: str | None
    audio_codec: str | None

    @property
    def has_video(self) -> bool:
        """Whether there are pictures."""
        return self.video_codec is not None

    @property
    def has_audio(self) -> bool:
        """Whether there is sound."""
        return self.audio_codec is not None


def make_clip(
    path: Path,
    seconds: float = 2.0,
    *,
    label: str = "",
    colour: str = "teal",
    with_audio: bool = True,
    size: tuple[int, int] = (320, 180),
) -> Path:
    """Write a small mp4 with a moving test picture and a tone, and return its path.

    Args:
        path: File to write; its folder is made.
        seconds: Length.
        label: Title stored in the file.
        colour: Colour of a bar on top, by which films can be told apart.
        with_audio: Add a tone.
        size: Width and height in pixels, even numbers.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    bar = f"drawbox=x=0:y=0:w=iw:h=ih/6:color={colour}:t=fill"
    picture = f"testsrc2=size={size[0]}x{size[1]}:rate=25:duration={seconds},{bar}"
    arguments = ["-loglevel", "error", "-f", "lavfi", "-i", picture]
    if with_audio:
        arguments += ["-f", "lavfi", "-i", f"sine=frequency=440:sample_rate=44100:duration={seconds}"]
        arguments += ["-c:a", "aac", "-b:a", "64k"]
    arguments += ["-c:v", "libx264", "-preset", "ultrafast", "-crf", "30", "-pix_fmt", "yuv420p"]
    run_ffmpeg(
        [*arguments, "-metadata", f"title={label}", "-movflags", "+faststart", "-f", "mp4", f"file:{path}"]
    )
    return path


def probe(path: Path) -> Probe:
    """Read a file through to its end and return what it is.

    Raises:
        ProcessingFailedError: it is not a media file, or is damaged.
    """
    reading = ["-protocol_whitelist", "file,pipe", "-format_whitelist", READABLE_FORMATS, "-xerror"]
    text = run_ffmpeg([*reading, "-i", f"file:{path}", "-f", "null", "-"], time_limit_s=PROBE_LIMIT_S)
    told = text.partition("Output #0")[0]
    video = re.search(r"Video: (\w+).*?, (\d+)x(\d+)", told)
    audio = re.search(r"Audio: (\w+)", told)
    if video is None and audio is None:
        raise ProcessingFailedError("The file has neither pictures nor sound")
    clock = re.search(r"Duration: (\d+):(\d+):(\d+(?:\.\d+)?)", told)
    return Probe(
        duration_s=int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3]) if clock else None,
        width=int(video[2]) if video else None,
        height=int(video[3]) if video else None,
        video_codec=video[1] if video else None,
        audio_codec=audio[1] if audio else None,
    )
