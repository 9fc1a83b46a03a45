"""Handing over: each delivered result reaches its consumer under one key."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed
from pydantic import Field

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.consumers import Consumer
from prefect_media_jobs.blocks.domain.handoff import Handoff, HandoffState
from prefect_media_jobs.blocks.ledger import Scope
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.flows import steps
from prefect_media_jobs.flows.loading import load_consumer, opened
from prefect_media_jobs.flows.naming import page_name
from prefect_media_jobs.flows.reporting import Line, Report, publish_table, sentence
from prefect_media_jobs.flows.steps import in_threads
from prefect_media_jobs.flows.submission import PAGE

TAKEN = frozenset({HandoffState.ACCEPTED, HandoffState.CONSUMED})
UNTAKEN = "What was refused waits for a person; the rest is offered again under the same key."


@dataclass(frozen=True)
class Receiver:
    """A consumer and the name it was asked for by, which is part of every delivery key."""

    name: str
    consumer: Consumer


@task(
    name="hand-over-page",
    task_run_name=page_name("hand over", "results"),
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def hand_over_page(
    ledger: AttemptLedger, api: MediaApi, consumer: Consumer, page: Sequence[Handoff]
) -> list[Handoff]:
    """Hand over a page of results.

    Safe to repeat: yes; a consumer that may have a result gets it again under the same key.
    """
    scope = Scope(attempt_ids=[each.attempt_id for each in page])
    attempts = {each.attempt_id: each for each in ledger.list_attempts(scope)}

    def one(handoff: Handoff) -> Handoff | None:
        return steps.hand_over(ledger, api, consumer, handoff, attempts[handoff.attempt_id])

    return [each for each in in_threads(one, page, api.width) if each is not None]


def hand_over_due(
    ledger: AttemptLedger, api: MediaApi, receiver: Receiver, scope: Scope, limit: int
) -> list[Handoff]:
    """Hand over everything that is due to one consumer, in pages; each result is offered once."""
    handled: dict[str, Handoff] = {}
    while len(handled) < limit:
        due = ledger.due_handoffs(receiver.name, min(PAGE, limit - len(handled)), scope)
        page = [each for each in due if each.delivery_key not in handled]
        if not page:
            break
        handled |= {each.delivery_key: each for each in page}
        done = hand_over_page(ledger, api, receiver.consumer, page)
        handled |= {each.delivery_key: each for each in done}
    return list(handled.values())


@flow(name="hand-off-media", flow_run_name="hand over to {consumer}", retries=0, persist_result=False)
def hand_off_media(
    ledger: str = "media-ledger",
    consumer: str = "media-consumer",
    api: str = "media-api",
    batch_key: str | None = None,
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 100_000,
) -> State[Report]:
    """Give every delivered result that this consumer does not have yet to it, once per delivery key.

    Args:
        ledger: Name of the ledger block.
        consumer: Import path of a function (package.module:function), or a consumer block.
        api: Name of the media API block, which is asked for fresh links.
        batch_key: Hand over this batch alone.
        limit: Results handed over at most.
    """
    scope = Scope(api=api, batch_key=batch_key)
    receiver = Receiver(consumer, load_consumer(consumer))
    with opened(ledger, api) as (book, shop):
        handled = hand_over_due(book, shop, receiver, scope, limit)
    lines = tuple(Line(each.attempt_id, each.delivery_key, each.state, None, each.reason) for each in handled)
    report = Report(lines)
    message = f"Handed over to {consumer}: {sentence(report.counts)}."
    open_lines = [each for each in lines if each.state not in TAKEN]
    if open_lines:
        publish_table("media-handoff-open", open_lines, message)
        return Failed(name="NotAllTaken", message=f"{message} {UNTAKEN}")
    return Completed(message=message, data=report)
