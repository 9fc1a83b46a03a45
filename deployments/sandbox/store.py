"""Jobs and batches in memory; a restart forgets them."""

import threading
import time
import uuid
from dataclasses import dataclass, replace
from enum import StrEnum

from prefect_media_jobs.deployments.sandbox.errors import bad_request
from prefect_media_jobs.deployments.sandbox.job_request import JobRequest


class JobStatus(StrEnum):
    """Status words of the API."""

    PENDING = "Pending"
    """Queued."""
    PROCESSING = "Processing"
    """A worker has it."""
    COMPLETED = "Completed"
    """Done; the file is stored."""
    FAILED = "Failed"
    """Ended without a file for a technical reason, or cancelled."""
    WARNING = "Warning"
    """Ended without a file because of the content."""
    SKIPPED = "Skipped"
    """Ended without a file because it cannot be processed at all."""


OPEN_STATUSES = (JobStatus.PENDING, JobStatus.PROCESSING)
RETRYABLE_STATUSES = (JobStatus.FAILED, JobStatus.WARNING)


@dataclass(frozen=True, slots=True)
class Job:
    """One job as it stands; every change makes a new value.

    Args:
        key: Object key of the stored file; None before it exists and after it was deleted.
        created_ms: Epoch milliseconds.
        persisted_at: Monotonic clock reading from which lookups echo the request.
    """

    job_id: str
    request: JobRequest
    title: str
    created_ms: int
    persisted_at: float
    batch_id: str | None = None
    status: JobStatus = JobStatus.PENDING
    step: str = "Queued"
    error: str | None = None
    error_type: str | None = None
    key: str | None = None
    file_size: int | None = None
    finished_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether its end is still to come."""
        return self.status in OPEN_STATUSES

    @property
    def persisted(self) -> bool:
        """Whether lookups tell what was asked for."""
        return time.monotonic() >= self.persisted_at

    @property
    def object_key(self) -> str:
        """Where its file is, or will be, stored."""
        folder = "/".join(part for part in (self.request.folder or "").split("/") if part not in {"", "."})
        name = f"{self.request.filename or self.title}.{self.request.container}"
        return "/".join(part for part in ("videos", folder, name) if part)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a playlist became."""

    batch_id: str
    source: str
    folder: str | None
    job_ids: tuple[str, ...]


class JobStore:
    """All jobs, oldest first; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}
        self._batches: dict[str, Batch] = {}
        self._stored_bytes = 0

    def add(
        self, request: JobRequest, title: str, *, persist_delay_s: float, batch_id: str | None = None
    ) -> Job:
        """Create a job."""
        job = Job(
            job_id=str(uuid.uuid4()),
            request=request,
            title=title,
            created_ms=now_ms(),
            persisted_at=time.monotonic() + persist_delay_s,
            batch_id=batch_id,
        )
        with self._lock:
            self._jobs[job.job_id] = job
        return job

    def add_batch(self, batch: Batch) -> None:
        """Keep a batch whose jobs exist."""
        with self._lock:
            self._batches[batch.batch_id] = batch

    def get(self, job_id: str) -> Job | None:
        """Return the job, None when there is none of this id."""
        with self._lock:
            return self._jobs.get(job_id)

    def batch(self, batch_id: str) -> Batch | None:
        """Return the batch, None when there is none of this id."""
        with self._lock:
            return self._batches.get(batch_id)

    def newest_first(self) -> list[Job]:
        """Return all jobs."""
        with self._lock:
            return list(reversed(self._jobs.values()))

    @property
    def stored_bytes(self) -> int:
        """Bytes ever stored; deleting a file does not lower it."""
        with self._lock:
            return self._stored_bytes

    def start(self, job_id: str) -> Job | None:
        """Move an open job to Processing; None when it is over or forgotten."""
        return self._change(job_id, OPEN_STATUSES, status=JobStatus.PROCESSING, step="Downloading")

    def step(self, job_id: str, step: str) -> None:
        """Tell how far a job is."""
        self._change(job_id, OPEN_STATUSES, step=step)

    def complete(self, job_id: str, key: str, size_bytes: int) -> None:
        """End a job well."""
        end = {"status": JobStatus.COMPLETED, "step": "Finished", "key": key, "file_size": size_bytes}
        if self._change(job_id, OPEN_STATUSES, **end, finished_ms=now_ms()):
            with self._lock:
                self._stored_bytes += size_bytes

    def end(self, job_id: str, status: JobStatus, error: str, error_type: str) -> None:
        """End a job without a file."""
        end = {"status": status, "error": error, "error_type": error_type, "finished_ms": now_ms()}
        self._change(job_id, OPEN_STATUSES, **end)

    def cancel(self, job_id: str) -> None:
        """Take a job out of the queue.

        Raises:
            RefusalError: it is not in the queue any more.
        """
        end = {"status": JobStatus.FAILED, "step": "Cancelled", "error": "Job cancelled by user"}
        if not self._change(job_id, (JobStatus.PENDING,), **end, error_type="error", finished_ms=now_ms()):
            raise bad_request("Job cannot be cancelled (not in queue or already processing)")

    def clear_key(self, job_id: str) -> str:
        """Take the file away from a finished job and return its key.

        Raises:
            RefusalError: it has none.
        """
        with self._lock:
            job = self._jobs[job_id]
            if job.key is None:
                raise bad_request("Job has no file to delete")
            self._jobs[job_id] = replace(job, key=None)
            return job.key

    def forget(self, job_id: str) -> None:
        """Remove a job as if it had never been."""
        with self._lock:
            self._jobs.pop(job_id, None)

    def _change(self, job_id: str, allowed: tuple[JobStatus, ...], **fields: object) -> Job | None:
        """Replace a job whose status allows it; None when nothing was changed."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or job.status not in allowed:
                return None
            self._jobs[job_id] = changed = replace(job, **fields)  # type: ignore[arg-type]
            return changed


def now_ms() -> int:
    """Return the time in epoch milliseconds, as the API tells it."""
    return time.time_ns() // 1_000_000
