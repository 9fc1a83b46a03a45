"""The POST and its answer: what is certain, what is not, and what a second run makes of it."""

from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.blocks.request import OutputSettings
from tests.support.team import Team
from tests.support.wire import Wire

LOST_ANSWERS: dict[str, dict[str, Any]] = {
    "dropped": {"kind": "drop_answer"},
    "reset": {"kind": "reset", "target": "create"},
    "cut in JSON": {"kind": "truncated_body", "target": "create"},
    "without an id": {"kind": "no_id"},
    "a gateway's page": {"kind": "html", "target": "create", "accept": True},
    "HTTP 503": {"kind": "error_after_accept", "status": 503},
    "HTTP 409": {"kind": "error_after_accept", "status": 409},
}


@pytest.mark.parametrize("order", LOST_ANSWERS.values(), ids=LOST_ANSWERS.keys())
def test_an_answer_that_proves_nothing_leads_to_doubt_and_then_to_the_job(
    team: Team, order: dict[str, Any]
) -> None:
    """Whatever hides the API's answer, the job is found by its marker, not bought again (C10, C16)."""
    team.sandbox.misbehave(**order)
    assert team.submit("episode-1").name == "Uncertain"
    team.sweep_until("delivered")
    assert team.jobs() == [team.attempt().job_id]
    assert team.posts() == 1


def test_an_answer_later_than_the_client_waits_is_found(team: Team) -> None:
    """A client that gives up before the API answers has not failed: the job is adopted (C01)."""
    team.save_api(submit_timeout_s=0.2)
    team.sandbox.misbehave("hold_answer")
    assert team.submit("episode-1").name == "Uncertain"
    team.sandbox.release()
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_rerun_does_not_send_what_is_uncertain(team: Team) -> None:
    """An attempt in doubt stays in doubt whoever submits the item again."""
    team.sandbox.misbehave("drop_answer")
    team.submit("episode-1")
    assert team.submit("episode-1").name == "Uncertain"
    team.sandbox.misbehave("unlisted", times=None)
    assert team.process("episode-1", follow_for_s=0).name == "Uncertain"
    assert team.posts() == 1


def test_what_is_not_in_the_job_list_stays_uncertain(team: Team) -> None:
    """A search that finds nothing proves nothing: the attempt stays uncertain and tells of it (C14)."""
    team.sandbox.misbehave("drop_answer")
    team.submit("episode-1")
    team.sandbox.misbehave("unlisted", times=None)
    for _ in range(2):
        assert team.sweep().name == "Completed"
    assert team.states() == ["uncertain"]
    assert "no job of ours found" in str(team.attempt().reason)
    assert team.posts() == 1


def test_the_idempotency_header_is_sent_and_not_relied_upon(team: Team) -> None:
    """The header carries the attempt id, and an API that ignores it changes nothing (C12)."""
    team.sandbox.misbehave("drop_answer")
    team.submit("episode-1")
    team.submit("episode-1")
    team.sweep()
    assert {team.attempt().attempt_id: 1} == team.bill().posts_by_idempotency_key


def test_a_second_flow_run_attaches_to_the_first_ones_attempt(team: Team) -> None:
    """The request decides, not the flow run: a second run buys nothing and says so (C09)."""
    team.submit("episode-1", batch_key="morning")
    state = team.submit("episode-1", batch_key="evening")
    assert "1 of them existed before" in str(state.message)
    assert team.attempt().batch_key == "morning"
    assert team.posts() == 1


def test_other_settings_are_another_attempt_with_another_token(team: Team) -> None:
    """The same item with other settings is another purchase, under an idempotency key of its own (C13)."""
    for height in ("720", "1080"):
        team.submit(team.request(settings=OutputSettings(max_resolution=height)))
    first, second = team.attempts()
    assert {first.attempt_id: 1, second.attempt_id: 1} == team.bill().posts_by_idempotency_key


def test_a_refusal_is_told_and_waits_for_a_person(team: Team) -> None:
    """A definite no is rejected with the API's own words, and nothing is uncertain about it (C13)."""
    team.sandbox.misbehave("refuse", status=400, body={"error": "Key used with different parameters"})
    assert team.submit("episode-1").name == "NeedsAPerson"
    assert team.states() == ["rejected"]
    assert "Key used with different parameters" in str(team.attempt().reason)


