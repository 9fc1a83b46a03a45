"""Jobs and batches as the API tells them."""

from collections import Counter

from prefect_media_jobs.deployments.sandbox.store import Batch, Job, JobStatus


def lookup_view(job: Job, link: str | None) -> dict[str, object]:
    """Return the answer to a lookup; the request is echoed only once the job is persisted."""
    view: dict[str, object] = {
        "id": job.job_id,
        "url": job.request.url,
        "status": job.status.value,
        "s3_url": link,
        "subtitle_url": None,
        "error": job.error,
        "error_type": job.error_type,
        "step": job.step,
        "batch_id": job.batch_id,
        "created_at": job.created_ms,
        "finished_at": job.finished_ms,
        "file_size": job.file_size,
    }
    if job.persisted:
        view |= {**job.request.echo, "title": job.title, "webhook_status": "no_webhook"}
    return view


def list_view(job: Job) -> dict[str, object]:
    """Return a row of the list: the object key, but no link and no file name."""
    return {
        "id": job.job_id,
        "url": job.request.url,
        "status": job.status.value,
        "s3_key": job.key,
        "error": job.error,
        "step": job.step,
        "created_at": job.created_ms,
        "finished_at": job.finished_ms,
        "file_size": job.file_size,
    }


def batch_view(batch: Batch, jobs: list[Job]) -> dict[str, object]:
    """Return the answer to a batch lookup. Children ending with Warning count as failed."""
    counts = Counter(job.status for job in jobs)
    completed = counts[JobStatus.COMPLETED]
    over = not any(job.is_open for job in jobs)
    return {
        "id": batch.batch_id,
        "show_url": batch.source,
        "folder": batch.folder,
        "status": ("completed" if completed == len(batch.job_ids) else "finished") if over else "processing",
        "total_episodes": len(batch.job_ids),
        "completed_episodes": completed,
        "failed_episodes": counts[JobStatus.FAILED] + counts[JobStatus.WARNING],
        "skipped_episodes": counts[JobStatus.SKIPPED],
        "episode_jobs": list(batch.job_ids),
    }
