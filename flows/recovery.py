"""Recovering: one sweep over everything that is due, whoever began it."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.states import Completed, Failed
from prefect.tasks import Task
from pydantic import Field

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Action, Attempt
from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk
from prefect_media_jobs.blocks.errors import LookupIncompleteError, MediaApiError
from prefect_media_jobs.blocks.ledger import Scope
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.flows import steps
from prefect_media_jobs.flows.loading import opened
from prefect_media_jobs.flows.naming import page_name
from prefect_media_jobs.flows.reconciliation import reconcile_page
from prefect_media_jobs.flows.reporting import SHOWN_ROWS, Line, Report, line, logger, publish_table, sentence
from prefect_media_jobs.flows.steps import Stepped
from prefect_media_jobs.flows.submission import PAGE, submit_page

PATIENT_RETRY_S = 60.0
"""When the API asks to wait longer than this, the next sweep asks again, not this one."""


def worth_retrying(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Retry a page only for questions that failed in passing: not for a refused key, not for a long wait."""
    error = state.result(raise_on_failure=False)
    if not isinstance(error, LookupIncompleteError):
        return False
    unanswered: dict[str, CouldNotAsk] = error.args[1]
    return any(
        not why.credentials and (why.retry_after_s or 0) <= PATIENT_RETRY_S for why in unanswered.values()
    )


@task(
    name="look-up-page",
    task_run_name=page_name("look up"),
    retries=2,
    retry_delay_seconds=[2, 8],
    retry_jitter_factor=0.5,
    retry_condition_fn=worth_retrying,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def look_up_page(ledger: AttemptLedger, api: MediaApi, page: Sequence[Attempt]) -> list[Stepped]:
    """Ask about a page of jobs; answers go to the ledger at once, Prefect retries what could not be asked.

    Raises:
        LookupIncompleteError: some could not be asked about; its second argument tells why, by attempt id.
    Safe to repeat: yes; what was answered or moved meanwhile is left out.
    """
    stepped = steps.look_up(ledger, api, ledger.still_held(page))
    unanswered = {each.attempt_id: each.could_not_ask for each in stepped if each.could_not_ask is not None}
    if unanswered:
        why = next(iter(unanswered.values())).reason
        raise LookupIncompleteError(
            f"{len(unanswered)} of {len(page)} jobs could not be asked about: {why}", unanswered
        )
    return stepped


@task(
    name="inspect-page",
    task_run_name=page_name("inspect"),
    retries=0,
    cache_policy=NO_CACHE,
    persist_result=False,
)
def inspect_page(ledger: AttemptLedger, api: MediaApi, page: Sequence[Attempt]) -> list[Stepped]:
    """Look at a page of finished files.

    Safe to repeat: yes.
    """
    return steps.inspect(ledger, api, page)


@dataclass
class Tally:
    """What a sweep did.

    Args:
        reached: Number of attempts by the state they are in after their step.
        moved: Attempts another worker moved first.
        unanswered: Attempts that could not be asked about.
        notes: Sentences for a person.
    """

    reached: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    unanswered: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, stepped: Sequence[Stepped]) -> None:
        """Count a page."""
        self.reached.update(each.state for each in stepped if each.state is not None)
        self.moved += sum(each.state is None for each in stepped)


