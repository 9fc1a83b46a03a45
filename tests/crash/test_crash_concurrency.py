"""Several processes do the same thing at the same time; one of them does it."""

from collections.abc import Sequence

import pytest

from tests.support.crash_world import Place, World, until


def together(place: Place, jobs: Sequence[str]) -> None:
    """Run processes that all begin at the same moment, to their end."""
    waiting = place.marked("waiting")
    with place.gate() as gate:
        workers = [place.start(do, gate=str(gate)) for do in jobs]
        until(lambda: place.marked("waiting") == waiting + len(jobs))
    for ended in [worker.wait() for worker in workers]:
        assert (ended.code, ended.told["ended"]) == (0, "returned"), ended.told


@pytest.mark.parametrize("turn", range(5))
def test_processes_that_submit_the_same_at_once_buy_it_once(world: World, turn: int) -> None:
    """Four processes that submit the same items at the same moment send one POST an item."""
    place = world.place(items=8, width=2 + turn % 2)
    together(place, ["submit"] * 4)
    assert dict.fromkeys(place.items, "submitted") == place.states()
    bill = world.sandbox.bill()
    assert [bill.posts_by_idempotency_key[row.attempt_id] for row in place.rows()] == [1] * 8
    assert {row.attempt_id: [row.job_id] for row in place.rows()} == {
        row.attempt_id: bill.by_idempotency_key()[row.attempt_id] for row in place.rows()
    }


def test_a_second_flow_run_leaves_alone_what_the_first_is_sending(world: World) -> None:
    """A flow run that finds an item in the hands of another one does not send it (C09, C104)."""
    place, before = world.place(items=3), world.sandbox.bill()
    world.sandbox.misbehave("hold_answer")
    first = place.start("submit")
    until(lambda: world.sandbox.bill().posts_received > before.posts_received)
    ended = place.run("submit", batch_key="second")
    assert list(place.states().values()) == ["sending", "submitted", "submitted"]
    assert ended.told["state"] == "StillOpen", ended
    world.sandbox.release()
    assert first.wait().code == 0
    assert list(place.states().values()) == ["submitted"] * 3
    assert before.posts_received + 3 == world.sandbox.bill().posts_received


def test_processes_that_sweep_and_hand_over_at_once_deliver_each_result_once(world: World) -> None:
    """Sweeps and handoffs of several processes at the same moment give each result to its consumer once."""
    place = world.place(items=6, width=2)
    place.run("submit")
    until(lambda: world.finished(place.items) == len(place.items))
    for _ in range(3):
        place.make_due()
        together(place, ["look up", "inspect", "hand off"] * 2)
    place.run("recover")
    assert dict.fromkeys(place.items, "delivered") == place.states()
    assert sorted(place.items) == sorted(item for _, item in place.received())


def test_sweeps_that_find_the_same_orphans_adopt_each_once(world: World) -> None:
    """Sweeps that search for the same lost answers at once adopt each job for its one attempt."""
    place = world.place(items=4, width=2)
    world.sandbox.misbehave("drop_answer", times=4)
    place.run("submit")
    place.make_due()
    together(place, ["reconcile"] * 3)
    place.run("recover")
    jobs = world.sandbox.bill().by_idempotency_key()
    assert {row.attempt_id: [row.job_id] for row in place.rows()} == {
        row.attempt_id: jobs[row.attempt_id] for row in place.rows()
    }
    assert dict.fromkeys(place.items, "delivered") == place.states()
