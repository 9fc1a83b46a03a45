"""Handing over: each result reaches each consumer under one key."""

from datetime import UTC, datetime, timedelta

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.handoff import Handoff, HandoffState, decide_handoff, decide_no_link
from prefect_media_jobs.blocks.domain.outcomes import NotTaken, Taken, TakenUnknown
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.errors import AttemptNotFoundError, StaleAttemptError
from prefect_media_jobs.blocks.ledger import Scope
from tests.ledger.test_ledger_guards import outcomes_of_race
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to

WINDOW = timedelta(minutes=1)


@pytest.fixture
def ready(ledger: AttemptLedger) -> Handoff:
    """A delivered result that is due to the publisher."""
    bring_to(ledger, State.DELIVERED)
    (handoff,) = ledger.due_handoffs("publisher", 10)
    return handoff


def test_a_delivered_result_is_offered(ledger: AttemptLedger, ready: Handoff) -> None:
    """A delivered result becomes due to the consumer that asks, under a stable key."""
    expected = (HandoffState.READY, "publisher", "episode-42-attempt-1", 0)
    assert expected == (ready.state, ready.consumer, ready.attempt_id, ready.tries)
    assert ready.request_key == a_request().request_key
    assert len(ready.delivery_key) == 32
    assert ledger.handoffs() == [ready]


@pytest.mark.parametrize("state", sorted(set(State) - {State.DELIVERED}))
def test_only_delivered_results_are_offered(ledger: AttemptLedger, state: State) -> None:
    """Nothing is handed over before its file was inspected, or after it was given up."""
    bring_to(ledger, state)
    assert ledger.due_handoffs("publisher", 10) == []
    assert ledger.handoffs() == []


def test_a_result_is_offered_once_a_consumer(ledger: AttemptLedger, ready: Handoff) -> None:
    """Asking again returns the same row, and another consumer gets a row and a key of its own."""
    assert ledger.due_handoffs("publisher", 10) == [ready]
    (other,) = ledger.due_handoffs("archive", 10)
    assert other.delivery_key != ready.delivery_key
    assert len(ledger.handoffs()) == 2


def test_the_key_is_of_the_request_and_the_consumer(ledger: AttemptLedger, ready: Handoff) -> None:
    """Another item has another key for the same consumer."""
    bring_to(ledger, State.DELIVERED, "other")
    keys = {handoff.delivery_key for handoff in ledger.due_handoffs("publisher", 10)}
    assert len(keys) == 2
    assert ready.delivery_key in keys


def test_a_twin_is_not_offered_again(ledger: AttemptLedger, ready: Handoff, sql: Sql) -> None:
    """A second delivered attempt of a request that was offered already is never offered as well."""
    assert ready
    bring_to(ledger, State.DELIVERED, "twin")
    # The database allows one live attempt a request, so the first one has to make room for its twin.
    sql.set("episode-42-attempt-1", state=State.ABANDONED)
    sql.set("twin-attempt-1", request_key=ready.request_key)
    assert [h.attempt_id for h in ledger.due_handoffs("publisher", 10)] == ["episode-42-attempt-1"]
    assert "twin-attempt-1" not in {h.attempt_id for h in ledger.handoffs()}


def test_the_limit_and_the_scope_count(ledger: AttemptLedger) -> None:
    """No more is offered than asked for, and nothing outside the scope."""
    for item, api in [("a", "x"), ("b", "x"), ("c", "y")]:
        bring_to(ledger, State.DELIVERED, item, api=api)
    assert [h.attempt_id for h in ledger.due_handoffs("p", 1)] == ["a-attempt-1"]
    assert [h.attempt_id for h in ledger.due_handoffs("p", 9, Scope(api="y"))] == ["c-attempt-1"]
    assert len(ledger.due_handoffs("p", 9)) == 3
    assert [h.attempt_id for h in ledger.handoffs(Scope(api="y"))] == ["c-attempt-1"]


def test_beginning_claims_the_handoff(ledger: AttemptLedger, ready: Handoff) -> None:
    """Before the consumer is called, the row is moved to ``sending``, with a deadline and one more try."""
    sending = ledger.begin_handoff(ready, WINDOW)
    assert (sending.state, sending.version, sending.tries) == (HandoffState.SENDING, ready.version + 1, 1)
    assert sending.send_deadline == sending.changed_at + WINDOW
    assert ledger.due_handoffs("publisher", 10) == []
    assert ledger.handoffs() == [sending]


def test_one_of_many_senders_wins(ledger: AttemptLedger, ready: Handoff) -> None:
    """Of eight threads that begin the same handoff at once, exactly one calls the consumer."""
    assert ready
    for number in range(19):
        bring_to(ledger, State.DELIVERED, f"e-{number}")
    due = ledger.due_handoffs("publisher", 99)
    rounds = outcomes_of_race(20, lambda n, _: ledger.begin_handoff(due[n], WINDOW))
    wins = [sum(not isinstance(got, Exception) for got in results) for results in rounds]
    assert wins == [1] * 20


def test_an_old_snapshot_cannot_write(ledger: AttemptLedger, ready: Handoff) -> None:
    """Who read the handoff before it was moved can neither begin it nor say how it went."""
    sending = ledger.begin_handoff(ready, WINDOW)
    with pytest.raises(StaleAttemptError, match=r"version 1\).*version 2\)"):
        ledger.begin_handoff(ready, WINDOW)
    accepted = ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=False)))
    with pytest.raises(StaleAttemptError):
        ledger.apply_handoff(sending, decide_handoff(sending, NotTaken("no")))
    assert ledger.handoffs() == [accepted]


