"""Reconciling: find out what became of attempts without a job id, without sending them again."""

from collections.abc import Sequence

from prefect import task
from prefect.cache_policies import NO_CACHE

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.flows import steps
from prefect_media_jobs.flows.naming import page_name
from prefect_media_jobs.flows.steps import Stepped


@task(
    name="reconcile-page",
    task_run_name=page_name("reconcile"),
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def reconcile_page(ledger: AttemptLedger, api: MediaApi, page: Sequence[Attempt]) -> list[Stepped]:
    """Judge what was never reported back, then search the job list once for the whole page.

    Safe to repeat: yes; nothing is sent.
    """
    uncertain: list[Attempt] = []
    for attempt in page:
        judged = steps.doubt_overdue(ledger, attempt) if attempt.state is State.SENDING else attempt
        if judged is not None:
            uncertain.append(judged)
    return steps.search(ledger, api, uncertain)
