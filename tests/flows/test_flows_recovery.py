"""Sweeping: what a question's answer means, and what a question without an answer does not."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.blocks.domain.outcomes import Running, Succeeded
from tests.support.passing_time import LONG_AGO
from tests.support.team import RECEIVE, Team


def lookups(team: Team) -> int:
    """Return how many look-ups the API has received in all."""
    return team.sandbox.bill().requests.get("lookup", 0)


def test_a_look_up_is_retried_by_prefect(team: Team) -> None:
    """Two failed questions are asked again within the same sweep, and the third answer counts."""
    team.submit("episode-1")
    before = lookups(team)
    team.sandbox.misbehave("refuse", target="lookup", status=503, times=2)
    state = team.sweep()
    assert state.name == "Completed"
    assert team.attempt().failures == 0
    assert lookups(team) >= before + 3
    assert team.posts() == 1


def test_a_post_is_never_retried(team: Team) -> None:
    """A submission that only meets 503 sends each attempt's one POST and no other (C08)."""
    team.sandbox.misbehave("refuse", target="create", status=503, times=None)
    team.submit("episode-1", "episode-2")
    team.sweep()
    assert [1, 1] == list(team.bill().posts_by_idempotency_key.values())


def test_answers_that_cannot_be_read_are_borne_until_one_can(team: Team) -> None:
    """A gateway's page, an empty body, half a body and a reset say nothing about the job (C27)."""
    team.submit("episode-1")
    for kind in ("html", "empty_body", "truncated_body", "reset"):
        team.sandbox.misbehave(kind, target="lookup")
    team.sweep()
    assert team.states() == ["submitted"]
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_status_that_cannot_be_reached_is_shown(team: Team) -> None:
    """An API that only fails leaves the job open, and the attempt tells why and how often (C29)."""
    team.submit("episode-1")
    team.sandbox.misbehave("refuse", target="lookup", status=500, times=None)
    states = [team.sweep().name for _ in range(3)]
    assert states == ["CouldNotAsk"] * 3
    assert team.states() == ["submitted"]
    assert (3, True) == (team.attempt().failures, "HTTP 500" in str(team.attempt().reason))


def test_a_job_that_is_not_visible_yet_is_waited_for(team: Team) -> None:
    """404 right after the purchase means too early, not lost (C30)."""
    team.submit("episode-1")
    team.sandbox.misbehave("not_found", target="lookup", times=2)
    for _ in range(2):
        team.sweep()
        assert team.states() == ["submitted"]
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_job_that_the_api_has_lost_is_lost_after_repetition_and_age(team: Team) -> None:
    """Only a 404 that was repeated, and for long, is a lost job; nothing is bought in its place (C38)."""
    team.submit("episode-1")
    team.sandbox.forget(str(team.attempt().job_id))
    team.age(changed_at=LONG_AGO)
    for _ in range(4):
        team.sweep()
    assert team.states() == ["submitted"]
    team.age(not_found_since=LONG_AGO)
    team.sweep()
    assert team.states() == ["lost"]
    assert team.submit("episode-1").name == "NeedsAPerson"
    assert team.posts() == 1


@pytest.mark.parametrize("word", ["aborted", "THROTTLED", "canceled"])
def test_a_status_that_is_not_known_keeps_the_job_open(team: Team, word: str) -> None:
    """A new word of the API is shown and neither success nor failure (C34, C35)."""
    team.submit("episode-1")
    team.sandbox.misbehave("unknown_status", word=word, times=2)
    team.sweep_until("submitted")
    team.sweep()
    assert team.states() == ["submitted"]
    assert word in str(team.attempt().reason)
    team.sweep_until("delivered")


def test_a_key_that_was_changed_is_a_credential_problem(team: Team) -> None:
    """401 while collecting says nothing about the job, is not retried, and ends with the new key (C42)."""
    team.submit("episode-1")
    team.sandbox.rotate_key()
    before = lookups(team)
    state = team.sweep()
    assert state.name == "CouldNotAsk"
    assert "does not accept the API key" in str(state.message)
    assert (team.states(), lookups(team)) == (["submitted"], before + 1)
    team.save_api()
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_bot_check_in_between_is_no_verdict(team: Team) -> None:
    """403 with a page instead of JSON is told as something in between, not as a failed job (C44)."""
    team.submit("episode-1")
    team.sandbox.misbehave("refuse", target="lookup", status=403, html=True, times=None)
    assert team.sweep().name == "CouldNotAsk"
    assert team.states() == ["submitted"]
    assert "Something before" in str(team.attempt().reason)


def test_an_api_that_cannot_be_reached_changes_nothing(team: Team) -> None:
    """A name that does not resolve leaves the job as it was (C45)."""
    team.submit("episode-1")
    team.save_api(base_url="http://no-such-host.invalid")
    assert team.sweep().name == "CouldNotAsk"
    assert team.states() == ["submitted"]
    team.save_api()
    team.sweep_until("delivered")


