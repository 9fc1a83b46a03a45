"""What a sandbox is started with."""

import ipaddress
import secrets
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.processing import Processor

DAY_S = 86_400


class BatchShape(StrEnum):
    """Which of the API's known shapes a batch answer has."""

    PLAYLIST = "playlist"
    """``total_videos`` and ``video_jobs``."""
    SHOW = "show"
    """``total_episodes`` and ``episode_jobs``."""
    SHOW_WITH_TITLES = "show_with_titles"
    """As ``show``, with ``paused`` and ``episodes`` on top."""


def new_api_key() -> str:
    """Return a fresh key of the API's form: ``sk_`` and 32 characters in all."""
    return f"sk_{secrets.token_hex(16)[:29]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """Settings of one sandbox.

    Args:
        folder: Where it keeps its files; made when missing.
        api_key: The key it accepts.
        host: Address to listen on.
        port: Port to listen on; 0 for any free one.
        allow_remote: Allow an address that other machines can reach.
        allowed_folders: Folders whose files may be sources.
        allowed_hosts: Hosts, or ``host:port``, from which sources may be fetched.
        link_lifetime_s: Seconds a signed link is good for.
        persist_delay_s: Seconds until lookups of a new job echo its file name and settings.
        honours_idempotency_key: Return the first job for a repeated ``x-idempotency-key``.
        null_bodies: Answer 401 and 404 on lookups with the JSON literal ``null``.
        workers: Jobs processed at the same time.
        processor: What makes the files; None for ffmpeg.
        batch_size: Jobs created for a URL with ``list=``.
        batch_shape: Shape of the answer to it.
        storage_limit_bytes: Refuse new jobs with 403 once so much was stored; None for no limit.
    """

    folder: Path
    api_key: str = field(default_factory=new_api_key, repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    allow_remote: bool = False
    allowed_folders: tuple[Path, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    link_lifetime_s: int = DAY_S
    persist_delay_s: float = 0.0
    honours_idempotency_key: bool = False
    null_bodies: bool = False
    workers: int = 2
    processor: Processor | None = None
    batch_size: int = 3
    batch_shape: BatchShape = BatchShape.PLAYLIST
    storage_limit_bytes: int | None = None

    def check(self) -> None:
        """Do nothing if a sandbox may be started so.

        Raises:
            SandboxError: other machines could reach it, and nobody allowed that.
        """
        if not self.allow_remote and not is_loopback(self.host):
            raise SandboxError(
                f"The sandbox is for trying and testing only and does not listen on {self.host}, "
                "which other machines can reach; use 127.0.0.1, or allow it explicitly."
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
