"""Recording what is asked for, and beginning to buy it."""

from datetime import UTC, datetime, timedelta

import pytest

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.decisions import decide_submission
from prefect_media_jobs.blocks.domain.outcomes import NotSent
from prefect_media_jobs.blocks.domain.states import LIVE, Event, Grounds, State
from prefect_media_jobs.blocks.errors import (
    AttemptNotFoundError,
    InvalidInputError,
    LiveAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.request import OutputSettings
from tests.support.attempts import SOURCE, a_request
from tests.support.ledgers import Sql, bring_to

ITEMS = ["episode-1", "episode-2", "episode-3"]


def test_a_request_is_recorded_once(ledger: AttemptLedger) -> None:
    """A new request becomes one recorded attempt, durable and not sent."""
    (attempt,) = ledger.record_attempts([a_request()], batch_key="season-1", api="media-api")
    assert attempt == ledger.read("episode-42-attempt-1")
    assert (attempt.state, attempt.version, attempt.sent_at) == (State.RECORDED, 1, None)
    assert (attempt.source, attempt.batch_key, attempt.api) == (SOURCE, "season-1", "media-api")
    assert attempt.due_at == attempt.asked_at


def test_settings_come_back_as_they_were_asked_for(ledger: AttemptLedger) -> None:
    """The output settings are kept under the API's names, and the edition beside them."""
    settings = OutputSettings(format="mp3", audio_only=True, max_duration=90)
    ledger.record_attempts([a_request(settings=settings, edition="2")])
    attempt = ledger.read("episode-42-attempt-1")
    assert attempt.settings == {"format": "mp3", "audio_only": True, "max_duration": 90}
    assert attempt.edition == "2"


def test_attempts_come_in_the_order_of_the_requests(ledger: AttemptLedger) -> None:
    """One attempt a request is returned, in order, duplicates and known ones included."""
    ledger.record_attempts([a_request("episode-2")])
    asked = [a_request(key) for key in (*ITEMS, "episode-1")]
    answered = [attempt.item_key for attempt in ledger.record_attempts(asked)]
    assert answered == [*ITEMS, "episode-1"]
    assert len(ledger.list_attempts()) == 3


def test_recording_again_returns_what_is_there(ledger: AttemptLedger) -> None:
    """The same list again writes no second attempt."""
    first = ledger.record_attempts([a_request(key) for key in ITEMS])
    again = ledger.record_attempts([a_request(key) for key in ITEMS])
    assert [a.attempt_id for a in first] == [a.attempt_id for a in again]
    assert len(ledger.list_attempts()) == 3


def test_half_a_list_can_be_recorded_again(ledger: AttemptLedger) -> None:
    """A list of which some are known adds only what is new, all in one commit."""
    ledger.record_attempts([a_request("episode-1")])
    ledger.record_attempts([a_request(key) for key in ITEMS])
    assert [a.item_key for a in ledger.list_attempts()] == ITEMS


def test_asking_again_renews_what_was_not_sent(ledger: AttemptLedger, sql: Sql) -> None:
    """A recorded attempt that is asked for again counts as asked for now, so that it may still be sent."""
    bring_to(ledger, State.RECORDED)
    long_ago = datetime.now(UTC) - timedelta(days=9)
    sql.set("episode-42-attempt-1", asked_at=long_ago)
    ledger.record_attempts([a_request()])
    assert ledger.read("episode-42-attempt-1").asked_at > long_ago + timedelta(days=8)


@pytest.mark.parametrize("state", sorted(LIVE - {State.RECORDED}))
def test_a_request_with_a_live_attempt_attaches_to_it(ledger: AttemptLedger, state: State) -> None:
    """Whatever state a live attempt is in, asking again returns it unchanged and buys nothing."""
    attempt = bring_to(ledger, state)
    assert ledger.record_attempts([a_request()]) == [attempt]
    assert ledger.list_attempts() == [attempt]


def test_a_refused_request_may_be_asked_for_again(ledger: AttemptLedger) -> None:
    """After a definite no, asking again makes a new attempt on the grounds that nothing was created."""
    bring_to(ledger, State.REJECTED)
    (new,) = ledger.record_attempts([a_request()])
    old = ledger.read("episode-42-attempt-1")
    assert (new.attempt_id, new.state) == ("episode-42-attempt-2", State.RECORDED)
    assert (new.grounds, new.replaces) == (Grounds.REFUSED, old.attempt_id)
    assert (old.state, old.superseded_by) == (State.SUPERSEDED, new.attempt_id)
    assert (old.closed_from, old.due_at) == (State.REJECTED, None)


def test_the_link_between_attempts_is_in_both_histories(ledger: AttemptLedger) -> None:
    """The old attempt's history names its replacement, and the new one's what it replaces and why."""
    bring_to(ledger, State.SUPERSEDED)
    old, new = (ledger.history(f"episode-42-attempt-{n}") for n in (1, 2))
    assert (old[-1].event, old[-1].detail) == (Event.SUPERSEDE, "replaced by episode-42-attempt-2")
    assert (new[0].event, new[0].detail) == (Event.RECORD, "replaces episode-42-attempt-1: refused")


@pytest.mark.parametrize(
    ("given_up_from", "grounds"), [(State.RECORDED, Grounds.NEVER_SENT), (State.REJECTED, Grounds.REFUSED)]
)
def test_what_bought_nothing_may_follow_an_abandoned_one(
    ledger: AttemptLedger, sql: Sql, given_up_from: State, grounds: Grounds
) -> None:
    """An attempt given up before anything was bought may be followed, and stays as the person left it."""
    old = bring_to(ledger, State.ABANDONED)
    sql.set(old.attempt_id, closed_from=given_up_from)
    (new,) = ledger.record_attempts([a_request()])
    assert (new.state, new.grounds, new.replaces) == (State.RECORDED, grounds, old.attempt_id)
    assert ledger.read(old.attempt_id).state is State.ABANDONED
    assert ledger.read(old.attempt_id).superseded_by is None


@pytest.mark.parametrize(
    "given_up_from", [State.UNCERTAIN, State.FAILED, State.LOST, State.MISSING, None], ids=str
)
def test_what_may_have_been_bought_is_not_bought_again(
    ledger: AttemptLedger, sql: Sql, given_up_from: State | None
) -> None:
    """An abandoned attempt that may have bought something is returned; buying again takes an edition."""
    old = bring_to(ledger, State.ABANDONED)
    sql.set(old.attempt_id, closed_from=given_up_from)
    assert [a.attempt_id for a in ledger.record_attempts([a_request()])] == [old.attempt_id]
    with pytest.raises(LiveAttemptError, match="new edition"):
        ledger.begin_attempt(a_request())
    assert ledger.record_attempts([a_request(edition="2")])[0].state is State.RECORDED


def test_a_twin_is_not_followed(ledger: AttemptLedger, sql: Sql) -> None:
    """Not even a refused attempt is followed if a second job may exist for it."""
    old = bring_to(ledger, State.REJECTED)
    sql.set(old.attempt_id, twin=True)
    assert [a.attempt_id for a in ledger.record_attempts([a_request()])] == [old.attempt_id]


def test_attempts_of_an_item_are_numbered(ledger: AttemptLedger) -> None:
    """Each attempt of an item gets the next number, whatever the edition."""
    for edition in ("1", "2", "3"):
        ledger.record_attempts([a_request(edition=edition)])
    ledger.record_attempts([a_request(edition="4"), a_request(edition="5"), a_request("other")])
    expected = [f"episode-42-attempt-{n}" for n in range(1, 6)]
    assert expected == [a.attempt_id for a in ledger.list_attempts() if a.item_key == "episode-42"]


def test_a_number_that_is_taken_is_skipped(ledger: AttemptLedger) -> None:
    """An id that somebody chose for another request is not given out again."""
    ledger.record_attempts([a_request("other", attempt_id="episode-42-attempt-1")])
    assert ledger.record_attempts([a_request()])[0].attempt_id == "episode-42-attempt-2"


def test_a_chosen_id_is_kept(ledger: AttemptLedger) -> None:
    """The application may name the attempt itself, also among requests that leave it to the ledger."""
    asked = [a_request("other", attempt_id="mine.1"), a_request()]
    assert [a.attempt_id for a in ledger.record_attempts(asked)] == ["mine.1", "episode-42-attempt-1"]


def test_a_chosen_id_wins_over_a_made_one(ledger: AttemptLedger) -> None:
    """In one list, an id somebody chose is kept and the one the ledger would make gives way."""
    asked = [a_request(), a_request("other", attempt_id="episode-42-attempt-1")]
    expected = ["episode-42-attempt-2", "episode-42-attempt-1"]
    assert expected == [a.attempt_id for a in ledger.record_attempts(asked)]


def test_a_chosen_id_of_another_request_is_refused(ledger: AttemptLedger) -> None:
    """An id that stands for another request is bad input, and nothing of the list is written."""
    ledger.record_attempts([a_request(attempt_id="mine")])
    with pytest.raises(InvalidInputError, match="mine"):
        ledger.record_attempts([a_request("new"), a_request("other", attempt_id="mine")])
    assert len(ledger.list_attempts()) == 1


def test_a_chosen_id_is_not_given_twice(ledger: AttemptLedger) -> None:
    """Two requests of one list cannot bring the same id."""
    with pytest.raises(InvalidInputError, match="mine"):
        ledger.record_attempts([a_request("a", attempt_id="mine"), a_request("b", attempt_id="mine")])
    assert ledger.list_attempts() == []


def test_a_chosen_id_is_used_up_by_its_first_attempt(ledger: AttemptLedger) -> None:
    """When a request with a chosen id is asked for again after a no, the new attempt gets a number."""
    bring_to(ledger, State.REJECTED, attempt_id="mine")
    assert ledger.record_attempts([a_request(attempt_id="mine")])[0].attempt_id == "episode-42-attempt-2"


def test_a_long_list_is_recorded_at_once(ledger: AttemptLedger) -> None:
    """A list longer than a statement may have parameters is one commit."""
    asked = [a_request(f"episode-{n}") for n in range(1_500)]
    assert [a.item_key for a in ledger.record_attempts(asked)] == [r.item_key for r in asked]
    assert len({event.at for n in (0, 1_499) for event in ledger.history(f"episode-{n}-attempt-1")}) == 1


def test_a_list_that_contradicts_itself_writes_nothing(ledger: AttemptLedger) -> None:
    """One item with two different sources is refused as a whole."""
    with pytest.raises(InvalidInputError):
        ledger.record_attempts([a_request("a"), a_request(), a_request(source="https://other.example.org/")])
    assert ledger.list_attempts() == []


def test_an_empty_list_is_refused(ledger: AttemptLedger) -> None:
    """Recording nothing is bad input."""
    with pytest.raises(InvalidInputError):
        ledger.record_attempts([])


def test_beginning_with_a_request_inserts_it_sending(ledger: AttemptLedger) -> None:
    """A request begun right away is durable in ``sending``, with a deadline by the database's clock."""
    attempt = ledger.begin_attempt(a_request(), window=timedelta(seconds=90), batch_key="b")
    assert attempt == ledger.read("episode-42-attempt-1")
    assert (attempt.state, attempt.version, attempt.batch_key) == (State.SENDING, 1, "b")
    assert attempt.sent_at is not None
    assert attempt.send_deadline == attempt.due_at == attempt.sent_at + timedelta(seconds=90)
    assert [(e.event, e.from_state) for e in ledger.history(attempt.attempt_id)] == [(Event.BEGIN, None)]


@pytest.mark.parametrize("state", sorted(LIVE))
def test_a_request_with_a_live_attempt_is_not_begun(ledger: AttemptLedger, state: State) -> None:
    """Beginning a request that has an attempt that counts is refused, naming that attempt."""
    attempt = bring_to(ledger, state)
    with pytest.raises(LiveAttemptError, match=attempt.attempt_id):
        ledger.begin_attempt(a_request())
    assert ledger.list_attempts() == [attempt]


def test_beginning_after_a_no_replaces_the_refused_one(ledger: AttemptLedger) -> None:
    """A refused request may be begun again, as a new attempt that carries its grounds."""
    bring_to(ledger, State.REJECTED)
    new = ledger.begin_attempt(a_request())
    assert (new.attempt_id, new.state, new.grounds) == (
        "episode-42-attempt-2",
        State.SENDING,
        Grounds.REFUSED,
    )


def test_a_recorded_attempt_is_begun_by_its_id(ledger: AttemptLedger) -> None:
    """The recorded attempt moves to ``sending``, which is committed before anything leaves."""
    bring_to(ledger, State.RECORDED)
    attempt = ledger.begin_attempt("episode-42-attempt-1")
    assert (attempt.state, attempt.version) == (State.SENDING, 2)
    assert attempt == ledger.read("episode-42-attempt-1")


@pytest.mark.parametrize("state", sorted(set(State) - {State.RECORDED}))
def test_only_a_recorded_attempt_is_begun(ledger: AttemptLedger, state: State) -> None:
    """An attempt in any other state is not sent, and stays as it is."""
    attempt = bring_to(ledger, state)
    with pytest.raises(TransitionRefusedError, match=f"is {state}"):
        ledger.begin_attempt(attempt.attempt_id)
    assert ledger.read(attempt.attempt_id) == attempt


def test_an_unknown_attempt_is_not_begun(ledger: AttemptLedger) -> None:
    """An id the ledger does not have is told as such."""
    with pytest.raises(AttemptNotFoundError, match="nobody"):
        ledger.begin_attempt("nobody")


def test_what_never_left_is_recorded_again(ledger: AttemptLedger) -> None:
    """Proof that nothing was sent makes the attempt sendable again, under the same id."""
    sending = bring_to(ledger, State.SENDING)
    attempt = ledger.apply(sending, decide_submission(NotSent("connection refused")))
    assert (attempt.state, attempt.sent_at) == (State.RECORDED, None)
    assert attempt.reason == "connection refused"
    assert ledger.begin_attempt(attempt.attempt_id).state is State.SENDING
    assert [e.event for e in ledger.history(attempt.attempt_id)] == ["record", "begin", "not_sent", "begin"]


@pytest.mark.parametrize("method", ["read", "history", "begin_attempt"])
def test_an_unknown_id_is_not_found(ledger: AttemptLedger, method: str) -> None:
    """Every method that takes an id says when there is no such attempt."""
    with pytest.raises(AttemptNotFoundError, match="nobody"):
        getattr(ledger, method)("nobody")
