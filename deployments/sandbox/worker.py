"""Process the jobs, a few at a time."""

import logging
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from prefect_media_jobs.deployments.sandbox.bill import RequestKind
from prefect_media_jobs.deployments.sandbox.errors import ProcessingFailedError
from prefect_media_jobs.deployments.sandbox.misbehaviour import (
    Misbehaviour,
    MisbehaviourDesk,
    MisbehaviourKind,
)
from prefect_media_jobs.deployments.sandbox.processing import ProcessingTask, Processor
from prefect_media_jobs.deployments.sandbox.sources import AllowedSources
from prefect_media_jobs.deployments.sandbox.storage import ObjectFolder
from prefect_media_jobs.deployments.sandbox.store import Job, JobStatus, JobStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Workshop:
    """What a worker works with."""

    store: JobStore
    objects: ObjectFolder
    sources: AllowedSources
    desk: MisbehaviourDesk
    processor: Processor
    scratch: Path


class JobWorkers:
    """A pool of threads. A stalled job waits outside of it, so that the others go on."""

    def __init__(self, workshop: Workshop, workers: int) -> None:
        self._shop = workshop
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="sandbox-job")
        self._stop = threading.Event()

    def enqueue(self, job_id: str) -> None:
        """Have a new job processed."""
        self._pool.submit(self._begin, job_id)

    def begin_stop(self) -> None:
        """Have everything that is running end soon, and begin nothing new."""
        self._stop.set()

    def stop(self) -> None:
        """End what is running and drop what is queued."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, job_id: str) -> None:
        """Process a job, unless there is an order to do something else with it."""
        job = self._shop.store.get(job_id)
        if job is None or not job.is_open:
            return
        order = self._shop.desk.take(RequestKind.PROCESS, job_id, job.request.url)
        if order is None:
            self._process(job_id)
        elif order.kind is MisbehaviourKind.STALL:
            self._stall(job_id, order)
        else:
            status = JobStatus(order.word or JobStatus.FAILED)
            self._shop.store.end(job_id, status, order.error, order.error_type)

    def _stall(self, job_id: str, order: Misbehaviour) -> None:
        if order.word != JobStatus.PENDING:
            self._shop.store.start(job_id)

        def go_on(_: Future[None]) -> None:
            if not self._stop.is_set():
                self._pool.submit(self._process, job_id)

        self._shop.desk.gate.add_done_callback(go_on)

    def _process(self, job_id: str) -> None:
        job = self._shop.store.start(job_id)
        if job is None:
            return
        try:
            self._produce(job)
        except ProcessingFailedError as error:
            self._shop.store.end(job_id, JobStatus.FAILED, str(error), "error")
        except Exception:  # whatever it is, the job must not stay open for ever
            logger.exception("The sandbox could not process job %s", job_id)
            self._shop.store.end(job_id, JobStatus.FAILED, "Internal error of the sandbox", "error")

    def _produce(self, job: Job) -> None:
        """Fetch, process, store, in this order; only a whole file reaches the storage."""
        shop, job_id = self._shop, job.job_id
        with tempfile.TemporaryDirectory(dir=shop.scratch) as name:
            folder = Path(name)
            source = shop.sources.fetch(job.request.url, folder / "source", self._stop)
            target = folder / f"result.{job.request.container}"
            shop.store.step(job_id, "Muxing")
            shop.processor.process(ProcessingTask(job.request, source, target, self._stop))
            shop.store.step(job_id, "Uploading")
            size_bytes = shop.objects.put(target, job.object_key)
        shop.store.complete(job_id, job.object_key, size_bytes)
