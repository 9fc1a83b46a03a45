"""``media-jobs demo``: real media jobs, workers killed at the worst moments, everything collected once."""

import json
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from rich.console import Console

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.handoff import HandoffState
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.deployments.demo_view import Row, Totals, View, show_result
from prefect_media_jobs.deployments.demo_worker import DELIVERED, DELIVERIES, PLAN
from prefect_media_jobs.deployments.demo_world import DemoError, World, wait_until, world
from prefect_media_jobs.deployments.sandbox.clips import make_clip, probe
from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle, SandboxSettings, running_sandbox

STEP_S = 60.0
_SETTINGS: tuple[dict[str, Any], ...] = (
    {"format": "mp4", "video_codec": "h264", "max_resolution": "360"},
    {"format": "webm", "video_codec": "vp9", "audio_codec": "opus"},
    {"format": "mkv", "video_codec": "copy"},
    {"format": "mp3", "audio_only": True},
    {"format": "mp4", "video_codec": "h264", "quality_preset": "low"},
    {"format": "mov", "video_codec": "copy"},
)
_COLOURS = ("teal", "orange", "purple", "olive", "navy", "maroon")


def run_demo(sources: list[Path], *, keep: bool) -> int:
    """Run the demo and return the exit code: 1 when a promise was broken.

    Args:
        sources: Media files to use; when there are none, six clips are made.
        keep: Keep the Prefect UI and the ledger until Ctrl-C.
    Raises:
        DemoError: it could not be carried out.
    """
    for source in sources:
        if not source.is_file():
            raise DemoError(f"There is no file {source}; give media files with --source.")
    console = Console()
    folder = Path(tempfile.mkdtemp(prefix="media-jobs-demo-"))
    try:
        with ExitStack() as stack:
            demo = stack.enter_context(world(folder))
            demo.start_server()
            view = stack.enter_context(View(console))
            return _run(console, view, demo, [source.absolute() for source in sources], keep=keep)
    except SandboxError as error:
        raise DemoError(str(error)) from None
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def _run(console: Console, view: View, demo: World, sources: list[Path], *, keep: bool) -> int:
    folder = demo.folder
    view.step("a private Prefect server is starting; meanwhile the media files are prepared")
    clips = sources or [
        make_clip(folder / "clips" / f"clip-{n}.mp4", 2.0 + n / 2, label=f"clip {n}", colour=colour)
        for n, colour in enumerate(_COLOURS, start=1)
    ]
    (folder / DELIVERED).mkdir()
    settings = SandboxSettings(folder=folder / "api", allowed_folders=tuple({clip.parent for clip in clips}))
    with running_sandbox(settings) as sandbox:
        ledger_url = f"sqlite:///{folder / 'ledger.db'}"
        requests = [
            {"item_key": f"clip-{n}", "source": str(clip), "settings": _SETTINGS[(n - 1) % len(_SETTINGS)]}
            for n, clip in enumerate(clips, start=1)
        ]
        plan = {"requests": requests, "ledger": ledger_url, "api": sandbox.url, "api_key": sandbox.api_key}
        (folder / PLAN).write_text(json.dumps(plan), encoding="utf-8")
        demo.wait_for_server()
        ledger = AttemptLedger(url=ledger_url)
        _perform(view, demo, sandbox, ledger, len(requests))
        rows, totals = _count(folder, sandbox, ledger, len(requests))
    show_result(console, rows, totals)
    if keep:
        console.print(f"Prefect UI  {demo.ui}\nLedger      {ledger.place}\nPress Ctrl-C to stop the server.")
        _wait_for_interrupt()
    return 0 if totals.kept else 1


def _perform(view: View, demo: World, sandbox: SandboxHandle, ledger: AttemptLedger, items: int) -> None:
    """Kill the worker right after an acceptance, kill the next one while jobs run, let the third finish."""
    victim = json.loads((demo.folder / PLAN).read_text(encoding="utf-8"))["requests"][min(2, items - 1)]
    sandbox.misbehave("stall", times=None)
    sandbox.misbehave("hold_answer", source=victim["source"])

    def look() -> list[Attempt]:
        attempts = ledger.list_attempts() if Path(ledger.place).exists() else []
        view.attempts(attempts)
        return attempts

    def accepted() -> bool:
        demo.expect_alive(worker, "submit")
        look()
        return any(bought.source == victim["source"] for bought in sandbox.bill().lines)

    view.step(f"worker 1 submits {items} items")
    worker = demo.start_worker("submit")
    wait_until(accepted, STEP_S, "The API never got the job it should have.")
    demo.kill(worker)
    view.step(f"worker 1 is killed: the API has accepted {victim['item_key']}, its answer was never read")

    def under_way() -> bool:
        demo.expect_alive(worker, "process")
        attempts = look()
        return len(attempts) == items and sum(each.lookups > 0 for each in attempts) >= items - 1

    view.step("worker 2 runs the same items: it attaches, and sends only the rest")
    worker = demo.start_worker("process")
    wait_until(under_way, STEP_S, "The jobs were never all under way.")
    demo.kill(worker)
    view.step("worker 2 is killed while the jobs run")
    sandbox.clear()
    sandbox.release()

    view.step("worker 3 runs the same items and finishes them")
    worker = demo.start_worker("process")

    def ended() -> bool:
        look()
        return worker.poll() is not None

    wait_until(ended, 2 * STEP_S, "Worker 3 did not finish.")
    demo.wait_for(worker, "process")


def _count(
    folder: Path, sandbox: SandboxHandle, ledger: AttemptLedger, items: int
) -> tuple[list[Row], Totals]:
    """Count at the API, in the ledger and at the consumer; none of them is asked about the others."""
    bill = sandbox.bill()
    bought = Counter(line.marker for line in bill.lines)
    noted = folder / DELIVERIES
    notes = (
        [json.loads(line) for line in noted.read_text(encoding="utf-8").splitlines()]
        if noted.exists()
        else []
    )
    deliveries = Counter(note["item"] for note in notes)
    files = {note["item"]: Path(note["file"]) for note in notes}
    attempts = ledger.list_attempts()
    rows = [
        _row(each, bill.posts_by_idempotency_key.get(each.attempt_id, 0), deliveries, files)
        for each in attempts
    ]
    totals = Totals(
        items=items,
        jobs_bought=bill.jobs_created,
        delivered=sum(each.state is State.DELIVERED for each in attempts),
        consumed=sum(each.state is HandoffState.CONSUMED for each in ledger.handoffs()),
        bought_twice=sum(count - 1 for count in bought.values())
        + sum(count - 1 for count in deliveries.values()),
        lost=items - len(files),
    )
    return rows, totals


def _row(attempt: Attempt, posts: int, deliveries: Counter[str], files: dict[str, Path]) -> Row:
    file = files.get(attempt.item_key)
    told = probe(file) if file is not None else None
    return Row(
        item=attempt.item_key,
        state=attempt.state,
        job_id=attempt.job_id or "",
        posts=posts,
        deliveries=deliveries[attempt.item_key],
        file=file.name if file is not None else "",
        size=f"{file.stat().st_size / 1000:,.0f} kB" if file is not None else "",
        duration=f"{told.duration_s:.2f} s" if told is not None and told.duration_s is not None else "",
    )


def _wait_for_interrupt() -> None:
    try:
        while True:
            input()
    except (KeyboardInterrupt, EOFError):
        return
