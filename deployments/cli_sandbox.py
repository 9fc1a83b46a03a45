"""The command ``media-jobs sandbox``: make its settings and run it."""

import tempfile
from dataclasses import replace
from pathlib import Path

from prefect_media_jobs.deployments.cli_options import SandboxChoice
from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.server import serve_sandbox
from prefect_media_jobs.deployments.sandbox.settings import DAY_S, SandboxSettings, new_api_key

FOLDER_PREFIX = "media-jobs-sandbox-"


def serve(chosen: SandboxChoice) -> None:
    """Run a sandbox until it is interrupted.

    Raises:
        SandboxError: it may not, or cannot, be started so.
    """
    key = new_api_key() if chosen.api_key is None else chosen.api_key
    if not key.isprintable() or not key.isascii() or not key.strip():
        raise SandboxError("The API key must be plain printable characters, and not empty.")
    settings = SandboxSettings(
        folder=chosen.folder or Path(tempfile.gettempdir()),
        api_key=key,
        host=chosen.host,
        port=chosen.port,
        allow_remote=chosen.allow_remote,
        allowed_folders=tuple(each.absolute() for each in chosen.allow_folder),
        allowed_hosts=chosen.allow_host,
        link_lifetime_s=chosen.link_lifetime_s or DAY_S,
    )
    settings.check()  # before a folder is made for one that must not start
    serve_sandbox(replace(settings, folder=_made(chosen.folder)))


def _made(folder: Path | None) -> Path:
    """Return the folder, made when missing; without one, a new temporary folder."""
    try:
        if folder is None:
            return Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX))
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SandboxError(
            f"The sandbox cannot keep its files in {folder} ({error.strerror}); give a folder that can be "
            "written."
        ) from None
    return folder.absolute()
