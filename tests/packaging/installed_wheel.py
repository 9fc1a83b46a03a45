"""Where the sources are, and the environment the wheel is installed in."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).parents[2]
FOLDERS = ("blocks", "deployments", "flows")
LOOK = Path(__file__).with_name("look_at_installed.py")
LIMIT_S = 300


def run(*words: str | Path, folder: Path, **env: str) -> str:
    """Run a command outside the checkout and return what it printed."""
    ours = ("PREFECT_", "MEDIA_JOBS_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    done = subprocess.run(
        words, cwd=folder, env=kept | env, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@dataclass(frozen=True)
class Installed:
    """The environment the wheel is installed in.

    Args:
        site_packages: Where its packages are; the wheel is the only one.
        bin: Where its commands are.
        home: Prefect's home folder while ``seen`` was looked at.
        seen: What ``look_at_installed.py`` saw.
    """

    site_packages: Path
    bin: Path
    home: Path
    seen: dict[str, Any]
