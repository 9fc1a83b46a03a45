"""Handing over: once a key, again under the same key, or not at all."""

import pytest

from tests.support.team import RECEIVE, REFUSE, STUMBLE, Team


@pytest.fixture
def delivered(team: Team) -> Team:
    """A team with one delivered result."""
    team.submit("episode-1")
    team.sweep_until("delivered")
    return team


def test_a_consumer_that_raises_gets_the_result_again_under_the_same_key(delivered: Team) -> None:
    """A consumer that may have the result is called again with the same key until it returns (C80)."""
    state = delivered.hand_over(STUMBLE)
    assert state.name == "NotAllTaken"
    assert "1 uncertain" in str(state.message)
    assert delivered.hand_over(STUMBLE).name == "Completed"
    keys = [key for key, _ in delivered.received()]
    assert [keys[0], keys[0]] == keys


def test_a_refused_result_is_not_offered_again(delivered: Team) -> None:
    """A consumer that says no for good is not asked again, and its reason is kept for a person."""
    assert delivered.hand_over(REFUSE).name == "NotAllTaken"
    delivered.hand_over(REFUSE)
    assert len(delivered.received()) == 1
    (handoff,) = delivered.ledger.handoffs()
    assert (handoff.state, handoff.reason) == ("refused", "The rights have expired.")
    assert ["Refused by tests.support.receiving:refuse: The rights have expired."] == [
        planned.reason for planned in delivered.ledger.recovery_plan()
    ]


def test_each_consumer_has_a_key_of_its_own(delivered: Team) -> None:
    """Two consumers of one result are told apart, and each gets it once."""
    for consumer in (RECEIVE, STUMBLE, RECEIVE):
        delivered.hand_over(consumer)
    assert len(delivered.received()) == 2
    assert len(set(delivered.received())) == 2


def test_an_unreachable_file_costs_the_consumer_nothing(delivered: Team) -> None:
    """A consumer is only called with a link that works now; until then the result is postponed."""
    delivered.sandbox.misbehave("storage_error", status=503, times=None)
    assert delivered.hand_over().name == "NotAllTaken"
    assert delivered.received() == []
    delivered.sandbox.clear()
    assert delivered.hand_over().name == "Completed"
    assert len(delivered.received()) == 1


def test_the_ledger_knows_when_a_result_was_accepted_and_finished(delivered: Team) -> None:
    """Accepted by the application and finished by the consumer are two recorded facts."""
    delivered.hand_over()
    (handoff,) = delivered.ledger.handoffs()
    assert handoff.state == "consumed"
    assert handoff.accepted_at is not None
    assert handoff.consumed_at is not None


@pytest.mark.parametrize("consumer", ["tests.support.receiving:no_such_function", "no.such.module:receive"])
def test_a_consumer_that_does_not_exist_is_told_before_anything_is_handed_over(
    delivered: Team, consumer: str
) -> None:
    """A consumer that cannot be imported is a sentence, and leaves no trace in the ledger."""
    state = delivered.hand_over(consumer)
    assert state.name == "Failed"
    assert "cannot be imported" in str(state.message)
    assert delivered.ledger.handoffs() == []


def test_processing_tells_what_its_consumer_did_not_take(team: Team) -> None:
    """process-media ends as NotAllTaken when a result is delivered and its consumer refused it."""
    state = team.process("episode-1", consumer=REFUSE, follow_for_s=30)
    assert state.name == "NotAllTaken"
    assert team.states() == ["delivered"]
