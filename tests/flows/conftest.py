"""A team with its own ledger and its own blocks, and one API for all teams."""

import itertools
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain import backoff, decisions
from prefect_media_jobs.deployments.sandbox.processing import CopyProcessor
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle, SandboxSettings, running_sandbox
from prefect_media_jobs.flows import processing, recovery
from tests.support import receiving
from tests.support.certificates import read_none
from tests.support.film import FILM
from tests.support.team import Team

_NUMBERS = itertools.count(1)
_QUICK_S = 0.01


@pytest.fixture(scope="session")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source that the API may read."""
    path = tmp_path_factory.mktemp("films") / "film.mp4"
    path.write_bytes(FILM)
    return path


@pytest.fixture(scope="session")
def _shared_sandbox(tmp_path_factory: pytest.TempPathFactory, film: Path) -> Iterator[SandboxHandle]:
    settings = SandboxSettings(
        folder=tmp_path_factory.mktemp("sandbox"), allowed_folders=(film.parent,), processor=CopyProcessor()
    )
    with running_sandbox(settings) as sandbox:
        yield sandbox


@pytest.fixture
def sandbox(_shared_sandbox: SandboxHandle) -> Iterator[SandboxHandle]:
    """The API, which behaves well until it is told otherwise."""
    key = _shared_sandbox.api_key
    yield _shared_sandbox
    _shared_sandbox.clear()
    _shared_sandbox.release()
    _shared_sandbox.rotate_key(key)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten every pause, so that nothing is waited for."""
    read_none(monkeypatch)
    monkeypatch.setattr(recovery.look_up_page, "retry_delay_seconds", [0, 0])
    monkeypatch.setattr(recovery.look_up_page, "retry_jitter_factor", None)
    for module in (backoff, decisions):
        monkeypatch.setattr(module, "FIRST_LOOK_S", _QUICK_S)
    monkeypatch.setattr(processing, "SHORTEST_WAIT_S", _QUICK_S)


@pytest.fixture
def team(
    prefect_server: None,  # noqa: ARG001 - the blocks are kept there
    sandbox: SandboxHandle,
    film: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Team]:
    """A team with a saved ledger block and a saved API block."""
    log = tmp_path / "received"
    monkeypatch.setenv(receiving.LOG, str(log))
    name = f"team-{next(_NUMBERS)}"
    path = tmp_path / "ledger.db"
    ledger = AttemptLedger(url=f"sqlite:///{path}")
    ledger.save(name)
    with closing(ledger):
        team = Team(name, path, log, film, sandbox, ledger, ledger_name=name, api_name=name)
        team.save_api()
        yield team
