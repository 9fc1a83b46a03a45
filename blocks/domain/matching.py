"""Which job of the API's list belongs to an attempt whose answer was lost."""

from datetime import timedelta
from pathlib import PurePosixPath

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.outcomes import JobList, ListedJob

CLOCK_MARGIN = timedelta(minutes=5)
"""How far the API's clock and ours may be apart."""


def marker_of(attempt: Attempt) -> str | None:
    """Return the text by which the attempt's job can be recognised: its own file name, if it is unique.

    A file name that the team chose is no proof, because two requests may share it.
    """
    return None if attempt.settings.get("filename") else attempt.attempt_id


def marker_in_key(object_key: str | None) -> str | None:
    """Return the file name in an object key, without folder and ending."""
    return PurePosixPath(object_key).stem if object_key else None


def exact_matches(attempt: Attempt, found: JobList) -> list[ListedJob]:
    """Return the listed jobs that carry the attempt's own marker."""
    marker = marker_of(attempt)
    return [job for job in found.jobs if marker is not None and job.marker == marker]


def hints(attempt: Attempt, found: JobList) -> list[ListedJob]:
    """Return the listed jobs that could be the attempt's: same source, not older, no other file name."""
    names = {None, attempt.settings.get("filename")}
    earliest = attempt.sent_at - CLOCK_MARGIN if attempt.sent_at else None
    return [
        job
        for job in found.jobs
        if job.url == attempt.source
        and job.marker in names
        and not (earliest and job.created_at and job.created_at < earliest)
    ]
