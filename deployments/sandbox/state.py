"""How a route gets at its sandbox."""

from typing import Annotated

from fastapi import Depends, Request

from prefect_media_jobs.deployments.sandbox.sandbox import Sandbox


def sandbox_of(request: Request) -> Sandbox:
    """Return the sandbox that a request is for."""
    sandbox: Sandbox = request.app.state.sandbox
    return sandbox


SandboxState = Annotated[Sandbox, Depends(sandbox_of)]
