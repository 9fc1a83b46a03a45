"""A private Prefect server in a process of the tests, and what can be asked of it."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from prefect_media_jobs.deployments.serve import SHIPPED

SERVER_LIMIT_S, COMMAND_LIMIT_S, STOP_LIMIT_S = 120, 90, 15
T = TypeVar("T")


def until(look: Callable[[], T | None], within_s: float, process: "subprocess.Popen[bytes]") -> T:
    """Look until there is something to see; a process that has ended will not show it any more."""
    deadline = time.monotonic() + within_s
    while (found := look()) is None:
        assert process.poll() is None, f"the process ended with {process.returncode}"
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.2)
    return found


@contextmanager
def running(
    command: Sequence[str], env: dict[str, str], folder: Path, log: Path
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a command for as long as the block lasts."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass(frozen=True)
class PrivatePrefect:
    """A Prefect server of the tests' own.

    Args:
        env: Environment of everything that talks to it.
        folder: Where its files are, and where commands are run: not the checkout.
    """

    url: str
    env: dict[str, str]
    folder: Path

    def run(self, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a Python module as a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", *words],
            env=self.env | env,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_LIMIT_S,
            check=False,
        )

    def ask(self, method: str, path: str, **data: Any) -> Any:
        """Ask the server itself, without the Prefect client."""
        answer = httpx.request(
            method, f"{self.url}/{path}", json=None if method == "GET" else data, timeout=30, trust_env=False
        ).raise_for_status()
        return answer.json() if answer.content else None

    def deployments(self) -> dict[str, dict[str, Any]]:
        """Return the deployments by name, as the server tells them."""
        return {each["name"]: each for each in self.ask("POST", "deployments/filter", limit=50)}


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def is_up(url: str) -> bool | None:
    """Return True when the server answers, else None."""
    try:
        return httpx.get(f"{url}/health", timeout=2, trust_env=False).is_success or None
    except httpx.HTTPError:
        return None


def deploy_all(server: PrivatePrefect) -> dict[str, dict[str, Any]]:
    """Deploy the shipped file from a folder that is not the checkout; return what the server has then."""
    command = ("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(SHIPPED))
    deployed = server.run(*command)
    assert deployed.returncode == 0, deployed.stdout + deployed.stderr
    return server.deployments()
