"""What the ledger tells: the plan, the next time, the summary, the history, the owners."""

from datetime import UTC, datetime, timedelta

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Action, PlannedAction
from prefect_media_jobs.blocks.domain.decisions import Change, Facts, decide_submission
from prefect_media_jobs.blocks.domain.handoff import HandoffState, decide_handoff
from prefect_media_jobs.blocks.domain.outcomes import AcceptedBatch, NotTaken, Taken, Unknown
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.ledger import LedgerSummary, Scope
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to, move

ID = "episode-42-attempt-1"
MINUTE = timedelta(minutes=1)

PLANS: dict[str, str | None] = {
    "recorded": "submit",
    "sending": "reconcile",
    "uncertain": "reconcile",
    "submitted": "lookup",
    "completed": "inspect",
    "delivered": "handoff",
    "rejected": "review",
    "failed": "review",
    "lost": "review",
    "missing": "review",
    "superseded": None,
    "abandoned": None,
}


@pytest.mark.parametrize("state", list(State))
def test_the_plan_names_the_next_step(ledger: AttemptLedger, state: State) -> None:
    """An attempt in each state is planned for the design's action, with its job, or not at all."""
    expected = PLANS[state]
    attempt = bring_to(ledger, state)
    planned = [action for action in ledger.recovery_plan() if action.attempt_id == ID]
    assert planned == ([] if expected is None else [PlannedAction(ID, Action(expected), attempt.job_id)])


def test_planning_writes_nothing(ledger: AttemptLedger, sql: Sql) -> None:
    """Reading the plan leaves every row as it was."""
    for state in State:
        bring_to(ledger, state, f"in-{state}")
    before = sql.dump()
    assert len(ledger.recovery_plan()) == 11
    assert sql.dump() == before


def test_an_empty_ledger_has_no_plan(ledger: AttemptLedger) -> None:
    """Where nothing was asked for, nothing is to be done."""
    assert ledger.recovery_plan() == []


def test_what_is_due_first_comes_first(ledger: AttemptLedger, sql: Sql) -> None:
    """The plan is in the order of due times, and what is due to a person comes last."""
    now = datetime.now(UTC)
    for item, minutes in [("a", 3), ("b", -5), ("c", 0)]:
        sql.set(bring_to(ledger, State.SUBMITTED, item).attempt_id, due_at=now + minutes * MINUTE)
    bring_to(ledger, State.FAILED, "d")
    assert [action.attempt_id[0] for action in ledger.recovery_plan()] == ["b", "c", "a", "d"]


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 99])
def test_the_plan_is_as_long_as_asked_for(ledger: AttemptLedger, limit: int) -> None:
    """A limit cuts the plan after what is due first."""
    ledger.record_attempts([a_request(f"e-{n}") for n in range(4)])
    whole = ledger.recovery_plan()
    assert len(whole) == 4
    assert ledger.recovery_plan(limit) == whole[:limit]


def test_a_step_has_its_time_and_its_reason(ledger: AttemptLedger) -> None:
    """A step that happens by itself has the time it is due, and the reason a person would want."""
    ledger.apply(bring_to(ledger, State.SENDING), decide_submission(Unknown("read time-out")))
    (action,) = ledger.recovery_plan()
    assert (action.reason, action.due_at) == ("read time-out", ledger.read(ID).due_at)
    assert action.due_at is not None


def test_a_review_has_no_time(ledger: AttemptLedger) -> None:
    """What waits for a person is not due by itself."""
    attempt = bring_to(ledger, State.SUBMITTED)
    ledger.apply(attempt, Change(Event.FAIL, State.FAILED, Facts(reason="source is private"), None, "x"))
    (action,) = ledger.recovery_plan()
    assert (action.action, action.due_at, action.reason) == (Action.REVIEW, None, "source is private")


def test_an_old_backlog_is_reviewed(ledger: AttemptLedger, sql: Sql) -> None:
    """What was recorded too long ago is planned for a person, unless the plan is told to send it."""
    sql.set(bring_to(ledger, State.RECORDED).attempt_id, asked_at=datetime.now(UTC) - timedelta(hours=25))
    assert ledger.recovery_plan() == [PlannedAction(ID, Action.REVIEW, None)]
    assert ledger.recovery_plan()[0].due_at is None
    planned = ledger.recovery_plan(send_within=timedelta(hours=26))
    assert planned == [PlannedAction(ID, Action.SUBMIT, None)]


