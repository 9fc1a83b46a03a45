"""The sandbox's own switches under ``/_sandbox``: no key needed, but only from this machine."""

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, Field

from prefect_media_jobs.deployments.sandbox.bill import Bill
from prefect_media_jobs.deployments.sandbox.errors import RefusalError
from prefect_media_jobs.deployments.sandbox.misbehaviour import ActiveMisbehaviour, Misbehaviour
from prefect_media_jobs.deployments.sandbox.settings import is_loopback, new_api_key
from prefect_media_jobs.deployments.sandbox.state import SandboxState


def require_this_machine(request: Request) -> None:
    """Refuse who asks from elsewhere."""
    if request.client is None or not is_loopback(request.client.host):
        raise RefusalError(403, {"error": "The sandbox's switches can be used from its own machine only"})


controls = APIRouter(prefix="/_sandbox", dependencies=[Depends(require_this_machine)])


class NewKey(BaseModel):
    """An API key to change to."""

    key: str = Field(default_factory=new_api_key, min_length=1)


@controls.get("/bill")
def bill(sandbox: SandboxState) -> Bill:
    """Tell what a bill would count."""
    return sandbox.book.total()


@controls.post("/misbehave", status_code=201)
def misbehave(order: Misbehaviour, sandbox: SandboxState) -> Misbehaviour:
    """Misbehave at the next fitting request."""
    sandbox.desk.add(order)
    return order


@controls.get("/misbehave")
def misbehaviours(sandbox: SandboxState) -> list[ActiveMisbehaviour]:
    """Tell which orders still have something left."""
    return sandbox.desk.active()


@controls.delete("/misbehave", status_code=204)
def clear(sandbox: SandboxState) -> None:
    """Drop all orders."""
    sandbox.desk.clear()


@controls.post("/release", status_code=204)
def release(sandbox: SandboxState) -> None:
    """Let go of held answers and stalled jobs."""
    sandbox.desk.release()


@controls.post("/jobs/{job_id}/forget", status_code=204)
def forget(job_id: str, sandbox: SandboxState) -> None:
    """Lose a job; it stays on the bill."""
    sandbox.store.forget(sandbox.job(job_id).job_id)


@controls.post("/jobs/{job_id}/delete-file", status_code=204)
def lose_file(job_id: str, sandbox: SandboxState) -> None:
    """Lose a finished job's file, while the job still believes to have it."""
    job = sandbox.job(job_id)
    if job.key is None:
        raise RefusalError(400, {"error": "Job has no file to delete"})
    sandbox.objects.delete(job.key)


@controls.post("/rotate-key")
def rotate_key(new: NewKey, sandbox: SandboxState) -> dict[str, str]:
    """Accept another API key from now on, and the old one no more."""
    sandbox.api_key = new.key
    return {"api_key": new.key}


@controls.post("/expire-links", status_code=204)
def expire_links(sandbox: SandboxState) -> None:
    """Let every link signed so far count as expired; new ones are good."""
    sandbox.signer.end_all_links()