@dataclass(frozen=True)
class Sweep:
    """One pass of recovery over what is due.

    Args:
        send_within: How long ago something may have been asked for to be sent without a person.
        limit: Attempts each stage takes at most.
    """

    ledger: AttemptLedger
    api: MediaApi
    scope: Scope
    send_within: timedelta
    limit: int
    tally: Tally = field(default_factory=Tally)

    def run(self) -> Tally:
        """Send what never left, find what is uncertain, ask about what runs, look at what is finished."""
        self.tally.notes += self.ledger.take_kept_answers()
        self._submit()
        self._stage(Action.RECONCILE, reconcile_page)
        self._stage(Action.LOOKUP, self._look_up)
        self._stage(Action.INSPECT, inspect_page)
        return self.tally

    def _submit(self) -> None:
        """Send what was recorded, if the API can be used; one that cannot must not turn it into refusals."""
        for page in self._pages(Action.SUBMIT):
            try:
                self.api.check()
            except MediaApiError as error:
                self.tally.notes.append(f"Nothing was sent: {error}")
                return
            self.tally.add(submit_page(self.ledger, self.api, [each.attempt_id for each in page]))

    def _stage(
        self,
        action: Action,
        work: Callable[[AttemptLedger, MediaApi, Sequence[Attempt]], list[Stepped]],
    ) -> None:
        for page in self._pages(action):
            self.tally.add(work(self.ledger, self.api, page))

    def _pages(self, action: Action) -> Iterator[list[Attempt]]:
        """Claim page after page of what was due when the stage began, so that each is taken once."""
        begun_at, left = self.ledger.now(), self.limit
        while left > 0:
            page = self.ledger.claim_due(
                [action],
                min(PAGE, left),
                scope=self.scope,
                send_within=self.send_within,
                due_before=begun_at,
            )
            if not page:
                return
            left -= len(page)
            yield page

    def _look_up(self, ledger: AttemptLedger, api: MediaApi, page: Sequence[Attempt]) -> list[Stepped]:
        state = look_up_page(ledger, api, page, return_state=True)
        result = state.result(raise_on_failure=False)
        if isinstance(result, LookupIncompleteError):
            unanswered: dict[str, CouldNotAsk] = result.args[1]
            self.tally.unanswered += len(unanswered)
            self.tally.notes.append(str(result.args[0]))
            held = ledger.still_held([each for each in page if each.attempt_id in unanswered])
            steps.postpone(ledger, held, unanswered)
            return []
        if isinstance(result, BaseException):
            raise result
        stepped: list[Stepped] = result
        return stepped


@flow(name="recover-media", flow_run_name="recover from {api}", retries=0, persist_result=False)
def recover_media(
    ledger: str = "media-ledger",
    api: str = "media-api",
    limit: Annotated[int, Field(ge=1, le=1_000_000)] = 100_000,
    send_within_h: Annotated[float, Field(ge=0, le=8760)] = 24.0,
    batch_key: str | None = None,
) -> State[Report]:
    """Sweep once over everything that is due: find, ask, inspect. Buys only what provably never left.

    Args:
        ledger: Name of the ledger block.
        api: Name of the media API block; only its attempts are swept.
        limit: Attempts each stage takes at most.
        send_within_h: Hours since something was asked for within which it is still sent; what is older waits
            for a person.
        batch_key: Sweep this batch alone.
    """
    scope = Scope(api=api, batch_key=batch_key)
    with opened(ledger, api) as (book, shop):
        sweep = Sweep(book, shop, scope, timedelta(hours=send_within_h), limit)
        sweep.run()
        return _close(sweep)


def _close(sweep: Sweep) -> State[Report]:
    tally, waiting = sweep.tally, _for_a_person(sweep)
    message = f"Swept: {sentence(dict(tally.reached))}."
    if tally.moved:
        message += f" {tally.moved} moved by another worker."
    publish_table("media-needs-a-person", waiting, f"{len(waiting)} attempts wait for a person.")
    for note in tally.notes:
        logger().warning(note)
    if tally.notes and not tally.reached:
        return Failed(name="CouldNotAsk", message=" ".join([message, *tally.notes]))
    return Completed(message=message, data=Report(tuple(waiting), notes=tuple(tally.notes)))


def _for_a_person(sweep: Sweep) -> list[Line]:
    waiting = sweep.ledger.needs_a_person(SHOWN_ROWS + 1, scope=sweep.scope, send_within=sweep.send_within)
    refused = sweep.ledger.refused_handoffs(sweep.scope)
    return [line(attempt) for attempt in waiting] + [
        Line(each.attempt_id, "", "refused by its consumer", each.job_id, each.reason) for each in refused
    ]
