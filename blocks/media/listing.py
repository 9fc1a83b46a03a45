"""Reading the job list, page by page, back to a time."""

from collections.abc import Callable
from datetime import datetime

from prefect_media_jobs.blocks.domain.matching import CLOCK_MARGIN
from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, FindOutcome, JobList, ListedJob
from prefect_media_jobs.blocks.media.answers import Answer
from prefect_media_jobs.blocks.media.wire import read_entry, read_page

PAGE_ENTRIES = 100
"""Largest page the API gives. Source: remote API reference, "List jobs"."""
_OVERLAP_ENTRIES = 10
"""Jobs that arrive while we read move the others down, so each page begins within the one before."""

Ask = Callable[[str], Answer | CouldNotAsk]


def read_list(ask: Ask, since: datetime, max_pages: int) -> FindOutcome:
    """Read the list back to ``since`` and a margin for clocks; at most ``max_pages`` pages.

    Returns:
        ``CouldNotAsk`` when not even the first page could be read. A list that could not be read to its end
        is marked as not complete, because absence from it means nothing.
    """
    earliest = since - CLOCK_MARGIN
    found: dict[str, ListedJob] = {}
    offset = 0
    for number in range(max_pages):
        entries = _page(ask, offset)
        if isinstance(entries, CouldNotAsk):
            return entries if number == 0 else _listed(found, earliest, complete=False)
        jobs = [job for job in map(read_entry, entries) if job is not None]
        for job in jobs:
            found.setdefault(job.job_id, job)
        dated = [job.created_at for job in jobs if job.created_at is not None]
        if not entries or (dated and dated[-1] < earliest):
            return _listed(found, earliest, complete=True)
        # What was received counts, not what was asked for: a server may give smaller pages.
        offset += len(entries) - (_OVERLAP_ENTRIES if len(entries) > _OVERLAP_ENTRIES else 0)
    return _listed(found, earliest, complete=False)


def _page(ask: Ask, offset: int) -> list[object] | CouldNotAsk:
    answer = ask(f"/jobs?limit={PAGE_ENTRIES}&offset={offset}")
    if isinstance(answer, CouldNotAsk):
        return answer
    try:
        if answer.is_success:
            return read_page(answer)
    except ValueError:
        pass
    return CouldNotAsk(f"The API answered HTTP {answer.status} without a job list.", answer.retry_after_s())


def _listed(found: dict[str, ListedJob], earliest: datetime, *, complete: bool) -> JobList:
    jobs = (job for job in found.values() if job.created_at is None or job.created_at >= earliest)
    return JobList(tuple(jobs), complete)
