"""Run a sandbox: in a thread for demos and tests, or in the foreground for the command line."""

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import uvicorn
from rich.console import Console

from prefect_media_jobs.deployments.sandbox.app import build_app
from prefect_media_jobs.deployments.sandbox.connections import OpenConnections
from prefect_media_jobs.deployments.sandbox.errors import SandboxError
from prefect_media_jobs.deployments.sandbox.front import Front
from prefect_media_jobs.deployments.sandbox.handle import SandboxHandle
from prefect_media_jobs.deployments.sandbox.sandbox import Sandbox
from prefect_media_jobs.deployments.sandbox.settings import BatchShape, SandboxSettings

__all__ = ["BatchShape", "SandboxHandle", "SandboxSettings", "running_sandbox", "serve_sandbox"]

BACKLOG = 128
START_LIMIT_S = 20
GRACE_S = 1
"""Whole seconds that open connections get to end by themselves."""


class _Server(uvicorn.Server):
    """Uvicorn, which tells when it is ready, and lets go of what the sandbox holds back before it waits."""

    def __init__(self, config: uvicorn.Config, sandbox: Sandbox) -> None:
        super().__init__(config)
        self._sandbox = sandbox
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._sandbox.let_go()
        await super().shutdown(sockets)
        self._sandbox.stop()


@contextmanager
def running_sandbox(settings: SandboxSettings) -> Iterator[SandboxHandle]:
    """Run a sandbox in a thread for as long as the block lasts.

    Raises:
        SandboxError: it may not, or cannot, be started with these settings.
    """
    server, listener = _prepare(settings)
    with closing(listener), SandboxHandle(_url(listener), settings.api_key) as handle:
        thread = threading.Thread(target=server.run, args=([listener],), name="media-sandbox", daemon=True)
        thread.start()
        try:
            if not server.ready.wait(START_LIMIT_S):
                raise SandboxError("The sandbox did not start.")
            yield handle
        finally:
            server.should_exit = True
            thread.join(START_LIMIT_S)


def serve_sandbox(settings: SandboxSettings) -> None:
    """Run a sandbox in the foreground until it is interrupted.

    Raises:
        SandboxError: it may not, or cannot, be started with these settings.
    """
    server, listener = _prepare(settings)
    console = Console()
    console.print("[bold]Media API sandbox[/bold]: for trying and testing only. A restart forgets its jobs.")
    console.print(f"  url      {_url(listener)}", highlight=False, soft_wrap=True)
    console.print(f"  api key  {settings.api_key}", highlight=False, soft_wrap=True)
    console.print(f"  files    {settings.folder}", highlight=False, soft_wrap=True)
    console.print(f"  switches {_url(listener)}/docs (Ctrl-C stops it)", highlight=False, soft_wrap=True)
    with closing(listener), suppress(KeyboardInterrupt):
        server.run([listener])


def _prepare(settings: SandboxSettings) -> tuple[_Server, socket.socket]:
    """Return a server and the bound socket that it is to listen on, so that the port is known beforehand."""
    sandbox = Sandbox(settings)
    connections = OpenConnections()
    config = uvicorn.Config(
        Front(build_app(sandbox), sandbox, connections),
        http=connections.protocol(),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # A forwarded address would hide the connection that is to be cut, and who uses the switches.
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    try:
        return _Server(config, sandbox), _listen(settings)
    except BaseException:
        sandbox.stop()
        raise


def _listen(settings: SandboxSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # Named, because asyncio turns off the delay of small packets only where it sees that this is TCP.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise SandboxError(
            f"The sandbox cannot listen on {settings.host}:{settings.port} ({error})."
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
