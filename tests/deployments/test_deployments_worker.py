"""The shipped deployments at work: a real worker and a real ``serve`` process buy from a sandbox."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prefect_media_jobs.deployments.cli import main
from prefect_media_jobs.deployments.sandbox.processing import CopyProcessor
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle, SandboxSettings, running_sandbox
from tests.deployments.private_prefect import PrivatePrefect, running, until

RUN_LIMIT_S = 90
ENDED = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
WORKER = (
    "prefect",
    "worker",
    "start",
    "--pool",
    "media",
    "--type",
    "process",
    "--name",
    "tests",
    "--run-once",
)
Deployed = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the sandbox, the sources and the ledger of these tests are."""
    return tmp_path_factory.mktemp("buying")


@pytest.fixture(scope="module")
def sandbox(folder: Path) -> Iterator[SandboxHandle]:
    """A media API that copies."""
    (folder / "sources").mkdir()
    settings = SandboxSettings(
        folder=folder / "sandbox", allowed_folders=(folder / "sources",), processor=CopyProcessor()
    )
    with running_sandbox(settings) as handle:
        yield handle


@pytest.fixture(scope="module")
def ledger_url(server: PrivatePrefect, sandbox: SandboxHandle, folder: Path) -> str:
    """The ledger of the blocks that a bootstrap saved under their usual names."""
    url = f"sqlite:///{folder / 'ledger.db'}"
    done = server.run(
        "prefect_media_jobs.deployments.cli",
        "bootstrap",
        MEDIA_JOBS_LEDGER_URL=url,
        MEDIA_JOBS_API_URL=sandbox.url,
        MEDIA_JOBS_API_KEY=sandbox.api_key,
    )
    assert done.returncode == 0, done.stderr
    assert sandbox.api_key not in done.stdout + done.stderr
    return url


def a_request(folder: Path, item_key: str) -> dict[str, Any]:
    """Return a request for a file that begins as a film does; the copying processor looks no further."""
    source = folder / "sources" / f"{item_key}.mp4"
    source.write_bytes(b"\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom" + bytes(range(250)) * 40)
    return {"item_key": item_key, "source": str(source)}


def order(server: PrivatePrefect, deployment_id: str, request: dict[str, Any]) -> str:
    """Schedule a run of a deployment now, as its button in the UI does."""
    run: dict[str, Any] = server.ask(
        "POST", f"deployments/{deployment_id}/create_flow_run", parameters={"requests": [request]}
    )
    return str(run["id"])


def ended(server: PrivatePrefect, run_id: str) -> dict[str, Any] | None:
    """Return a flow run if it has ended, else None."""
    run: dict[str, Any] = server.ask("GET", f"flow_runs/{run_id}")
    return run if run["state_type"] in ENDED else None


@pytest.fixture(scope="module")
def processed(server: PrivatePrefect, deployed: Deployed, ledger_url: str, folder: Path) -> dict[str, Any]:
    """The flow run of one item that a worker processed, after it has ended."""
    assert ledger_url
    # Sweeps would do no harm, but take the worker's time when their five minutes are over.
    server.ask("PATCH", f"deployments/{deployed['recover-media']['id']}", paused=True)
    run_id = order(server, deployed["process-media"]["id"], a_request(folder, "by-a-worker"))
    worked = server.run(*WORKER)
    found = ended(server, run_id)
    assert found is not None, worked.stdout + worked.stderr
    return found


def test_a_worker_processes_an_item(processed: dict[str, Any]) -> None:
    """A process worker with the package installed runs the deployment to its end."""
    assert (processed["state_type"], processed["state"]["message"]) == ("COMPLETED", "1 delivered.")


def test_the_job_is_bought_once(processed: dict[str, Any], sandbox: SandboxHandle) -> None:
    """One run through a worker is one request that costs money."""
    assert processed
    assert [line.marker for line in sandbox.bill().lines].count("by-a-worker-attempt-1") == 1


def test_the_run_carries_no_secret(
    processed: dict[str, Any], server: PrivatePrefect, sandbox: SandboxHandle
) -> None:
    """The key of the media API is in its block and in nothing else the server tells about the run."""
    logs = server.ask("POST", "logs/filter", logs={"flow_run_id": {"any_": [processed["id"]]}})
    assert logs
    assert sandbox.api_key not in f"{processed}{logs}"


def test_the_command_line_sees_what_the_worker_did(
    processed: dict[str, Any], ledger_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever looks into the ledger on the command line sees the worker's purchase."""
    assert processed
    assert main(["history", "by-a-worker-attempt-1", "--url", ledger_url]) == 0
    assert "delivered" in capsys.readouterr().out


def test_a_serve_process_submits_an_item(
    processed: dict[str, Any], server: PrivatePrefect, deployed: Deployed, folder: Path
) -> None:
    """One process without a worker runs the same deployments, and buys as well."""
    assert processed
    run_id = order(server, deployed["submit-media"]["id"], a_request(folder, "served"))
    command = [sys.executable, "-m", "prefect_media_jobs.deployments.serve"]
    with running(command, server.env, server.folder, folder / "serve.log") as process:
        run = until(lambda: ended(server, run_id), RUN_LIMIT_S, process)
    assert (run["state_type"], run["state"]["message"]) == ("COMPLETED", "1 submitted.")
