import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from prefect_media_jobs.deployments.sandbox.app import build_app
from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.processing import CopyProcessor
from prefect_media_jobs.deployments.sandbox.sandbox import Sandbox
from prefect_media_jobs.deployments.sandbox.server import (
    SandboxHandle,
    SandboxSettings,
    running_sandbox,
    serve_sandbox,
)

Start = Callable[..., Any]
SERVE = """
import sys
from pathlib import Path
from prefect_media_jobs.deployments.sandbox.server import SandboxSettings, serve_sandbox
folder = Path(sys.argv[1])
serve_sandbox(SandboxSettings(folder=folder / "sandbox", allowed_folders=(folder,), api_key="sk_fixed"))
"""


def test_a_new_key_has_the_form_of_the_api(tmp_path: Path) -> None:
    """A key is made by itself, begins with ``sk_``, has 32 characters, and is not in the settings' repr."""
    settings = SandboxSettings(folder=tmp_path)
    assert (settings.api_key[:3], len(settings.api_key)) == ("sk_", 32)
    assert settings.api_key not in repr(settings)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", ""])
def test_other_machines_are_kept_out(settings: SandboxSettings, host: str) -> None:
    """An address that other machines can reach is refused unless it was allowed."""
    with pytest.raises(SandboxError, match="trying and testing only"):
        serve_sandbox(replace(settings, host=host))


def test_an_allowed_address_is_served(settings: SandboxSettings) -> None:
    """An address for everybody can be allowed."""
    with running_sandbox(replace(settings, host="0.0.0.0", allow_remote=True)) as sandbox:
        assert sandbox.bill().jobs_created == 0


def test_a_taken_port_is_told(settings: SandboxSettings, api: Any) -> None:
    """A port in use is told in one sentence."""
    with (
        pytest.raises(SandboxError, match="cannot listen on"),
        running_sandbox(replace(settings, port=httpx.URL(api.sandbox.url).port or 0)),
    ):
        pass


def test_it_stops_soon_whatever_is_going_on(settings: SandboxSettings, source: Path) -> None:
    """With held answers, open connections, a stalled and a running job, a sandbox stops within seconds."""
    threads = threading.active_count()
    slow = replace(settings, processor=CopyProcessor(delay_s=600))
    body, idle = {"url": str(source)}, httpx.Client(trust_env=False)
    with ThreadPoolExecutor(1) as pool, idle:
        with running_sandbox(slow) as sandbox:
            key = {"x-api-key": sandbox.api_key}
            sandbox.misbehave("stall")
            for _ in range(3):
                idle.post(f"{sandbox.url}/jobs", json=body, headers=key)
            sandbox.misbehave("hold_answer")
            held = pool.submit(httpx.post, f"{sandbox.url}/jobs", json=body, headers=key, trust_env=False)
            while sandbox.bill().jobs_created < 4:
                time.sleep(0.01)
            began = time.monotonic()
        assert time.monotonic() - began < 3
        assert held.result().status_code == 201
    assert threading.active_count() == threads
    with pytest.raises(SandboxError, match="does not answer"), SandboxHandle(sandbox.url, "") as gone:
        gone.bill()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_command_says_what_it_is_and_ends_on_a_signal(tmp_path: Path, ending: signal.Signals) -> None:
    """In the foreground it prints its purpose, URL and key, serves, and ends on a signal."""
    command = [sys.executable, "-c", SERVE, str(tmp_path)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child:
        assert child.stdout is not None
        told = [child.stdout.readline() for _ in range(5)]
        assert "for trying and testing only" in told[0]
        assert told[2].split()[-1] == "sk_fixed"
        with SandboxHandle(told[1].split()[-1], "sk_fixed") as sandbox:
            assert sandbox.bill().jobs_created == 0
            child.send_signal(ending)
            assert child.wait(10) in {0, -ending}


def test_the_switches_are_for_this_machine_only(settings: SandboxSettings) -> None:
    """A request from another machine's address is refused at the switches."""
    sandbox = Sandbox(settings)
    elsewhere = httpx.ASGITransport(build_app(sandbox), client=("192.0.2.7", 5000))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=elsewhere, base_url="http://sandbox") as client:
            return await client.get("/_sandbox/bill")

    assert asyncio.run(ask()).status_code == 403
    sandbox.stop()


def test_a_forwarded_address_changes_nothing(api: Any) -> None:
    """A forwarding header neither hides a connection that is to be cut nor opens the switches."""
    api.sandbox.misbehave("drop_answer")
    with pytest.raises(httpx.RemoteProtocolError):
        api.http.post("/jobs", json={"url": str(api.source)}, headers={"x-forwarded-for": "192.0.2.7"})
    assert api.sandbox.bill().jobs_created == 1
