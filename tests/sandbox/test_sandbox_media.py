import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from prefect_media_jobs.deployments.sandbox.clips import Probe, make_clip, probe
from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError, RefusalError, SandboxError
from prefect_media_jobs.deployments.sandbox.ffmpeg import run_ffmpeg
from prefect_media_jobs.deployments.sandbox.job_request import parse_job_request, seconds_of
from prefect_media_jobs.deployments.sandbox.processing import FfmpegProcessor, ProcessingTask

Start = Callable[..., Any]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real film of two seconds."""
    return make_clip(tmp_path_factory.mktemp("clips") / "clip.mp4", 2, label="a: 'clip'", size=(640, 480))


def process(clip: Path, folder: Path, **settings: Any) -> Probe:
    """Process a film and tell what came out."""
    request = parse_job_request(json.dumps({"url": str(clip), **settings}).encode())
    target = folder / f"result.{request.container}"
    FfmpegProcessor().process(ProcessingTask(request, clip, target))
    return probe(target)


def test_a_clip_is_a_film(clip: Path) -> None:
    """A clip that was made can be read back with its length, size, pictures and sound."""
    assert probe(clip) == Probe(2.0, 640, 480, "h264", "aac")
    assert clip.stat().st_size < 500_000


def test_a_clip_can_be_silent(tmp_path: Path) -> None:
    """A clip without sound has none."""
    assert not probe(
        make_clip(tmp_path / "new" / "silent.mp4", 0.4, with_audio=False, colour="red")
    ).has_audio


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ("h264", "aac", 480)),
        ({"format": "mkv"}, ("h264", "aac", 480)),
        ({"format": "webm"}, ("vp9", "opus", 480)),
        ({"format": "mov", "video_codec": "h265", "audio_codec": "mp3"}, ("hevc", "mp3", 480)),
        ({"max_resolution": "360"}, ("h264", "aac", 360)),
        ({"max_resolution": "1080", "quality_preset": "lowest"}, ("h264", "aac", 480)),
        ({"audio_only": True}, (None, "aac", None)),
        ({"format": "mp3"}, (None, "mp3", None)),
        ({"format": "opus"}, (None, "opus", None)),
        ({"format": "ogg", "audio_bitrate": "64k"}, (None, "opus", None)),
    ],
)
def test_settings_decide_what_comes_out(
    clip: Path, tmp_path: Path, settings: dict[str, Any], expected: tuple[str | None, str | None, int | None]
) -> None:
    """Format, codecs, resolution and audio_only come out as they were asked for, two seconds long."""
    found = process(clip, tmp_path, **settings)
    assert (found.video_codec, found.audio_codec, found.height) == expected
    assert found.duration_s == pytest.approx(2, abs=0.1)


def test_a_part_can_be_cut_out(clip: Path, tmp_path: Path) -> None:
    """clip_start and clip_end cut out the part between them."""
    found = process(clip, tmp_path, clip_start="0.5", clip_end="00:01", video_codec="h264")
    assert found.duration_s == pytest.approx(0.5, abs=0.1)


def test_quality_changes_the_size(clip: Path, tmp_path: Path) -> None:
    """A higher CRF number makes a smaller file."""
    sizes = []
    for quality in (20, 45):
        process(clip, tmp_path, video_codec="h264", video_quality=quality)
        sizes.append((tmp_path / "result.mp4").stat().st_size)
    assert sizes[0] > sizes[1]


@pytest.mark.parametrize(
    ("clock", "seconds"),
    [("90", 90), ("1.5", 1.5), ("01:30", 90), ("1:00:01", 3601), ("-1", None), ("", None)],
)
def test_clock_times(clock: str, seconds: float | None) -> None:
    """Clip times are HH:MM:SS, MM:SS or seconds; anything else is refused."""
    if seconds is None:
        with pytest.raises(RefusalError):
            seconds_of(clock)
    else:
        assert seconds_of(clock) == seconds


def test_a_playlist_file_cannot_reach_other_files(clip: Path, tmp_path: Path) -> None:
    """A source that lists other files is not read, so that it cannot lead out of the allowed folders."""
    listing = tmp_path / "list.m3u8"
    listing.write_text(f"#EXTM3U\n#EXTINF:2,\n{clip}\n#EXT-X-ENDLIST\n")
    with pytest.raises(ProcessingFailedError, match="ffmpeg failed"):
        process(listing, tmp_path)


def test_ffmpeg_is_stopped(tmp_path: Path) -> None:
    """A set stop ends a running ffmpeg at once, and a time limit ends it by itself."""
    stop = threading.Event()
    threading.Timer(0.2, stop.set).start()
    endless = ["-f", "lavfi", "-re", "-i", "testsrc2", "-f", "mp4", f"file:{tmp_path / 'x.mp4'}"]
    began = time.monotonic()
    with pytest.raises(ProcessingFailedError, match="stopped"):
        run_ffmpeg(endless, stop=stop)
    with pytest.raises(ProcessingFailedError, match="too long"):
        run_ffmpeg(endless, time_limit_s=0.2)
    assert time.monotonic() - began < 5


def test_without_the_extra_the_sandbox_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the wheel that brings ffmpeg, one sentence names the extra to install."""
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(SandboxError, match=r"prefect-media-jobs\[sandbox\]"):
        FfmpegProcessor()


def test_importing_the_sandbox_loads_no_ffmpeg() -> None:
    """Importing the server loads no ffmpeg wheel and starts no thread."""
    code = (
        "import sys, threading, prefect_media_jobs.deployments.sandbox.server;"
        "print('imageio_ffmpeg' in sys.modules, threading.active_count())"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "1"]


def test_a_film_goes_through_the_whole_sandbox(start: Start, clip: Path, tmp_path: Path) -> None:
    """With ffmpeg behind it, the API makes another film of a film, and fails a text file with the reason."""
    api = start(processor=None, allowed_folders=(clip.parent, tmp_path))
    job = api.finished(url=str(clip), format="webm", filename="out")
    result = tmp_path / "sandbox" / "objects" / "videos" / "out.webm"
    assert (job["status"], job["file_size"]) == ("Completed", result.stat().st_size)
    assert probe(result).video_codec == "vp9"
    bad = tmp_path / "bad.mp4"
    bad.write_text("not a film")
    failed = api.finished(url=str(bad))
    assert (failed["status"], failed["error_type"]) == ("Failed", "error")
    assert failed["error"].startswith("ffmpeg failed: Error opening input")
    assert list((tmp_path / "sandbox" / "scratch").iterdir()) == []
