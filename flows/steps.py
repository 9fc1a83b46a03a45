"""The steps: *read -> one outside call -> decide -> one guarded write* for each attempt, in that order.

No step calls another; they meet in the ledger. None of them knows Prefect, so nothing of it can come between
the answer of the API and the commit of the ledger.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cache
from typing import TypeVar

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.consumers import Consumer
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import (
    Change,
    decide_inspection,
    decide_lookup,
    decide_overdue,
    decide_search,
    decide_submission,
    unanswered,
)
from prefect_media_jobs.blocks.domain.handoff import Handoff, decide_handoff, decide_no_link
from prefect_media_jobs.blocks.domain.outcomes import (
    CouldNotAsk,
    Delivery,
    FindOutcome,
    Intact,
    JobList,
    Unknown,
)
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import (
    ConflictingJobError,
    LedgerError,
    LedgerUnavailableError,
    StaleAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.media import MediaApi

In = TypeVar("In")
Out = TypeVar("Out")

WRITE_PATIENCE_S = 30.0
"""How long the ledger is tried again with an answer in hand, in seconds."""

_MARKED_LOOKUPS = 200


@dataclass(frozen=True)
class Stepped:
    """What a step made of one attempt.

    Args:
        state: State it is in now; None when another worker moved it first.
        could_not_ask: Why the question failed, if it did; nothing is written then.
    """

    attempt_id: str
    state: State | None
    could_not_ask: CouldNotAsk | None = None


def in_threads(work: Callable[[In], Out], items: Iterable[In], width: int) -> list[Out]:
    """Run ``work`` on every item, ``width`` at once, and return the results in order.

    When one raises or the process is told to stop, what has not begun is not begun, and what is on its way is
    waited for, so that its answer reaches the ledger.
    """
    pool = _pool(os.getpid(), width)
    futures = [pool.submit(work, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


@cache
def _pool(process: int, width: int) -> ThreadPoolExecutor:
    """Return the threads of this process; starting new ones for each page costs more than a question does."""
    return ThreadPoolExecutor(max_workers=width, thread_name_prefix=f"media-jobs-{process}")


def submit(ledger: AttemptLedger, api: MediaApi, attempt_id: str) -> Stepped:
    """Send one recorded attempt: commit the intent, one POST, commit the answer.

    Safe to repeat: yes, because of the claim; only a ``recorded`` attempt is ever sent.
    """
    window = timedelta(seconds=api.send_window_s)
    begun_at = _uninterrupted_s()
    try:
        attempt = ledger.begin_attempt(attempt_id, window=window)
    except TransitionRefusedError:
        return Stepped(attempt_id, None)
    # A process that was paused past its deadline sends nothing: somebody may have replaced the attempt.
    deadline = begun_at + window.total_seconds()
    outcome = api.submit(attempt, lambda: _uninterrupted_s() < deadline)
    return _write_answer(ledger, attempt, decide_submission(outcome))


def look_up(ledger: AttemptLedger, api: MediaApi, attempts: Sequence[Attempt]) -> list[Stepped]:
    """Ask about several jobs and write the answers at once; failed questions are returned and not written.

    A kill before the commit loses answers that can be asked for again.
    """
    outcomes = in_threads(lambda attempt: api.look_up(attempt.job_id or ""), attempts, api.width)
    asked = list(zip(attempts, outcomes, strict=True))
    now = ledger.now()
    answered = [
        (attempt, decide_lookup(attempt, outcome, now))
        for attempt, outcome in asked
        if not isinstance(outcome, CouldNotAsk)
    ]
    stepped = write_each(ledger, answered)
    return stepped + [
        Stepped(attempt.attempt_id, attempt.state, outcome)
        for attempt, outcome in asked
        if isinstance(outcome, CouldNotAsk)
    ]


def inspect(ledger: AttemptLedger, api: MediaApi, attempts: Sequence[Attempt]) -> list[Stepped]:
    """Look at the files of several finished jobs and write what was found."""
    outcomes = in_threads(
        lambda attempt: api.open_result(attempt.job_id or "", attempt.size_bytes), attempts, api.width
    )
    now = ledger.now()
    decided = [
        (attempt, decide_inspection(attempt, outcome, now))
        for attempt, outcome in zip(attempts, outcomes, strict=True)
    ]
    return write_each(ledger, decided)


def postpone(ledger: AttemptLedger, attempts: Sequence[Attempt], why: Mapping[str, CouldNotAsk]) -> None:
    """Write down which attempts could not be asked about, even after retries, and why."""
    now = ledger.now()
    write_each(ledger, [(each, unanswered(each, why[each.attempt_id], now)) for each in attempts])


def write_each(ledger: AttemptLedger, decided: Sequence[tuple[Attempt, Change]]) -> list[Stepped]:
    """Write decisions, each if its attempt is still as it was."""
    if not decided:
        return []
    written = ledger.apply_each(decided)
    return [
        Stepped(attempt.attempt_id, None if after is None else after.state)
        for (attempt, _), after in zip(decided, written, strict=True)
    ]


def doubt_overdue(ledger: AttemptLedger, attempt: Attempt) -> Attempt | None:
    """Judge an attempt whose sender never reported back; None when somebody moved it first."""
    try:
        return ledger.apply(attempt, decide_overdue())
    except StaleAttemptError:
        return None


def search(ledger: AttemptLedger, api: MediaApi, attempts: Sequence[Attempt]) -> list[Stepped]:
    """Search the job list once for several uncertain attempts and write what it means for each."""
    if not attempts:
        return []
    since = min(attempt.sent_at or attempt.asked_at for attempt in attempts)
    found = _with_markers(api, api.find(since), attempts)
    listed = [job.job_id for job in found.jobs] if isinstance(found, JobList) else []
    owned = frozenset(ledger.owners_of(attempts[0].api, listed))
    now = ledger.now()
    return [_apply(ledger, each, decide_search(each, found, owned, now)) for each in attempts]


def hand_over(
    ledger: AttemptLedger, api: MediaApi, consumer: Consumer, handoff: Handoff, attempt: Attempt
) -> Handoff | None:
    """Give one result to its consumer; None when another worker was first.

    The fresh link is fetched before the claim, so that a storage that cannot be reached costs the consumer
    nothing.
    """
    result = api.open_result(attempt.job_id or "", attempt.size_bytes)
    try:
        if not isinstance(result, Intact):
            return ledger.apply_handoff(handoff, (decide_no_link(handoff, result.reason),))
        claimed = ledger.begin_handoff(handoff, timedelta(seconds=consumer.window_s))
        outcome = consumer.consume(_delivery(handoff, attempt, result))
        return ledger.apply_handoff(claimed, decide_handoff(claimed, outcome))
    except StaleAttemptError:
        return None


def _delivery(handoff: Handoff, attempt: Attempt, result: Intact) -> Delivery:
    return Delivery(
        delivery_key=handoff.delivery_key,
        item_key=attempt.item_key,
        attempt_id=attempt.attempt_id,
        job_id=attempt.job_id or "",
        link=result.link,
        detail={
            "size_bytes": result.size_bytes,
            "container": result.container,
            "object_key": attempt.object_key,
        },
    )


def _with_markers(api: MediaApi, found: FindOutcome, attempts: Sequence[Attempt]) -> FindOutcome:
    """Ask about listed jobs that may be ours and whose entry does not tell the file name."""
    if isinstance(found, CouldNotAsk):
        return found
    sources = {attempt.source for attempt in attempts}
    unmarked = [job for job in found.jobs if job.marker is None and job.url in sources][:_MARKED_LOOKUPS]
    answers = in_threads(lambda job: api.look_up(job.job_id), unmarked, api.width)
    markers = {
        job.job_id: getattr(answer, "marker", None) for job, answer in zip(unmarked, answers, strict=True)
    }
    jobs = tuple(replace(job, marker=job.marker or markers.get(job.job_id)) for job in found.jobs)
    return JobList(jobs, found.complete)


def _apply(ledger: AttemptLedger, attempt: Attempt, change: Change) -> Stepped:
    try:
        return Stepped(attempt.attempt_id, ledger.apply(attempt, change).state)
    except (StaleAttemptError, ConflictingJobError):
        return Stepped(attempt.attempt_id, None)


def _write_answer(ledger: AttemptLedger, attempt: Attempt, change: Change) -> Stepped:
    """Write the answer to the one POST; a ledger that is busy or away is tried again for a bounded time."""
    give_up_at = time.monotonic() + WRITE_PATIENCE_S
    while True:
        try:
            return Stepped(attempt.attempt_id, ledger.apply(attempt, change).state)
        except ConflictingJobError as error:
            change = decide_submission(Unknown(str(error)))
        except LedgerError as error:
            evidence = change.event is Event.ACKNOWLEDGE
            if isinstance(error, StaleAttemptError) and not evidence:
                return Stepped(attempt.attempt_id, None)
            if time.monotonic() >= give_up_at:
                raise LedgerUnavailableError(_keep(ledger, attempt, change, error)) from None
            time.sleep(0.5)


def _keep(ledger: AttemptLedger, attempt: Attempt, change: Change, error: LedgerError) -> str:
    """Keep an answer where a person and the next sweep find it, and tell where."""
    told = clean(change.detail or change.event, 200)
    answered = f"Attempt {attempt.attempt_id} was answered ({told}), which could not be written."
    if change.event is not Event.ACKNOWLEDGE:
        return f"{answered} {error}"
    try:
        path = ledger.keep_answer(attempt, change)
    except OSError as trouble:
        return f"{answered} It could not be kept in a file either ({trouble.strerror}). {error}"
    return f"{answered} It is kept at {path}, and the next recover-media writes it down. {error}"


def _uninterrupted_s() -> float:
    """Return seconds of a clock that also runs while the machine sleeps, where there is one."""
    boot_clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot_clock is None else time.clock_gettime(boot_clock)
