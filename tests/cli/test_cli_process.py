"""The command as a process of its own: what it imports, how it ends, what it does to pipes."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

COMMAND = [sys.executable, "-m", "prefect_media_jobs.deployments.cli"]
LIMIT_S = 60
WITHOUT_PREFECT = """
import sys
from prefect_media_jobs.deployments.cli import main
code = main([{word!r}])
sys.exit(code or sorted({{"prefect", "sqlalchemy", "httpx"}} & set(sys.modules)) or 0)
"""


@contextmanager
def started(*words: str, **env: str) -> Iterator["subprocess.Popen[str]"]:
    """Start a command; it is gone when the block ends."""
    with subprocess.Popen(
        [*COMMAND, *words],
        env=os.environ | env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_is_quick(word: str) -> None:
    """Asking for help does not wait for Prefect to be imported."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PREFECT.format(word=word)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_a_mistake_ends_the_process_with_2(tmp_path: Path) -> None:
    """Scripts can tell a mistake from success."""
    with started("status", MEDIA_JOBS_LEDGER_URL=f"sqlite:///{tmp_path / 'none.db'}") as process:
        out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err.count("\n")) == (2, "", 1)


def test_ctrl_c_ends_the_process_with_130(tmp_path: Path) -> None:
    """A command that waits for Prefect can be interrupted, quietly."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LIMIT_S)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/api"
        with started("status", PREFECT_API_URL=url, PREFECT_HOME=str(tmp_path)) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                out, err = process.communicate(timeout=LIMIT_S)
    assert (process.returncode, out, err) == (130, "", "")


def test_the_sandbox_says_where_it_is(tmp_path: Path) -> None:
    """It prints its address and key before anything else, and Ctrl-C ends it."""
    words = ("sandbox", "--folder", str(tmp_path / "box"), "--api-key", "sk_mine")
    with started(*words) as process:
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in range(4))
        url, key = re.findall(r"(?:url|api key)\s+(\S+)", printed)
        listed = httpx.get(f"{url}/jobs", headers={"x-api-key": key}, timeout=10, trust_env=False)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT_S)
    assert (key, listed.status_code) == ("sk_mine", 200)
    assert (process.returncode, err) == (0, "")


def test_a_reader_that_has_seen_enough(filled: str) -> None:
    """``media-jobs plan | head`` ends without complaint."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "plan", "--url", filled, "--json"],
            stdout=writer,
            stderr=subprocess.PIPE,
            timeout=LIMIT_S,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
