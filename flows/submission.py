"""Submitting: record everything, then send each attempt once."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, TypeVar

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from pydantic import Field

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import TERMINAL
from prefect_media_jobs.blocks.domain.states import State as AttemptState
from prefect_media_jobs.blocks.ledger import Scope
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.blocks.request import check_requests
from prefect_media_jobs.flows import steps
from prefect_media_jobs.flows.loading import opened, require_known_ledger
from prefect_media_jobs.flows.naming import page_name, requests_name
from prefect_media_jobs.flows.reporting import (
    Progress,
    Report,
    final_state,
    line,
    logger,
    publish_table,
    sentence,
)
from prefect_media_jobs.flows.steps import Stepped, in_threads

PAGE = 50
"""Attempts one task run covers: a task run costs the Prefect server far more than an attempt does."""

BOUGHT = TERMINAL | {AttemptState.SUBMITTED, AttemptState.COMPLETED}
"""States in which an attempt is as far as submitting takes it."""

T = TypeVar("T")


def pages(items: Sequence[T], size: int = PAGE) -> Iterator[Sequence[T]]:
    """Yield the items in pages."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


@task(
    name="submit-page",
    task_run_name=page_name("submit"),
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def submit_page(ledger: AttemptLedger, api: MediaApi, page: Sequence[str]) -> list[Stepped]:
    """Send a page of recorded attempts, each once.

    Safe to repeat: yes, because of the claim in the ledger; only what is ``recorded`` is sent.
    """
    return in_threads(partial(steps.submit, ledger, api), page, api.width)


def submit_recorded(ledger: AttemptLedger, api: MediaApi, attempts: Sequence[Attempt]) -> None:
    """Send those of the attempts that are recorded, in pages."""
    recorded = [each.attempt_id for each in attempts if each.state is AttemptState.RECORDED]
    if not recorded:
        return
    progress = Progress("media-submission-progress", len(recorded), f"Submitting {len(recorded)} attempts.")
    done = 0
    for page in pages(recorded):
        submit_page(ledger, api, page)
        done += len(page)
        progress.show(done)


def record_and_send(
    requests: Sequence[MediaRequest],
    ledger: AttemptLedger,
    api: MediaApi,
    api_name: str,
    batch_key: str | None,
) -> tuple[list[Attempt], int]:
    """Record everything, then send what is new.

    Args:
        api_name: Name of the block, by which the ledger knows the API.
    Returns:
        The attempts as they were recorded, and how many existed before.
    """
    api.check()
    before = ledger.now()
    attempts = ledger.record_attempts(requests, batch_key, api=api_name)
    attached = sum(each.changed_at < before for each in attempts)
    logger().info(
        "%s items, %s of them known already; the ledger is %s.", len(attempts), attached, ledger.place
    )
    submit_recorded(ledger, api, attempts)
    return attempts, attached


@flow(name="submit-media", flow_run_name=requests_name("submit"), retries=0, persist_result=False)
def submit_media(
    requests: Annotated[list[MediaRequest], Field(description="What to buy.")],
    ledger: str = "media-ledger",
    api: str = "media-api",
    batch_key: str | None = None,
) -> State[Report]:
    """Buy media processing: record every attempt in the ledger, then send each once.

    A request that has an attempt already attaches to it, so running this again buys nothing twice.

    Args:
        requests: What to buy; one entry an item.
        ledger: Name of the ledger block.
        api: Name of the media API block.
        batch_key: Groups these attempts in reports.
    """
    listed = check_requests(requests)
    with opened(ledger, api) as (book, shop):
        require_known_ledger(book, ledger)
        attempts, attached = record_and_send(listed, book, shop, api, batch_key)
        report = report_on(book, attempts, attached)
    publish_table("media-submission", report.lines, f"Submitted: {sentence(report.counts)}.")
    return final_state(report, BOUGHT)


def report_on(ledger: AttemptLedger, attempts: Sequence[Attempt], attached: int) -> Report:
    """Read the attempts again and report how they stand."""
    scope = Scope(attempt_ids=[each.attempt_id for each in attempts])
    lines = tuple(line(each) for each in ledger.list_attempts(scope))
    notes = (f"{attached} of them existed before, so nothing was bought for them now.",) if attached else ()
    return Report(lines, attached, notes)
