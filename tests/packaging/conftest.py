"""The wheel, built from a copy of the sources and installed in an environment that knows no checkout."""

import importlib.util
import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.packaging.installed_wheel import CHECKOUT, FOLDERS, LOOK, Installed, run

WHERE = "import sysconfig; print(sysconfig.get_path('purelib'))"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, as an index would get it."""
    folder = tmp_path_factory.mktemp("build")
    sources = folder / "sources"
    for name in FOLDERS:
        shutil.copytree(CHECKOUT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, sources)
    # With the build tool at hand nothing has to be fetched.
    at_hand = importlib.util.find_spec("setuptools") is not None
    run(
        *(sys.executable, "-m", "build", "--outdir", folder / "dist"),
        *(["--no-isolation"] if at_hand else []),
        sources,
        folder=folder,
    )
    (built,) = (folder / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel in a fresh environment, whose other packages are borrowed from this one."""
    folder = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", folder / "venv", folder=folder)
    commands = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = commands / "python"
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel, folder=folder)
    place = Path(run(python, "-c", WHERE, folder=folder).strip())
    # A folder named in a .pth file has its own .pth files ignored, so the checkout stays unknown.
    (place / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n", encoding="utf-8")
    home = folder / "home"
    seen = json.loads(run(python, "-I", LOOK, folder=folder, PREFECT_HOME=str(home)))
    return Installed(place, commands, home, seen)