def test_submitting_again_after_a_refusal_is_a_new_attempt(team: Team) -> None:
    """Who submits a refused request again gets a new attempt that names the old one and its grounds."""
    team.sandbox.misbehave("refuse")
    team.submit("episode-1")
    assert team.submit("episode-1").name == "Completed"
    first, second = team.attempts()
    assert ("superseded", second.attempt_id) == (first.state, first.superseded_by)
    assert ("submitted", "refused", first.attempt_id) == (second.state, second.grounds, second.replaces)


@pytest.fixture
def wired(team: Team) -> Any:
    """A team whose connection to the API can be cut."""
    with Wire(int(team.sandbox.url.rpartition(":")[2])) as wire:
        team.save_api(base_url=wire.url)
        yield team, wire


def test_what_never_left_is_sent_by_a_later_sweep(wired: tuple[Team, Wire]) -> None:
    """A refused connection is proof that nothing was sent, so that the next sweep may send it (C14, C45)."""
    team, wire = wired
    wire.cut(after=1)
    assert team.submit("episode-1").name == "NotSent"
    assert (team.states(), team.posts()) == (["recorded"], 0)
    wire.mend()
    team.sweep()
    assert team.posts() == 1
    team.sweep_until("delivered")


def test_what_was_asked_for_long_ago_is_not_sent_by_a_sweep(wired: tuple[Team, Wire]) -> None:
    """A backlog after downtime waits for a person, until somebody asks for it again."""
    team, wire = wired
    wire.cut(after=1)
    team.submit("episode-1")
    wire.mend()
    assert team.sweep(send_within_h=0).name == "Completed"
    assert (team.states(), team.posts()) == (["recorded"], 0)
    team.age(asked_at="2000-01-01T00:00:00.000000+00:00")
    (planned,) = team.ledger.recovery_plan()
    assert planned.action is Action.REVIEW
    team.submit("episode-1")
    assert (team.states(), team.posts()) == (["submitted"], 1)


def test_a_sweep_that_cannot_reach_the_api_sends_nothing_and_says_so(wired: tuple[Team, Wire]) -> None:
    """What is recorded stays recorded while the API is away, and the sweep ends as CouldNotAsk."""
    team, wire = wired
    wire.cut(after=1)
    team.submit("episode-1")
    state = team.sweep()
    assert state.name == "CouldNotAsk"
    assert "Nothing was sent" in str(state.message)
    assert team.states() == ["recorded"]


def test_a_batch_answer_is_kept_whole_and_shown_for_review(team: Team) -> None:
    """A source that the API takes apart leaves all its job ids with the attempt, for a person to see."""
    source = f"{team.source.as_uri()}?list={team.name}"
    assert team.submit(team.request(source=source)).name == "Completed"
    attempt = team.attempt()
    assert sorted(team.jobs()) == sorted(attempt.batch_job_ids)
    assert attempt.batch_id
    team.sweep()
    assert [(attempt.attempt_id, Action.REVIEW)] == [
        (planned.attempt_id, planned.action) for planned in team.ledger.recovery_plan()
    ]
    assert team.posts() == 1


def test_one_bad_item_does_not_spoil_the_batch(team: Team) -> None:
    """Of four items the two good ones are delivered, the doubtful one found, the refused one told (C121)."""
    items = ["good-1", "good-2", "doubtful", "refused"]
    sources = [team.request(item).source for item in items]
    team.sandbox.misbehave("drop_answer", source=sources[2])
    team.sandbox.misbehave("refuse", source=sources[3])
    assert team.submit(*items).name == "Uncertain"
    assert ["submitted", "submitted", "uncertain", "rejected"] == [
        attempt.state for attempt in sorted(team.attempts(), key=lambda each: sources.index(each.source))
    ]
    state = team.process(*items[:3], follow_for_s=30)
    assert state.name == "Completed", state.message
    assert team.posts() == 4
    assert len(team.jobs()) == 3