def test_an_unknown_delivery_is_told(ledger: AttemptLedger, ready: Handoff, sql: Sql) -> None:
    """A handoff the ledger does not have is told as such."""
    sql.run("DELETE FROM handoff")
    with pytest.raises(AttemptNotFoundError, match=ready.delivery_key):
        ledger.begin_handoff(ready, WINDOW)


def test_accepted_and_consumed_have_their_times(ledger: AttemptLedger, ready: Handoff) -> None:
    """The ledger tells when the application accepted a result, and when the consumer finished with it."""
    sending = ledger.begin_handoff(ready, WINDOW)
    accepted = ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=False)))
    assert (accepted.state, accepted.consumed_at, accepted.due_at) == (HandoffState.ACCEPTED, None, None)
    assert accepted.accepted_at == accepted.changed_at
    _, consume = decide_handoff(accepted, Taken(finished=True))
    consumed = ledger.apply_handoff(accepted, (consume,))
    assert (consumed.state, consumed.accepted_at) == (HandoffState.CONSUMED, accepted.accepted_at)
    assert consumed.consumed_at == consumed.changed_at
    assert ledger.handoffs() == [consumed]


def test_finished_at_once_is_accepted_too(ledger: AttemptLedger, ready: Handoff) -> None:
    """A consumer that finishes in the call leaves both times, in one commit."""
    sending = ledger.begin_handoff(ready, WINDOW)
    consumed = ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=True)))
    assert consumed.state is HandoffState.CONSUMED
    assert consumed.accepted_at == consumed.consumed_at
    assert consumed.accepted_at is not None


def test_an_accepted_result_is_not_offered_again(ledger: AttemptLedger, ready: Handoff) -> None:
    """What the application accepted is due to it no more, and neither is its attempt."""
    sending = ledger.begin_handoff(ready, WINDOW)
    ledger.apply_handoff(sending, decide_handoff(sending, Taken(finished=False)))
    assert ledger.due_handoffs("publisher", 10) == []
    assert ledger.read("episode-42-attempt-1").due_at is None


def test_a_silent_sender_leaves_a_doubt(ledger: AttemptLedger, ready: Handoff, sql: Sql) -> None:
    """A handoff whose deadline passed is uncertain, and is offered again under the same key."""
    ledger.begin_handoff(ready, WINDOW)
    sql.set_handoff(ready.delivery_key, send_deadline=datetime.now(UTC) - timedelta(seconds=1))
    (doubted,) = ledger.due_handoffs("publisher", 10)
    assert (doubted.state, doubted.delivery_key) == (HandoffState.UNCERTAIN, ready.delivery_key)
    assert "may have the result" in str(doubted.reason)
    again = ledger.begin_handoff(doubted, WINDOW)
    assert (again.delivery_key, again.tries) == (ready.delivery_key, 2)


def test_a_late_sender_cannot_write(ledger: AttemptLedger, ready: Handoff, sql: Sql) -> None:
    """A sender that was paused past its deadline cannot write what the consumer told it."""
    late = ledger.begin_handoff(ready, WINDOW)
    sql.set_handoff(ready.delivery_key, send_deadline=datetime.now(UTC) - timedelta(seconds=1))
    ledger.due_handoffs("publisher", 10)
    with pytest.raises(StaleAttemptError):
        ledger.apply_handoff(late, decide_handoff(late, Taken(finished=True)))


def test_another_consumer_is_not_doubted(ledger: AttemptLedger, ready: Handoff, sql: Sql) -> None:
    """An overdue handoff is doubted when its own consumer is looked at, not another."""
    ledger.begin_handoff(ready, WINDOW)
    sql.set_handoff(ready.delivery_key, send_deadline=datetime.now(UTC) - timedelta(seconds=1))
    ledger.due_handoffs("archive", 10)
    assert {h.state for h in ledger.handoffs() if h.consumer == "publisher"} == {HandoffState.SENDING}


def test_no_usable_answer_is_offered_again_later(ledger: AttemptLedger, ready: Handoff) -> None:
    """A doubt waits its time, keeps its reason, and leaves the attempt due."""
    sending = ledger.begin_handoff(ready, WINDOW)
    doubted = ledger.apply_handoff(sending, decide_handoff(sending, TakenUnknown("time-out\x00")))
    assert (doubted.state, doubted.reason) == (HandoffState.UNCERTAIN, "time-out\ufffd")
    assert doubted.due_at == doubted.changed_at + timedelta(seconds=4)
    assert ledger.due_handoffs("publisher", 10) == []
    assert ledger.read("episode-42-attempt-1").due_at is not None


def test_a_refused_result_waits_for_a_person(ledger: AttemptLedger, ready: Handoff) -> None:
    """A definite no is kept with its reason, and the result is not offered again by itself."""
    sending = ledger.begin_handoff(ready, WINDOW)
    refused = ledger.apply_handoff(sending, decide_handoff(sending, NotTaken("wrong format")))
    assert (refused.state, refused.reason, refused.due_at) == (HandoffState.REFUSED, "wrong format", None)
    assert ledger.due_handoffs("publisher", 10) == []


def test_without_a_link_the_result_is_offered_later(ledger: AttemptLedger, ready: Handoff) -> None:
    """A result for which no link can be had keeps its state and its tries, and is offered again later."""
    waiting = ledger.apply_handoff(ready, (decide_no_link(ready, "the API is down"),))
    assert (waiting.state, waiting.tries, waiting.reason) == (HandoffState.READY, 0, "the API is down")
    assert ledger.due_handoffs("publisher", 10) == []
    assert ledger.read("episode-42-attempt-1").due_at is not None
