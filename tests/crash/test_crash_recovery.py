"""A sweep or a handoff is killed at every point of each stage; the next one carries on as if nothing was."""

import pytest

from tests.support.crash_world import (
    Crash,
    Place,
    World,
    at_once,
    check_end,
    crash_everywhere,
    crash_when,
    until,
)
from tests.support.killing import Point

FIRST_POST = 2
"""The first exchange of a submission asks whether the key is accepted."""


@pytest.fixture
def bought(world: World) -> Place:
    """Two jobs, finished at the API; the ledger knows their ids and is to ask about them."""
    place = world.place()
    place.run("submit")
    until(lambda: world.finished(place.items) == len(place.items))
    place.make_due()
    return place


@pytest.fixture
def finished(bought: Place) -> Place:
    """Two attempts that are completed, and whose files are to be looked at."""
    return stepped(bought, "look up", "completed")


@pytest.fixture
def delivered(finished: Place) -> Place:
    """Two delivered results, which their consumer does not have yet."""
    return stepped(finished, "inspect", "delivered")


def stepped(place: Place, do: str, state: str) -> Place:
    """Take both attempts of a place one stage further."""
    place.run(do)
    assert dict.fromkeys(place.items, state) == place.states()
    return place


def carried_on(world: World, crashes: list[Crash]) -> None:
    """Sweep until quiet in every place, and check it."""
    at_once(lambda each: each.place.run("recover"), crashes)
    bill = world.sandbox.bill()
    for each in crashes:
        check_end(each, bill)


def test_a_killed_look_up_changes_nothing(world: World, bought: Place) -> None:
    """A look-up killed at any point leaves jobs that the next sweep asks about, and no second purchase."""
    posts = world.sandbox.bill().posts_received
    carried_on(world, crash_everywhere("look up", bought.copy))
    assert posts == world.sandbox.bill().posts_received


def test_a_killed_look_up_that_got_no_answer_changes_nothing(world: World, bought: Place) -> None:
    """A look-up killed while the API only answers 503 leaves every job as it was."""
    for job_id in [row.job_id for row in bought.rows()]:
        world.sandbox.misbehave("refuse", target="lookup", job_id=str(job_id), status=503, times=None)
    crashes = crash_everywhere("look up", bought.copy)
    for each in crashes:
        assert [row.state for row in each.rows] == ["submitted", "submitted"], each.point
    world.sandbox.clear()
    carried_on(world, crashes)


def test_a_killed_inspection_changes_nothing(world: World, finished: Place) -> None:
    """An inspection killed at any point is made again, and each file is delivered once."""
    posts = world.sandbox.bill().posts_received
    carried_on(world, crash_everywhere("inspect", finished.copy))
    assert posts == world.sandbox.bill().posts_received


def test_a_killed_handoff_repeats_the_same_key_and_no_other(world: World, delivered: Place) -> None:
    """A handoff killed anywhere but between the consumer's return and the commit is received once."""
    crashes = crash_everywhere("hand off", delivered.copy)
    carried_on(world, crashes)
    twice = [each.point for each in crashes if len(each.place.received()) > len(each.place.items)]
    assert all(point.what == "commit" and point.when == "before" for point in twice), twice
    assert len(delivered.items) == len(twice)


def test_a_killed_reconciliation_sends_nothing(world: World) -> None:
    """A reconciliation killed at any point is made again: what exists is adopted, and nothing is sent."""
    place = world.place(items=3)
    lost, killed_after, killed_before = place.items
    world.sandbox.misbehave("drop_answer")
    place.run("submit", items=[lost])
    place.die("submit", Point("exchange", FIRST_POST, "sent"), items=[killed_after])
    place.die("submit", Point("exchange", FIRST_POST, "before"), items=[killed_before])
    place.make_due()
    assert list(place.states().values()) == ["uncertain", "sending", "sending"]
    until(lambda: world.finished(place.items) == len([lost, killed_after]))
    posts = world.sandbox.bill().posts_received
    crashes = crash_everywhere("reconcile", place.copy)
    carried_on(world, crashes)
    expected = {lost: "delivered", killed_after: "delivered", killed_before: "uncertain"}
    for each in crashes:
        assert expected == each.place.states(), each.point
    assert posts == world.sandbox.bill().posts_received


def test_a_sweep_killed_while_the_api_holds_a_look_up_has_written_nothing(
    world: World, bought: Place
) -> None:
    """A sweep killed while the API takes its time with a look-up leaves the jobs to the next sweep."""
    killed_while_held(world, bought, "look up", "lookup")


def test_a_sweep_killed_while_the_storage_holds_a_file_has_written_nothing(
    world: World, finished: Place
) -> None:
    """A sweep killed while the storage takes its time with a file leaves the inspection to the next sweep."""
    killed_while_held(world, finished, "inspect", "storage")


def test_a_sweep_killed_while_the_api_holds_the_job_list_has_written_nothing(world: World) -> None:
    """A sweep killed while the API takes its time with the job list leaves the doubt to the next sweep."""
    place = world.place()
    world.sandbox.misbehave("drop_answer", times=2)
    place.run("submit")
    place.make_due()
    killed_while_held(world, place, "reconcile", "list")


def killed_while_held(world: World, place: Place, do: str, kind: str) -> None:
    """Kill a process while the API holds back its answer to one kind of request, and carry on."""
    before, seen = place.states(), world.sandbox.bill().requests.get(kind, 0)
    world.sandbox.misbehave("hold_answer", target=kind)
    each = crash_when(place, do, lambda: world.sandbox.bill().requests.get(kind, 0) > seen)
    assert before == {row.item_key: row.state for row in each.rows}
    carried_on(world, [each])
