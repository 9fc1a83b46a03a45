"""What a request is about, told before it is carried out."""

import json
from dataclasses import dataclass

from starlette.types import Message, Receive, Scope

from prefect_media_jobs.deployments.sandbox.bill import RequestKind
from prefect_media_jobs.deployments.sandbox.sandbox import Sandbox

BODY_LIMIT_BYTES = 4 * 1024**2
JOB_PARTS = 2
JOB_ACTION_PARTS = 3
_JOB_REQUESTS = {"GET": RequestKind.LOOKUP, "DELETE": RequestKind.CANCEL}
_JOB_ACTIONS = {("POST", "retry"): RequestKind.RETRY, ("DELETE", "file"): RequestKind.DELETE_FILE}
_PLAIN = {
    ("POST", "jobs"): RequestKind.CREATE,
    ("GET", "jobs"): RequestKind.LIST,
    ("GET", "usage"): RequestKind.USAGE,
}


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request, with its body read in full.

    Args:
        kind: What it asks for.
        scope: The ASGI scope.
        body: The whole body, so that the request can be carried out although its client has gone.
        job_id: The job it is about, if it names one.
        source: That job's source, or the one it wants to have processed.
    """

    kind: RequestKind
    scope: Scope
    body: bytes
    job_id: str | None = None
    source: str | None = None

    def receive(self, receive: Receive) -> Receive:
        """Return a source of messages that gives the body again, and after it whatever comes."""
        waiting: list[Message] = [{"type": "http.request", "body": self.body, "more_body": False}]

        async def again() -> Message:
            return waiting.pop() if waiting else await receive()

        return again

    def header(self, name: str) -> str | None:
        """Return a request header."""
        wanted = name.encode()
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == wanted), None)


async def read_incoming(scope: Scope, receive: Receive, sandbox: Sandbox) -> Incoming | None:
    """Read a request to its end; None when the client went away before that."""
    body = b""
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        more = message.get("more_body", False) and len(body) <= BODY_LIMIT_BYTES
    path: str = scope["path"]
    kind = kind_of(scope["method"], path)
    if kind is RequestKind.CREATE:
        return Incoming(kind, scope, body, source=_source_in(body))
    job_id = _job_id_in(kind, path, sandbox)
    job = sandbox.store.get(job_id) if job_id else None
    return Incoming(kind, scope, body, job_id, job.request.url if job else None)


def kind_of(method: str, path: str) -> RequestKind:
    """Return what a request asks for."""
    parts = path.strip("/").split("/")
    if parts[0] == "_sandbox":
        return RequestKind.CONTROL
    if parts[0] == "storage":
        return RequestKind.STORAGE
    if parts[0] == "batch" and method == "GET":
        return RequestKind.BATCH
    if parts[0] == "jobs" and len(parts) == JOB_PARTS:
        return _JOB_REQUESTS.get(method, RequestKind.OTHER)
    if parts[0] == "jobs" and len(parts) == JOB_ACTION_PARTS:
        return _JOB_ACTIONS.get((method, parts[2]), RequestKind.OTHER)
    return _PLAIN.get((method, "/".join(parts)), RequestKind.OTHER)


def _source_in(body: bytes) -> str | None:
    try:
        source = json.loads(body)["url"]
    except (ValueError, KeyError, TypeError):
        return None
    return source if isinstance(source, str) else None


def _job_id_in(kind: RequestKind, path: str, sandbox: Sandbox) -> str | None:
    parts = path.strip("/").split("/")
    if kind is RequestKind.STORAGE:
        key = path.removeprefix("/storage/")
        return next((job.job_id for job in sandbox.store.newest_first() if job.key == key), None)
    return parts[1] if parts[0] == "jobs" and len(parts) > 1 else None
