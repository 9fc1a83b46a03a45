"""A submission is killed at every point of its life; whatever comes next, nothing is bought twice or lost."""

import itertools
import threading

import pytest

from tests.support.crash_world import (
    Place,
    World,
    at_once,
    check_crash,
    check_end,
    crash,
    crash_everywhere,
    crash_nearly_everywhere,
    crash_when,
    until,
)
from tests.support.killing import Point

FIRST_POST = 2
"""The first exchange asks whether the key is accepted."""


@pytest.mark.parametrize("then", ["sweep", "submit again"])
def test_a_killed_submission_buys_each_item_at_most_once(world: World, then: str) -> None:
    """A submission killed at any point is carried on without a second POST of any attempt."""
    crashes = crash_everywhere("submit", world.place)
    bill = world.sandbox.bill()
    for each in crashes:
        check_crash(each, bill)
    if then == "submit again":
        # Every other time by a rerun of the same flow run, else by another flow run with the same items.
        again = list(zip(crashes, itertools.cycle([None, "another"]), strict=False))
        at_once(lambda pair: pair[0].place.run("submit", batch_key=pair[1]), again)
        for each in crashes:
            assert set(each.place.items) == set(each.place.states()), each.point
    at_once(lambda each: each.place.run("recover"), crashes)
    bill = world.sandbox.bill()
    for each in crashes:
        check_end(each, bill)


def test_a_wide_submission_survives_as_well(world: World) -> None:
    """A submission that has four requests in flight and is killed at any point leaves nothing to guess."""
    crashes = crash_nearly_everywhere("submit", lambda: world.place(items=4, width=4))
    bill = world.sandbox.bill()
    for each in crashes:
        check_crash(each, bill)
    at_once(lambda each: each.place.run("recover"), crashes)
    bill = world.sandbox.bill()
    for each in crashes:
        check_end(each, bill)


def test_a_killed_sweep_sends_what_was_recorded_at_most_once(world: World) -> None:
    """A sweep killed at any point of sending a half-sent batch leaves the next one no second POST."""
    number = next(number for number in itertools.count(1) if _recorded(_killed(world, number)))
    crashes = crash_everywhere("send what is recorded", lambda: _killed(world, number))
    bill = world.sandbox.bill()
    for each in crashes:
        check_crash(each, bill)
    at_once(lambda each: each.place.run("recover"), crashes)
    bill = world.sandbox.bill()
    for each in crashes:
        check_end(each, bill)
        assert set(each.place.items) == set(each.place.states()), each.point


def _killed(world: World, number: int) -> Place:
    """Return a place whose submission was killed after so many commits."""
    place = world.place()
    place.die("submit", Point("commit", number, "after"))
    return place


def _recorded(place: Place) -> bool:
    """Tell whether everything is recorded and nothing was begun."""
    return dict.fromkeys(place.items, "recorded") == place.states()


def test_a_process_killed_while_the_api_holds_its_answer_is_found(world: World) -> None:
    """A job whose sender died while the API held its answer back is adopted and delivered (C14)."""
    place, before = world.place(items=1), world.sandbox.bill().jobs_created
    world.sandbox.misbehave("hold_answer")
    each = crash_when(place, "submit", lambda: world.sandbox.bill().jobs_created > before)
    assert [row.state for row in each.rows] == ["sending"]
    place.run("recover")
    assert list(place.states().values()) == ["delivered"]
    assert before + 1 == world.sandbox.bill().jobs_created


def test_a_job_accepted_after_its_sender_died_is_found_later(world: World) -> None:
    """A request that the API accepts only after its sender died stays in doubt until it is found (C01)."""
    place, before = world.place(items=1), world.sandbox.bill()
    world.sandbox.misbehave("accept_late")
    crash_when(place, "submit", lambda: world.sandbox.bill().posts_received > before.posts_received)
    place.run("recover")
    assert list(place.states().values()) == ["uncertain"]
    world.sandbox.release()
    until(lambda: world.sandbox.bill().jobs_created > before.jobs_created)
    place.make_due()
    place.run("recover")
    assert list(place.states().values()) == ["delivered"]
    assert before.posts_received + 1 == world.sandbox.bill().posts_received


def test_what_never_left_and_cannot_be_known_waits_for_a_person(world: World) -> None:
    """A process killed right before its POST leaves an attempt that no sweep and no rerun ever sends."""
    each = crash(world.place(items=1), "submit", Point("exchange", FIRST_POST, "before"))
    assert [row.state for row in each.rows] == ["sending"]
    each.place.run("recover")
    each.place.run("submit")
    assert list(each.place.states().values()) == ["uncertain"]
    assert world.sandbox.bill().posts_by_idempotency_key.get(each.rows[0].attempt_id, 0) == 0


_ONE_AT_A_TIME = threading.Lock()


def _keeping(world: World) -> Place:
    """Return a place whose ledger was away when the API answered, so that the answer is kept in a file."""
    place = world.place(items=1)
    source = world.source_of(place.items[0])
    # A release lets go of every held answer.
    with _ONE_AT_A_TIME:
        world.sandbox.misbehave("hold_answer", source=source)
        worker = place.start("submit", patience_s=0.05)
        until(lambda: source in world.sandbox.bill().by_source())
        with place.locked():
            world.sandbox.release()
            ended = worker.wait()
    assert ended.told["ended"] == "LedgerUnavailableError", ended
    assert list(place.states().values()) == ["sending"]
    return place


def test_a_killed_sweep_loses_no_answer_that_was_kept_in_a_file(world: World) -> None:
    """A sweep killed at any point of writing down a kept answer leaves it to the next one."""
    crashes = crash_everywhere("take kept answers", lambda: _keeping(world))
    for each in crashes:
        assert [row.state for row in each.rows] in (["sending"], ["submitted"]), each.point
    at_once(lambda each: each.place.run("take kept answers"), crashes)
    for each in crashes:
        assert list(each.place.states().values()) == ["submitted"], each.point
    at_once(lambda each: each.place.run("recover"), crashes)
    bill = world.sandbox.bill()
    for each in crashes:
        check_end(each, bill)


def test_a_worker_killed_in_its_first_look_at_a_job_has_kept_the_id(world: World) -> None:
    """A job id is in the ledger before the first question about it is asked (C03)."""
    place = world.place(items=1)
    place.run("submit")
    job_id = place.rows()[0].job_id
    place.make_due()
    each = crash(place, "look up", Point("exchange", 1, "sent"))
    assert [("submitted", job_id)] == [(row.state, row.job_id) for row in each.rows]
    place.run("recover")
    check_end(each, world.sandbox.bill())
