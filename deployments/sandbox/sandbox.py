"""The media API's verbs, independent of HTTP."""

import hmac
import uuid
from threading import Lock

from prefect_media_jobs.deployments.sandbox.bill import BillBook, BillLine
from prefect_media_jobs.deployments.sandbox.errors import RefusalError, bad_request
from prefect_media_jobs.deployments.sandbox.job_request import JobRequest
from prefect_media_jobs.deployments.sandbox.misbehaviour import MisbehaviourDesk
from prefect_media_jobs.deployments.sandbox.processing import FfmpegProcessor
from prefect_media_jobs.deployments.sandbox.settings import BatchShape, SandboxSettings
from prefect_media_jobs.deployments.sandbox.signing import LinkSigner
from prefect_media_jobs.deployments.sandbox.sources import AllowedSources, child_url, is_playlist, title_of
from prefect_media_jobs.deployments.sandbox.storage import ObjectFolder
from prefect_media_jobs.deployments.sandbox.store import RETRYABLE_STATUSES, Batch, Job, JobStore
from prefect_media_jobs.deployments.sandbox.worker import JobWorkers, Workshop

GIGABYTE = 1024**3


class Sandbox:
    """One running media API: jobs, files, bill and misbehaviour.

    Raises:
        SandboxError: it may not, or cannot, be started with these settings.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        settings.check()
        scratch = settings.folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self.api_key = settings.api_key
        self.store = JobStore()
        self.book = BillBook()
        self.desk = MisbehaviourDesk()
        self.signer = LinkSigner(settings.link_lifetime_s)
        self.objects = ObjectFolder(settings.folder / "objects")
        self.sources = AllowedSources(
            settings.allowed_folders, frozenset(host.lower() for host in settings.allowed_hosts)
        )
        processor = settings.processor or FfmpegProcessor()
        workshop = Workshop(self.store, self.objects, self.sources, self.desk, processor, scratch)
        self._workers = JobWorkers(workshop, settings.workers)
        self._answers: dict[str, dict[str, object]] = {}
        self._submitting = Lock()

    def let_go(self) -> None:
        """Begin to stop: hold back no answer any more, and start no further work."""
        self._workers.begin_stop()
        self.desk.close()

    def stop(self) -> None:
        """End the work, ffmpeg included."""
        self.let_go()
        self._workers.stop()

    def check_key(self, api_key: str | None) -> None:
        """Do nothing for the right key.

        Raises:
            RefusalError: 401.
        """
        if api_key is None:
            raise RefusalError(401, {"error": "Missing x-api-key header"})
        if not hmac.compare_digest(api_key.encode(), self.api_key.encode()):
            raise RefusalError(401, {"error": "Invalid API Key"})

    def submit(self, wanted: JobRequest, idempotency_key: str | None) -> dict[str, object]:
        """Create one job, or a batch for a playlist, and return the answer's body.

        Safe to repeat: no, unless the sandbox honours the key; every call is billed.
        """
        with self._submitting:
            known = (
                self._answers.get(idempotency_key or "") if self.settings.honours_idempotency_key else None
            )
            if known is not None:
                return {**known, "cached": True}
            self.sources.check(wanted.url)
            self._check_quota()
            if is_playlist(wanted.url):
                answer = self._create_batch(wanted, idempotency_key)
            else:
                answer = {"job_id": self._create(wanted, "create", idempotency_key=idempotency_key).job_id}
            if idempotency_key:
                self._answers[idempotency_key] = answer
            return answer

    def job(self, job_id: str) -> Job:
        """Return a job by the id of a URL.

        Raises:
            RefusalError: 400 for what is no id, 404 for an unknown one.
        """
        job = self.store.get(_canonical(job_id, "job"))
        if job is None:
            raise RefusalError(404, {"error": "Job not found"})
        return job

    def batch(self, batch_id: str) -> Batch:
        """Return a batch by the id of a URL; refusals as for jobs."""
        batch = self.store.batch(_canonical(batch_id, "batch"))
        if batch is None:
            raise RefusalError(404, {"error": "Batch not found"})
        return batch

    def retry(self, job_id: str) -> Job:
        """Buy the same again; the original stays as it is. Safe to repeat: no, every call is billed."""
        original = self.job(job_id)
        if original.status not in RETRYABLE_STATUSES:
            raise bad_request(f"Job cannot be retried (current status: {original.status})")
        return self._create(original.request, "retry", title=original.title)

    def delete_file(self, job_id: str) -> str:
        """Delete a job's file, clear its key, and return the key."""
        key = self.store.clear_key(self.job(job_id).job_id)
        self.objects.delete(key)
        return key

    def _check_quota(self) -> None:
        limit, used = self.settings.storage_limit_bytes, self.store.stored_bytes
        if limit is not None and used >= limit:
            sizes = {"limit_gb": f"{limit / GIGABYTE:.2f}", "used_gb": f"{used / GIGABYTE:.2f}"}
            raise RefusalError(
                403, {"error": "Storage quota exceeded", **sizes, "message": "Raise the limit or wait."}
            )

    def _create(
        self,
        wanted: JobRequest,
        how: str,
        *,
        title: str | None = None,
        idempotency_key: str | None = None,
        batch_id: str | None = None,
    ) -> Job:
        """Create one job, put it on the bill, and have it processed."""
        delay_s = self.settings.persist_delay_s
        job = self.store.add(
            wanted, title or title_of(wanted.url), persist_delay_s=delay_s, batch_id=batch_id
        )
        self.book.bought(
            BillLine(
                job_id=job.job_id,
                source=wanted.url,
                marker=wanted.filename,
                idempotency_key=idempotency_key,
                batch_id=batch_id,
                how=how,
            )
        )
        self._workers.enqueue(job.job_id)
        return job

    def _create_batch(self, wanted: JobRequest, idempotency_key: str | None) -> dict[str, object]:
        batch_id, title = str(uuid.uuid4()), title_of(wanted.url)
        jobs = []
        for number in range(1, self.settings.batch_size + 1):
            name = f"{wanted.filename}-{number}" if wanted.filename else None
            child = wanted.model_copy(update={"url": child_url(wanted.url, number), "filename": name})
            jobs.append(
                self._create(
                    child,
                    "batch",
                    title=f"{title}-{number}",
                    idempotency_key=idempotency_key,
                    batch_id=batch_id,
                )
            )
        self.store.add_batch(Batch(batch_id, wanted.url, wanted.folder, tuple(job.job_id for job in jobs)))
        return _batch_answer(batch_id, jobs, self.settings.batch_shape)


def _batch_answer(batch_id: str, jobs: list[Job], shape: BatchShape) -> dict[str, object]:
    word, ids = ("video", "total_videos") if shape is BatchShape.PLAYLIST else ("episode", "total_episodes")
    answer: dict[str, object] = {
        "batch_id": batch_id,
        ids: len(jobs),
        f"{word}_jobs": [job.job_id for job in jobs],
    }
    if shape is BatchShape.SHOW_WITH_TITLES:
        episodes = [{"job_id": job.job_id, "url": job.request.url, "title": job.title} for job in jobs]
        answer |= {"paused": False, "episodes": episodes}
    return answer


def _canonical(text: str, what: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise bad_request(f"Invalid {what} ID") from None
