"""What the demo runs in: a temporary folder, a private Prefect server and worker processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from prefect_media_jobs.blocks.errors import MediaJobsError
from prefect_media_jobs.deployments.demo_worker import FOLDER

SERVER_START_S, WORKER_S = 150.0, 150.0
STOP_S = 10.0


class DemoError(MediaJobsError):
    """The demo could not be carried out."""


class World:
    """The demo's processes and files.

    Args:
        folder: Everything is kept below it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ui = f"http://127.0.0.1:{_free_port()}"
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")
        } | {
            "PREFECT_HOME": str(folder / "prefect"),
            "PREFECT_API_URL": f"{self.ui}/api",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "WARNING",
            "NO_PROXY": "127.0.0.1",
            FOLDER: str(folder),
        }
        self._running: list[subprocess.Popen[bytes]] = []

    def start_server(self) -> None:
        """Start the private Prefect server; it takes a while to be ready."""
        port = self.ui.rpartition(":")[2]
        self._start("server", "-m", "prefect", "server", "start", "--host", "127.0.0.1", "--port", port)

    def wait_for_server(self) -> None:
        """Wait until the server answers.

        Raises:
            DemoError: it does not within the time.
        """
        server = self._running[0]

        def ready() -> bool:
            if server.poll() is not None:
                raise DemoError(f"The private Prefect server ended; {self._told('server')}")
            try:
                return httpx.get(f"{self.ui}/api/health", timeout=2, trust_env=False).is_success
            except httpx.HTTPError:
                return False

        wait_until(ready, SERVER_START_S, "The private Prefect server did not start in time.")

    def start_worker(self, work: str) -> subprocess.Popen[bytes]:
        """Start a worker process."""
        return self._start(work, "-m", "prefect_media_jobs.deployments.demo_worker", work)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """Kill a process without any chance to tidy up."""
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_S)
        self._running.remove(process)

    def wait_for(self, process: subprocess.Popen[bytes], work: str) -> None:
        """Wait for a worker to end by itself."""
        try:
            process.wait(WORKER_S)
        except subprocess.TimeoutExpired:
            raise DemoError(f"The worker did not end in time; {self._told(work)}") from None
        self._running.remove(process)

    def expect_alive(self, process: subprocess.Popen[bytes], work: str) -> None:
        """Raise if a worker ended before it was killed."""
        if process.poll() is not None:
            raise DemoError(f"The worker ended too early; {self._told(work)}")

    def stop(self) -> None:
        """End what still runs."""
        for process in reversed(self._running):
            process.terminate()
        for process in self._running:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(STOP_S)
        self._running.clear()

    def _start(self, log: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as out:
            process = subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, *arguments],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
            )
        self._running.append(process)
        return process

    def _told(self, log: str) -> str:
        lines = (self.folder / f"{log}.log").read_text(errors="replace").strip().splitlines()
        return f"its last words were: {lines[-1] if lines else 'none'}"


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Set up a world whose processes end with the block."""
    made = World(folder)
    try:
        yield made
    finally:
        made.stop()


def wait_until(condition: Callable[[], bool], limit_s: float, otherwise: str) -> None:
    """Wait for a condition.

    Raises:
        DemoError: it did not come true in time.
    """
    give_up_at = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise DemoError(otherwise)
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