def test_a_batch_is_reviewed(ledger: AttemptLedger) -> None:
    """A batch answer is planned for a person, with the reason that tells how many jobs there are."""
    ledger.apply(bring_to(ledger, State.SENDING), decide_submission(AcceptedBatch("b-1", ("j-1", "j-2"))))
    (action,) = ledger.recovery_plan()
    assert (action.action, action.job_id) == (Action.REVIEW, None)
    assert "2 jobs" in str(action.reason)


@pytest.mark.parametrize("state", [State.SUPERSEDED, State.ABANDONED])
def test_a_twin_is_reviewed(ledger: AttemptLedger, state: State) -> None:
    """A settled attempt for which an answer came late is planned for a person."""
    bring_to(ledger, state)
    ledger.remember_job(ID, "j-late")
    assert PlannedAction(ID, Action.REVIEW, "j-late") in ledger.recovery_plan()


def test_a_twin_that_is_still_open_goes_on(ledger: AttemptLedger, sql: Sql) -> None:
    """A live attempt with a twin is still followed to its end."""
    sql.set(bring_to(ledger, State.SUBMITTED).attempt_id, twin=True)
    assert ledger.recovery_plan() == [PlannedAction(ID, Action.LOOKUP, "job-episode-42")]


def hand_over(ledger: AttemptLedger, outcome: Taken | NotTaken) -> None:
    """Hand the one delivered result to a publisher that answers so."""
    (handoff,) = ledger.due_handoffs("publisher", 10)
    sending = ledger.begin_handoff(handoff, MINUTE)
    ledger.apply_handoff(sending, decide_handoff(sending, outcome))


def test_a_result_that_was_handed_over_is_settled(ledger: AttemptLedger) -> None:
    """After its consumer accepted it, a delivered result is in no plan."""
    bring_to(ledger, State.DELIVERED)
    assert ledger.recovery_plan() == [PlannedAction(ID, Action.HANDOFF, "job-episode-42")]
    hand_over(ledger, Taken(finished=False))
    assert ledger.recovery_plan() == []


def test_a_handed_over_twin_is_reviewed_not_handed_over(ledger: AttemptLedger, sql: Sql) -> None:
    """A result that was handed over and may have a twin is for a person, not due to its consumer again."""
    sql.set(bring_to(ledger, State.DELIVERED).attempt_id, twin=True)
    hand_over(ledger, Taken(finished=True))
    assert ledger.recovery_plan() == [PlannedAction(ID, Action.REVIEW, "job-episode-42")]


def test_a_refused_result_is_reviewed(ledger: AttemptLedger) -> None:
    """A result that its consumer refused is planned for a person, who is told who refused it and why."""
    bring_to(ledger, State.DELIVERED)
    hand_over(ledger, NotTaken("wrong format"))
    (action,) = ledger.recovery_plan()
    assert action == PlannedAction(ID, Action.REVIEW, "job-episode-42")
    assert action.reason == "Refused by publisher: wrong format"


def test_a_plan_with_refused_results_keeps_its_limit(ledger: AttemptLedger) -> None:
    """Refused results come after what is due, and the limit counts them."""
    bring_to(ledger, State.DELIVERED)
    hand_over(ledger, NotTaken("no"))
    ledger.record_attempts([a_request("other")])
    assert [action.action for action in ledger.recovery_plan()] == [Action.SUBMIT, Action.REVIEW]
    assert [action.action for action in ledger.recovery_plan(1)] == [Action.SUBMIT]


def test_the_next_time_is_the_earliest_of_the_states(ledger: AttemptLedger, sql: Sql) -> None:
    """The next due time is the earliest among the states and the scope asked for, or none."""
    now = datetime.now(UTC)
    sql.set(bring_to(ledger, State.SUBMITTED, "a", api="x").attempt_id, due_at=now + 2 * MINUTE)
    sql.set(bring_to(ledger, State.SUBMITTED, "b", api="y").attempt_id, due_at=now + MINUTE)
    sql.set(bring_to(ledger, State.COMPLETED, "c", api="x").attempt_id, due_at=now - MINUTE)
    bring_to(ledger, State.FAILED, "d")
    assert ledger.next_due(Scope(), [State.SUBMITTED]) == now + MINUTE
    assert ledger.next_due(Scope(api="x"), [State.SUBMITTED]) == now + 2 * MINUTE
    assert ledger.next_due(Scope(), [State.SUBMITTED, State.COMPLETED]) == now - MINUTE
    assert ledger.next_due(Scope(), [State.FAILED]) is None
    assert ledger.next_due(Scope(), []) is None


