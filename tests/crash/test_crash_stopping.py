"""A process that is asked to stop finishes what is on its way and begins nothing new."""

import signal

import pytest

from tests.support.crash_world import World, until


# Prefect's own handler of SIGTERM unwinds the flow and then lets the signal end the process.
@pytest.mark.parametrize(
    ("number", "end"), [(signal.SIGTERM, (-15, None)), (signal.SIGINT, (0, "KeyboardInterrupt"))]
)
def test_a_stopped_submission_keeps_the_answers_on_their_way(
    world: World, number: signal.Signals, end: tuple[int, str | None]
) -> None:
    """A submission stopped in mid-page commits the answers it waits for and leaves the rest unsent."""
    place, before = world.place(items=6, width=2), world.sandbox.bill().posts_received
    world.sandbox.misbehave("hold_answer", times=2)
    worker = place.start("submit until stopped")
    until(lambda: world.sandbox.bill().posts_received == before + 2)
    worker.signal(number)
    until(lambda: place.marked("given-up"))
    world.sandbox.release()
    ended = worker.wait()
    assert end == (ended.code, ended.told.get("ended")), ended
    assert sorted(place.states().values()) == ["recorded"] * 4 + ["submitted"] * 2
    assert before + 2 == world.sandbox.bill().posts_received
    place.run("recover")
    assert dict.fromkeys(place.items, "delivered") == place.states()
    assert before + 6 == world.sandbox.bill().posts_received
