"""A sandbox on a free port, a client with its key, and a source file."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from prefect_media_jobs.deployments.sandbox.processing import CopyProcessor
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle, SandboxSettings, running_sandbox

OPEN = {"Pending", "Processing"}
T = TypeVar("T")


class Api:
    """What a customer of the media API can do, plus the sandbox's own switches."""

    def __init__(self, sandbox: SandboxHandle, source: Path) -> None:
        self.sandbox = sandbox
        self.source = source
        self.http = httpx.Client(
            base_url=sandbox.url, headers={"x-api-key": sandbox.api_key}, timeout=5, trust_env=False
        )

    def post(self, **fields: Any) -> httpx.Response:
        return self.http.post("/jobs", json={"url": str(self.source), **fields})

    def create(self, **fields: Any) -> str:
        answer = self.post(**fields)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["job_id"])

    def look_up(self, job_id: str) -> dict[str, Any]:
        answer = self.http.get(f"/jobs/{job_id}")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def finish(self, job_id: str, within_s: float = 15) -> dict[str, Any]:
        return self.until(lambda: self.look_up(job_id), lambda job: job["status"] not in OPEN, within_s)

    def finished(self, **fields: Any) -> dict[str, Any]:
        return self.finish(self.create(**fields))

    @staticmethod
    def until(look: Callable[[], T], good: Callable[[T], bool], within_s: float = 10) -> T:
        deadline = time.monotonic() + within_s
        while not good(found := look()):
            assert time.monotonic() < deadline, f"still {found!r}"
            time.sleep(0.01)
        return found


def write_source(path: Path) -> Path:
    """Write 100,000 known bytes; the copying processor does not mind that they are no film."""
    path.parent.mkdir()
    path.write_bytes(bytes(range(250)) * 400)
    return path


def copying(folder: Path, source: Path) -> SandboxSettings:
    """Settings of a sandbox that copies."""
    return SandboxSettings(folder=folder, allowed_folders=(source.parent,), processor=CopyProcessor())


@contextmanager
def started(settings: SandboxSettings, source: Path) -> Iterator[Api]:
    """Run a sandbox and a customer."""
    with running_sandbox(settings) as sandbox:
        api = Api(sandbox, source)
        with api.http:
            yield api


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """One sandbox for the tests of a file that leave no trace behind."""
    folder = tmp_path_factory.mktemp("shared")
    source = write_source(folder / "sources" / "my film.mp4")
    with started(copying(folder / "sandbox", source), source) as api:
        yield api


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A source file."""
    return write_source(tmp_path / "sources" / "my film.mp4")


@pytest.fixture
def settings(tmp_path: Path, source: Path) -> SandboxSettings:
    """Settings of a sandbox that copies, to be changed with ``replace``."""
    return copying(tmp_path / "sandbox", source)


@pytest.fixture
def start(settings: SandboxSettings, source: Path) -> Iterator[Callable[..., Api]]:
    """Start a sandbox with some settings changed."""
    with ExitStack() as stack:

        def starter(**changes: Any) -> Api:
            return stack.enter_context(started(replace(settings, **changes), source))

        yield starter


@pytest.fixture
def api(start: Callable[..., Api]) -> Api:
    """A sandbox of one's own with the usual settings."""
    return start()