def test_an_empty_ledger_has_an_empty_summary(ledger: AttemptLedger) -> None:
    """A summary of nothing counts nothing."""
    expected = LedgerSummary()
    assert expected == ledger.summary()
    assert ledger.summary().total == 0


def test_the_summary_counts_by_state(ledger: AttemptLedger, sql: Sql) -> None:
    """The summary counts attempts, handoffs, twins and decisions, and tells the oldest open one."""
    for number, state in enumerate([State.FAILED, State.REJECTED, State.DELIVERED, State.UNCERTAIN]):
        bring_to(ledger, state, f"item-{number}", batch_key="b-1")
    bring_to(ledger, State.UNCERTAIN, "elsewhere", batch_key="b-2")
    sql.set("item-3-attempt-1", twin=True)
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    sql.set("item-2-attempt-1", asked_at=long_ago - MINUTE)
    sql.set("item-1-attempt-1", asked_at=long_ago)
    hand_over(ledger, NotTaken("no"))
    expected = LedgerSummary(
        attempts={State.FAILED: 1, State.REJECTED: 1, State.DELIVERED: 1, State.UNCERTAIN: 2},
        handoffs={HandoffState.REFUSED: 1},
        for_a_person=2,
        twins=1,
        oldest_open=long_ago,
    )
    assert expected == ledger.summary()
    assert ledger.summary().total == 5


def test_a_summary_may_be_of_one_batch(ledger: AttemptLedger) -> None:
    """The summary of a batch counts what belongs to it alone."""
    bring_to(ledger, State.FAILED, "a", batch_key="b-1")
    bring_to(ledger, State.SUBMITTED, "b", batch_key="b-2")
    assert ledger.summary("b-1").attempts == {State.FAILED: 1}
    assert ledger.summary("nothing").total == 0


def test_an_over_long_batch_key_is_found_again(ledger: AttemptLedger) -> None:
    """A batch key is bounded alike whichever way an attempt came into the ledger."""
    key = "b" * 300
    ledger.record_attempts([a_request("a")], key)
    ledger.begin_attempt(a_request("b"), batch_key=key)
    assert len({attempt.batch_key for attempt in ledger.list_attempts()}) == 1


def test_the_history_is_in_order(ledger: AttemptLedger) -> None:
    """A history tells every move once, oldest first, each beginning where the one before it ended."""
    attempt = bring_to(ledger, State.MISSING)
    move(ledger, attempt, Event.RECHECK, State.COMPLETED)
    history = ledger.history(ID)
    expected = ["record", "begin", "acknowledge", "complete", "miss", "recheck"]
    assert expected == [event.event for event in history]
    assert [event.version for event in history] == [1, 2, 3, 4, 5, 6]
    assert [event.from_state for event in history] == [None, *(event.to_state for event in history[:-1])]
    assert [event.at for event in history] == sorted(event.at for event in history)
    assert all(event.actor for event in history)


def test_owners_are_told_by_api(ledger: AttemptLedger) -> None:
    """Each job is told with the attempt it belongs to, within one API; unknown jobs are left out."""
    bring_to(ledger, State.SUBMITTED, "a", api="x")
    bring_to(ledger, State.FAILED, "b", api="x")
    bring_to(ledger, State.SUBMITTED, "c", api="y")
    asked = ["job-a", "job-b", "job-c", *(f"job-{n}" for n in range(40_000))]
    assert ledger.owners_of("x", asked) == {"job-a": "a-attempt-1", "job-b": "b-attempt-1"}
    assert ledger.owners_of("x", []) == {}


def test_attempts_are_listed_oldest_first(ledger: AttemptLedger) -> None:
    """A list of attempts is in the order they were asked for, narrowed by state and limit."""
    bring_to(ledger, State.FAILED, "b")
    bring_to(ledger, State.SUBMITTED, "a")
    bring_to(ledger, State.FAILED, "c")
    assert [a.item_key for a in ledger.list_attempts()] == ["b", "a", "c"]
    assert [a.item_key for a in ledger.list_attempts(states=[State.FAILED])] == ["b", "c"]
    assert [a.item_key for a in ledger.list_attempts(limit=1)] == ["b"]
    assert ledger.list_attempts(states=[]) == []