def test_a_long_retry_after_is_left_to_a_later_sweep(team: Team) -> None:
    """When the API asks to wait for an hour, this sweep asks once and the attempt is due in an hour (C32)."""
    team.submit("episode-1")
    before = lookups(team)
    team.sandbox.misbehave("refuse", target="lookup", status=429, retry_after=3000, times=None)
    team.sweep()
    assert lookups(team) == before + 1
    due_at = team.attempt().due_at
    assert due_at is not None
    assert due_at > datetime.now(UTC) + timedelta(seconds=2900)


def test_one_unanswered_question_does_not_hold_up_the_others(team: Team) -> None:
    """In a page of jobs, what was answered is in the ledger although one question failed."""
    team.submit("episode-1", "episode-2")
    first, _ = team.attempts()
    team.sandbox.misbehave("refuse", target="lookup", status=503, job_id=str(first.job_id), times=None)
    team.sweep_until("submitted", "delivered")


def test_a_restart_resumes_and_never_sends(team: Team) -> None:
    """What runs is asked about, what is in doubt searched, what is gone told, and no POST sent (C05)."""
    team.sandbox.misbehave("drop_answer", source=team.request("doubtful").source)
    team.sandbox.misbehave("unlisted", times=None)
    team.submit("doubtful", "gone", "running")
    doubtful, gone, _ = team.attempts()
    team.sandbox.forget(str(gone.job_id))
    team.sweep_until("uncertain", "submitted", "delivered")
    team.sweep()
    assert "no job of ours found" in str(team.ledger.read(doubtful.attempt_id).reason)
    assert "not visible" in str(team.ledger.read(gone.attempt_id).reason)
    assert team.posts() == 3


def test_another_process_recovers_from_the_ledger_alone(team: Team) -> None:
    """Stored text is all that a sweep needs: no object of the run that bought the job (C48)."""
    team.submit("episode-1")
    ledger = AttemptLedger(url=f"sqlite:///{team.path}")
    api = TornadoApi(base_url=team.sandbox.url, api_key=team.sandbox.api_key)
    with closing(ledger), closing(api):
        (planned,) = ledger.recovery_plan()
        outcome = api.look_up(str(planned.job_id))
    assert (planned.action, [planned.job_id]) == (Action.LOOKUP, team.jobs())
    assert isinstance(outcome, Running | Succeeded)


def test_a_failed_job_waits_for_a_person_with_the_apis_reason(team: Team) -> None:
    """A job that ended badly at the API is failed, with its words, and nothing is bought in its place."""
    team.sandbox.misbehave("end_as", word="Failed", error="The source has no sound")
    team.submit("episode-1")
    team.sweep_until("failed")
    assert "The source has no sound" in str(team.attempt().reason)
    state = team.submit("episode-1")
    assert state.name == "NeedsAPerson"
    assert team.posts() == 1


def test_a_finished_job_without_a_link_is_waited_for(team: Team) -> None:
    """Done without a link is a result that is still to come, and comes (C67)."""
    team.submit("episode-1")
    team.sandbox.misbehave("no_link", times=2)
    team.sweep_until("completed")
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_finished_job_that_never_gets_a_link_waits_for_a_person(team: Team) -> None:
    """Done, and without a link for long, is missing: told to a person, and not bought again (C67)."""
    team.submit("episode-1")
    team.sandbox.misbehave("no_link", times=None)
    team.sweep_until("completed")
    team.age(changed_at=LONG_AGO)
    team.sweep_until("missing")
    assert "gives no link" in str(team.attempt().reason)
    assert team.process("episode-1", follow_for_s=0).name == "NeedsAPerson"
    assert team.posts() == 1


FILES: dict[str, dict[str, Any]] = {
    "an expired link": {"kind": "storage_error", "code": "ExpiredToken"},
    "an empty object": {"kind": "zero_bytes", "times": 2},
    "a page instead of the film": {"kind": "error_page", "times": 2},
    "a storage that is down": {"kind": "storage_error", "status": 503, "code": "SlowDown", "times": 2},
}


@pytest.mark.parametrize("order", FILES.values(), ids=FILES.keys())
def test_a_file_that_cannot_be_had_now_is_looked_at_again(team: Team, order: dict[str, Any]) -> None:
    """What is wrong with a file in passing neither delivers it nor buys it again (C55, C57, C70)."""
    team.submit("episode-1")
    team.sandbox.misbehave(**order)
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_giving_up_waiting_is_not_failing(team: Team) -> None:
    """A flow that stops waiting says that the job may still run, and a sweep collects it (C130)."""
    team.sandbox.misbehave("stall")
    state = team.process("episode-1", consumer=RECEIVE, follow_for_s=0)
    assert state.name == "StillOpen"
    assert "The jobs may still run" in str(state.message)
    team.sandbox.release()
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_sweep_keeps_nothing_in_mind(team: Team) -> None:
    """Sweeps limited to one attempt a stage get through everything, each where the last one ended."""
    team.submit("episode-1", "episode-2", "episode-3")
    team.sweep_until("delivered", "delivered", "delivered", limit=1)


def test_a_sweep_leaves_the_attempts_of_other_apis_alone(team: Team) -> None:
    """A sweep asks an API about its own attempts only."""
    team.ledger.record_attempts([team.request()], api="somebody-elses-api")
    state = team.sweep()
    assert state.message == "Swept: nothing."
    assert (team.states(), team.posts()) == (["recorded"], 0)
