"""One zygote, one API and one folder for all crash tests."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from prefect_media_jobs.deployments.sandbox.processing import CopyProcessor
from prefect_media_jobs.deployments.sandbox.server import SandboxSettings, running_sandbox
from tests.support.crash_world import World
from tests.support.film import FILM
from tests.support.zygote import Zygote


@pytest.fixture(scope="session")
def _shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("crash")
    source = folder / "film.mp4"
    source.write_bytes(FILM)
    settings = SandboxSettings(
        folder=folder / "sandbox", allowed_folders=(folder,), processor=CopyProcessor(), workers=4
    )
    # The path of a socket must be short.
    with (
        tempfile.TemporaryDirectory() as short,
        Zygote(Path(short)) as zygote,
        running_sandbox(settings) as sandbox,
    ):
        yield World(sandbox, zygote, folder, source)


@pytest.fixture
def world(_shared_world: World) -> Iterator[World]:
    """The world, with an API that behaves well until it is told otherwise."""
    yield _shared_world
    _shared_world.sandbox.clear()
    _shared_world.sandbox.release()
