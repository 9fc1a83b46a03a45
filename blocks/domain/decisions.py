"""From an answer to one write: pure functions, one ``match`` each.

Every stage is *read -> one outside call -> decide -> one guarded write*; this is the third step. A decision
is a ``Change``; the ledger applies it if nobody moved the row meanwhile.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict, assert_never

from prefect_media_jobs.blocks.domain import outcomes as o
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.backoff import FIRST_LOOK_S, SLOWEST_LOOK_S, next_look_s
from prefect_media_jobs.blocks.domain.matching import exact_matches, hints
from prefect_media_jobs.blocks.domain.states import Event, State


class Facts(TypedDict, total=False):
    """Columns a change sets beside the state; names are those of ``Attempt``."""

    job_id: str
    batch_id: str
    batch_job_ids: tuple[str, ...]
    remote_status: str | None
    reason: str | None
    lookups: int
    failures: int
    not_found_count: int
    not_found_since: datetime | None
    size_bytes: int | None
    object_key: str | None


@dataclass(frozen=True)
class Change:
    """One decided write.

    Args:
        to: State it leads to; the same one for an observation.
        due_in_s: Seconds until the next step is due; None when nothing is due by itself.
        detail: What was learnt, redacted, for the history. None with an unmoved state means "as before":
            the row is updated, and the history does not grow.
    """

    event: Event
    to: State
    facts: Facts = field(default_factory=Facts)
    due_in_s: float | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Patience:
    """How long unclear answers are borne before a person is asked, in seconds.

    Args:
        not_found_grace_s: A job that was just created may not be visible yet.
        lost_after_s: How long "not found" must have been the answer, counted from the first.
        lost_after_count: And how often in a row.
        no_file_within_s: How long a finished job may be without an intact file.
        resend_after_s: Pause before what provably never left is sent again.
        search_every_s: Pause between searches for an uncertain attempt.
    """

    not_found_grace_s: float = 30.0
    lost_after_s: float = 3600.0
    lost_after_count: int = 5
    no_file_within_s: float = 600.0
    resend_after_s: float = 30.0
    search_every_s: float = 60.0


DEFAULT_PATIENCE = Patience()


def decide_submission(outcome: o.SubmitOutcome, patience: Patience = DEFAULT_PATIENCE) -> Change:
    """Decide what the answer to the one POST means for its attempt."""
    match outcome:
        case o.Accepted(job_id):
            facts = Facts(job_id=job_id, reason=None)
            return Change(Event.ACKNOWLEDGE, State.SUBMITTED, facts, FIRST_LOOK_S, f"job {job_id}")
        case o.AcceptedBatch(batch_id, job_ids):
            reason = f"The API made a batch of {len(job_ids)} jobs of this source."
            facts = Facts(batch_id=batch_id, batch_job_ids=job_ids, reason=reason)
            return Change(Event.ACKNOWLEDGE, State.SUBMITTED, facts, None, f"batch {batch_id}: {reason}")
        case o.Refused(status, reason):
            text = f"HTTP {status}: {reason}"
            return Change(Event.REFUSE, State.REJECTED, Facts(reason=text), None, text)
        case o.NotSent(reason):
            return Change(
                Event.NOT_SENT, State.RECORDED, Facts(reason=reason), patience.resend_after_s, reason
            )
        case o.Unknown(reason):
            return Change(Event.DOUBT, State.UNCERTAIN, Facts(reason=reason), FIRST_LOOK_S, reason)
        case _:
            assert_never(outcome)


def decide_overdue() -> Change:
    """Decide about an attempt whose sender said nothing until its send deadline passed."""
    reason = "The sender did not report back; the request may have arrived."
    return Change(Event.DOUBT, State.UNCERTAIN, Facts(reason=reason), 0.0, reason)


def decide_lookup(
    attempt: Attempt, outcome: o.LookupOutcome, now: datetime, patience: Patience = DEFAULT_PATIENCE
) -> Change:
    """Decide what the answer to a look-up means; a failed question changes nothing about the job."""
    age_s = _seconds(now, attempt.changed_at)
    answered = Facts(lookups=attempt.lookups + 1, failures=0, not_found_count=0, not_found_since=None)
    match outcome:
        case o.Running(status, step):
            word = f"{status}, {step}" if step and step != status else status
            return _progress(attempt, answered, word, None, next_look_s(age_s))
        case o.Unrecognised(status):
            reason = f"The API answered with a status this version does not know: {status}"
            return _progress(attempt, answered, status, reason, SLOWEST_LOOK_S)
        case o.Succeeded(status, _, size_bytes, object_key):
            facts = Facts(remote_status=status, size_bytes=size_bytes, object_key=object_key, reason=None)
            return Change(Event.COMPLETE, State.COMPLETED, answered | facts, 0.0, status)
        case o.Unsuccessful(status, reason):
            text = f"{status}: {reason}"
            facts = Facts(remote_status=status, reason=text)
            return Change(Event.FAIL, State.FAILED, answered | facts, None, text)
        case o.NotFound(reason):
            return _not_found(attempt, reason, now, patience)
        case o.CouldNotAsk():
            return unanswered(attempt, outcome, now)
        case _:
            assert_never(outcome)


def decide_search(
    attempt: Attempt,
    outcome: o.FindOutcome,
    owned: frozenset[str],
    now: datetime,
    patience: Patience = DEFAULT_PATIENCE,
) -> Change:
    """Decide what a search of the job list means for an uncertain attempt.

    Args:
        owned: Job ids that belong to other attempts already.
    """
    if isinstance(outcome, o.CouldNotAsk):
        return unanswered(attempt, outcome, now)
    exact = [job for job in exact_matches(attempt, outcome) if job.job_id not in owned]
    if len(exact) == 1:
        job = exact[0]
        detail = f"job {job.job_id}: the job list shows our marker {job.marker}"
        return Change(
            Event.ADOPT, State.SUBMITTED, Facts(job_id=job.job_id, reason=None), FIRST_LOOK_S, detail
        )
    similar = [job for job in hints(attempt, outcome) if job.job_id not in owned]
    if exact:
        found = f"{len(exact)} jobs carry our marker ({', '.join(job.job_id for job in exact[:5])})"
    elif similar:
        found = f"{len(similar)} jobs have the same source ({', '.join(job.job_id for job in similar[:5])})"
    else:
        found = "no job of ours found"
    reach = "read back to the time of sending" if outcome.complete else "only partly readable"
    reason = f"Searched the job list ({reach}): {found}."
    due_in_s = max(patience.search_every_s, next_look_s(_seconds(now, attempt.changed_at)))
    return Change(
        Event.SEARCH, State.UNCERTAIN, Facts(reason=reason, failures=0), due_in_s, _news(attempt, reason)
    )


def decide_inspection(
    attempt: Attempt, outcome: o.InspectOutcome, now: datetime, patience: Patience = DEFAULT_PATIENCE
) -> Change:
    """Decide what looking at the file means; an expired link is not a missing file."""
    match outcome:
        case o.Intact(_, size_bytes, container, object_key):
            facts = Facts(size_bytes=size_bytes, reason=None, failures=0)
            if object_key is not None:
                facts["object_key"] = object_key
            return Change(Event.DELIVER, State.DELIVERED, facts, 0.0, f"{size_bytes} bytes of {container}")
        case o.LinkExpired(reason):
            return unanswered(attempt, o.CouldNotAsk(reason), now)
        case o.FileMissing(reason) | o.Forbidden(reason) | o.Damaged(reason):
            if now - attempt.changed_at < timedelta(seconds=patience.no_file_within_s):
                return unanswered(attempt, o.CouldNotAsk(reason), now)
            return Change(Event.MISS, State.MISSING, Facts(reason=reason), None, reason)
        case o.CouldNotAsk():
            return unanswered(attempt, outcome, now)
        case _:
            assert_never(outcome)


def unanswered(attempt: Attempt, outcome: o.CouldNotAsk, now: datetime) -> Change:
    """Write down that a question failed: the attempt stays where it is and is asked about again later."""
    failures = attempt.failures + 1
    pause = next_look_s(_seconds(now, attempt.changed_at), failures)
    due_in_s = max(pause, outcome.retry_after_s or 0.0)
    facts = Facts(failures=failures, reason=outcome.reason)
    return Change(Event.UNANSWERED, attempt.state, facts, due_in_s, _news(attempt, outcome.reason))


def _progress(attempt: Attempt, answered: Facts, status: str, reason: str | None, due_in_s: float) -> Change:
    news = reason or status if (status, reason) != (attempt.remote_status, attempt.reason) else None
    facts = answered | Facts(remote_status=status, reason=reason)
    return Change(Event.PROGRESS, State.SUBMITTED, facts, due_in_s, news)


def _not_found(attempt: Attempt, reason: str, now: datetime, patience: Patience) -> Change:
    """A 404 needs repetition and age: right after creation it is normal, once alone it is a hiccup."""
    if _seconds(now, attempt.changed_at) < patience.not_found_grace_s:
        early = Facts(lookups=attempt.lookups + 1, reason="The job is not visible at the API yet.")
        return Change(Event.UNANSWERED, attempt.state, early, FIRST_LOOK_S, _news(attempt, early["reason"]))
    count, since = attempt.not_found_count + 1, attempt.not_found_since or now
    facts = Facts(
        lookups=attempt.lookups + 1, not_found_count=count, not_found_since=since, failures=0, reason=reason
    )
    if count >= patience.lost_after_count and _seconds(now, since) >= patience.lost_after_s:
        detail = f"Not found {count} times since {since:%Y-%m-%d %H:%M:%S} UTC: {reason}"
        return Change(Event.LOSE, State.LOST, facts | Facts(reason=detail), None, detail)
    pause = min(patience.lost_after_s / patience.lost_after_count, SLOWEST_LOOK_S)
    return Change(Event.UNANSWERED, attempt.state, facts, pause, _news(attempt, reason))


def _news(attempt: Attempt, reason: str | None) -> str | None:
    return reason if reason != attempt.reason else None


def _seconds(later: datetime, earlier: datetime) -> float:
    return max(0.0, (later - earlier).total_seconds())
