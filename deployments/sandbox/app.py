"""The media API's routes."""

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from prefect_media_jobs.deployments.sandbox.controls import controls
from prefect_media_jobs.deployments.sandbox.errors import RefusalError
from prefect_media_jobs.deployments.sandbox.job_request import parse_job_request
from prefect_media_jobs.deployments.sandbox.sandbox import GIGABYTE, Sandbox
from prefect_media_jobs.deployments.sandbox.state import SandboxState, sandbox_of
from prefect_media_jobs.deployments.sandbox.storage import TWO_PERMISSIONS, hand_out, refuse
from prefect_media_jobs.deployments.sandbox.store import JobStatus
from prefect_media_jobs.deployments.sandbox.views import batch_view, list_view, lookup_view

LIST_DEFAULT = 20
LIST_LIMIT = 100
FILTERS = {status.value.lower(): status for status in JobStatus if status is not JobStatus.SKIPPED}
SPOILT = "prefect_media_jobs.sandbox.spoilt"
"""Where in the ASGI scope a storage request is told how to misbehave."""


def require_key(request: Request, sandbox: SandboxState) -> None:
    """Refuse a request without the right key."""
    sandbox.check_key(request.headers.get("x-api-key"))


api = APIRouter(dependencies=[Depends(require_key)])
storage = APIRouter()


@api.post("/jobs")
async def create_job(request: Request, sandbox: SandboxState) -> JSONResponse:
    """Create a job, or a batch for a playlist."""
    wanted = parse_job_request(await request.body())
    answer = sandbox.submit(wanted, request.headers.get("x-idempotency-key"))
    return JSONResponse(answer, 200 if "cached" in answer else 201)


@api.get("/jobs")
def list_jobs(request: Request, sandbox: SandboxState) -> dict[str, object]:
    """List jobs, newest first. An unknown status filter is ignored, and the total ignores every filter."""
    limit = min(_whole_number(request, "limit", LIST_DEFAULT), LIST_LIMIT)
    offset = _whole_number(request, "offset", 0)
    jobs = sandbox.store.newest_first()
    status = FILTERS.get(request.query_params.get("status", ""))
    shown = [job for job in jobs if status in {None, job.status}][offset : offset + limit]
    return {"jobs": [list_view(job) for job in shown], "total": len(jobs), "limit": limit, "offset": offset}


@api.get("/jobs/{job_id}")
def look_up_job(job_id: str, request: Request, sandbox: SandboxState) -> dict[str, object]:
    """Tell how a job is doing; a completed one comes with a fresh link."""
    job = sandbox.job(job_id)
    return lookup_view(job, sandbox.signer.link(str(request.base_url), job.key) if job.key else None)


@api.delete("/jobs/{job_id}")
def cancel_job(job_id: str, sandbox: SandboxState) -> dict[str, object]:
    """Cancel a job that is still queued."""
    job = sandbox.job(job_id)
    sandbox.store.cancel(job.job_id)
    return {"message": "Job cancelled successfully", "job_id": job.job_id}


@api.post("/jobs/{job_id}/retry", status_code=201)
def retry_job(job_id: str, sandbox: SandboxState) -> dict[str, object]:
    """Create a new job from one that failed."""
    new = sandbox.retry(job_id)
    return {"job_id": new.job_id, "original_job_id": job_id, "message": "Job retry created"}


@api.delete("/jobs/{job_id}/file")
def delete_file(job_id: str, sandbox: SandboxState) -> dict[str, object]:
    """Delete a job's file; the job stays Completed."""
    return {"message": "File deleted", "job_id": job_id, "deleted_key": sandbox.delete_file(job_id)}


@api.get("/batch/{batch_id}")
def look_up_batch(batch_id: str, sandbox: SandboxState) -> dict[str, object]:
    """Tell how a batch is doing."""
    batch = sandbox.batch(batch_id)
    return batch_view(batch, [job for job_id in batch.job_ids if (job := sandbox.store.get(job_id))])


@api.get("/usage")
def usage(sandbox: SandboxState) -> dict[str, object]:
    """Tell what was used so far; deleting files does not lower it."""
    used_gb = sandbox.store.stored_bytes / GIGABYTE
    limit = sandbox.settings.storage_limit_bytes
    return {
        "client_name": "sandbox",
        "usage_count": sandbox.book.total().jobs_created,
        "storage_usage_gb": used_gb,
        "storage_reserved_gb": 0.0,
        "storage_effective_usage_gb": used_gb,
        **({} if limit is None else {"storage_limit_gb": limit / GIGABYTE, "storage_limit_bytes": limit}),
    }


@storage.api_route("/storage/{key:path}", methods=["GET", "HEAD"], response_model=None)
def read_object(key: str, request: Request, sandbox: SandboxState) -> Response:
    """Hand out a stored file to who has a signed link; the link is for GET and says nothing to HEAD."""
    if "authorization" in request.headers:
        return refuse(TWO_PERMISSIONS)
    if refusal := sandbox.signer.refusal(request.method, key, request.query_params):
        return refuse(refusal)
    return hand_out(sandbox.objects.path_of(key), request.headers.get("range"), request.scope.get(SPOILT))


def build_app(sandbox: Sandbox) -> FastAPI:
    """Return the API for one sandbox."""
    app = FastAPI(title="Media API sandbox", description="For trying and testing only.")
    app.state.sandbox = sandbox
    for router in (api, storage, controls):
        app.include_router(router)
    app.add_exception_handler(RefusalError, _refuse)
    app.add_exception_handler(HTTPException, _not_there)
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    if not isinstance(error, RefusalError):
        raise error
    if isinstance(error.body, str):
        return PlainTextResponse(error.body, error.status)
    kind_of_lookup = request.method == "GET" and request.url.path.startswith(("/jobs/", "/batch/"))
    if sandbox_of(request).settings.null_bodies and kind_of_lookup and error.status in {401, 404}:
        return JSONResponse(None, error.status)
    return JSONResponse(error.body, error.status)


async def _not_there(_: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    return JSONResponse({"error": error.detail}, error.status_code)


def _whole_number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()):
        raise RefusalError(400, f"Failed to deserialize query string: {name}: invalid digit found in string")
    return int(text)
