"""All of it in one flow: submit, follow to the end, hand over. Safe to rerun."""

import time
from datetime import timedelta
from typing import Annotated

from prefect import flow
from prefect.client.schemas.objects import State
from prefect.states import Failed
from pydantic import Field

from prefect_media_jobs.blocks import MediaRequest
from prefect_media_jobs.blocks.domain.states import FOR_A_PERSON, TERMINAL
from prefect_media_jobs.blocks.domain.states import State as AttemptState
from prefect_media_jobs.blocks.ledger import Scope
from prefect_media_jobs.blocks.request import check_requests
from prefect_media_jobs.flows.handoff import TAKEN, UNTAKEN, Receiver, hand_over_due
from prefect_media_jobs.flows.loading import load_consumer, opened, require_known_ledger
from prefect_media_jobs.flows.naming import requests_name
from prefect_media_jobs.flows.recovery import Sweep
from prefect_media_jobs.flows.reporting import Progress, Report, final_state, publish_table, sentence
from prefect_media_jobs.flows.submission import record_and_send, report_on

SHORTEST_WAIT_S, LONGEST_WAIT_S = 0.5, 15.0
MOVING = frozenset(AttemptState) - TERMINAL - FOR_A_PERSON
"""States that a later look may change without a person."""


@flow(name="process-media", flow_run_name=requests_name("process"), retries=0, persist_result=False)
def process_media(  # noqa: PLR0917 - the parameters of a flow are its form
    requests: Annotated[list[MediaRequest], Field(description="What to buy.")],
    ledger: str = "media-ledger",
    api: str = "media-api",
    consumer: str | None = None,
    batch_key: str | None = None,
    follow_for_s: Annotated[float, Field(ge=0, le=604_800)] = 3600.0,
) -> State[Report]:
    """Buy media processing, follow it to the end and hand each result over once.

    Running it again attaches to what exists: nothing is bought twice, and what was handed over is not handed
    over again.

    Args:
        requests: What to buy; one entry an item.
        ledger: Name of the ledger block.
        api: Name of the media API block.
        consumer: Who gets the results: an import path (package.module:function) or a consumer block. Left
            out, results stay in the ledger for hand-off-media.
        batch_key: Groups these attempts in reports.
        follow_for_s: Seconds after which waiting ends; the jobs go on and recover-media collects them.
    """
    listed = check_requests(requests)
    receiver = None if consumer is None else Receiver(consumer, load_consumer(consumer))
    with opened(ledger, api) as (book, shop):
        require_known_ledger(book, ledger)
        attempts, attached = record_and_send(listed, book, shop, api, batch_key)
        ids = sorted({each.attempt_id for each in attempts})
        sweep = Sweep(book, shop, Scope(api=api, attempt_ids=ids), timedelta(days=1), len(ids))
        _follow(sweep, receiver, follow_for_s)
        report = report_on(book, attempts, attached)
        untaken = 0 if receiver is None else _untaken(sweep, receiver)
    publish_table("media-processing", report.lines, f"Processed: {sentence(report.counts)}.")
    if untaken:
        message = f"{sentence(report.counts)}. {untaken} not taken by {consumer}. {UNTAKEN}"
        return Failed(name="NotAllTaken", message=message)
    return final_state(report, TERMINAL)


def _follow(sweep: Sweep, receiver: Receiver | None, follow_for_s: float) -> None:
    """Sweep over these attempts until none moves by itself any more, or the time is over."""
    progress = Progress("media-processing-progress", sweep.limit, f"Processing {sweep.limit} attempts.")
    give_up_at = time.monotonic() + follow_for_s
    while True:
        troubles = len(sweep.tally.notes)
        sweep.run()
        if receiver is not None:
            hand_over_due(sweep.ledger, sweep.api, receiver, sweep.scope, sweep.limit)
        due_at = sweep.ledger.next_due(sweep.scope, MOVING)
        counts = sweep.ledger.summary(scope=sweep.scope).attempts
        progress.show(sum(count for state, count in counts.items() if state not in MOVING))
        left_s = give_up_at - time.monotonic()
        if due_at is None or left_s <= 0:
            return
        due_in_s = (due_at - sweep.ledger.now()).total_seconds()
        shortest_s = SHORTEST_WAIT_S if len(sweep.tally.notes) == troubles else LONGEST_WAIT_S
        time.sleep(min(max(due_in_s, shortest_s), LONGEST_WAIT_S, left_s))


def _untaken(sweep: Sweep, receiver: Receiver) -> int:
    handoffs = [each for each in sweep.ledger.handoffs(sweep.scope) if each.consumer == receiver.name]
    return sum(each.state not in TAKEN for each in handoffs)
