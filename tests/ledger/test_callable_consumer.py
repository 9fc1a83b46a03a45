"""A consumer that is a Python function: what its return and its exceptions mean."""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from prefect_media_jobs.blocks import CallableConsumer
from prefect_media_jobs.blocks.domain.outcomes import Delivery, Link, NotTaken, Taken, TakenUnknown
from prefect_media_jobs.blocks.errors import ConsumerError, DeliveryRefusedError

LINK = "https://bucket.example.org/42.mp4?X-Amz-Signature=canary"
DELIVERY = Delivery("d" * 32, "episode-42", "episode-42-attempt-1", "j-1", Link(LINK), {"size_bytes": 1})


@pytest.fixture
def module() -> Iterator[Any]:
    """A team's module that can be imported."""
    module = types.ModuleType("team_publishing")
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def raising(error: BaseException) -> Callable[[Delivery], None]:
    """Return a function that raises."""

    def receive(_: Delivery) -> None:
        raise error

    return receive


def consume(module: Any, function: Callable[[Delivery], object]) -> object:
    """Let a function receive the delivery."""
    module.receive = function
    return CallableConsumer(target="team_publishing:receive").consume(DELIVERY)


@pytest.mark.parametrize("returned", [None, False, 0, "no", TakenUnknown("x")], ids=str)
def test_a_function_that_returns_has_taken_the_result(module: Any, returned: object) -> None:
    """Whatever the function returns, returning means accepted and finished."""
    got: list[Delivery] = []

    def receive(delivery: Delivery) -> object:
        got.append(delivery)
        return returned

    outcome = consume(module, receive)
    assert outcome == Taken(finished=True)
    assert got == [DELIVERY]
    assert got[0].link.reveal() == LINK


def test_a_function_that_raises_may_have_taken_it(module: Any) -> None:
    """An exception leaves it open whether the result was taken, and says which function raised what."""
    outcome = consume(module, raising(OSError("disk is full")))
    assert outcome == TakenUnknown("team_publishing:receive raised OSError: disk is full")


@pytest.mark.parametrize(
    "text",
    [f"GET {LINK} failed", "api_key=canary", "Bearer canary-token", "https://user:canary@h.example.org/"],
)
@pytest.mark.parametrize("kind", [ValueError, DeliveryRefusedError])
def test_what_a_function_raises_is_redacted(module: Any, kind: type[Exception], text: str) -> None:
    """Links, keys and passwords in a function's exception are not kept."""
    assert "canary" not in repr(consume(module, raising(kind(text))))


def test_a_long_exception_is_bounded(module: Any) -> None:
    """An endless message is cut before it is kept."""
    outcome = consume(module, raising(ValueError("x" * 10**6)))
    assert isinstance(outcome, TakenUnknown)
    assert len(outcome.reason) < 600


def test_a_function_can_say_no(module: Any) -> None:
    """The one exception made for it is a definite no, with its reason."""
    assert consume(module, raising(DeliveryRefusedError("wrong format"))) == NotTaken("wrong format")


def test_a_no_without_a_reason_has_one(module: Any) -> None:
    """A refusal without text still tells a person something."""
    assert consume(module, raising(DeliveryRefusedError())) == NotTaken(
        "The consumer refused it without a reason."
    )


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), SystemExit(1)], ids=lambda error: type(error).__name__
)
def test_a_process_that_is_stopped_is_not_an_answer(module: Any, error: BaseException) -> None:
    """Being interrupted is no answer of the consumer and goes on upwards."""
    with pytest.raises(type(error)):
        consume(module, raising(error))


@pytest.mark.parametrize(
    "target",
    [
        "no_such_module_anywhere:receive",
        "team_publishing.sub:receive",
        "team_publishing:nothing",
        "team_publishing:receive.deeper",
        "team_publishing:number",
    ],
)
def test_a_path_that_leads_nowhere_is_told(module: Any, target: str) -> None:
    """A function that cannot be found is told before anything is handed over, and at the call as well."""
    module.number = 7
    module.receive = print
    consumer = CallableConsumer(target=target)
    with pytest.raises(ConsumerError, match=target):
        consumer.check()
    with pytest.raises(ConsumerError):
        consumer.consume(DELIVERY)


def test_a_good_path_is_checked_without_calling(module: Any) -> None:
    """Checking the consumer does not call it."""
    module.receive = raising(AssertionError("called"))
    CallableConsumer(target="team_publishing:receive").check()


def test_a_method_can_be_named(module: Any) -> None:
    """The part after the colon may lead through a class."""
    module.Publisher = type("Publisher", (), {"receive": staticmethod(lambda _: None)})
    consumer = CallableConsumer(target="team_publishing:Publisher.receive")
    assert consumer.consume(DELIVERY) == Taken(finished=True)


@pytest.mark.parametrize(
    "target", ["", "receive", "a:b:c", "a.b", "a:", ":b", "a b:c", "os:system('x')", "a:b\n"]
)
def test_a_target_that_is_no_path_is_refused(target: str) -> None:
    """What is not written as module, colon and function is refused when the block is made."""
    with pytest.raises(ValidationError):
        CallableConsumer(target=target)


@pytest.mark.parametrize("timeout_s", [0, -1])
def test_a_call_has_time(timeout_s: float) -> None:
    """A time of nothing or less is refused."""
    with pytest.raises(ValidationError):
        CallableConsumer(target="a:b", timeout_s=timeout_s)


def test_the_window_is_the_time_of_a_call() -> None:
    """The handoff is offered again when one call may no longer be running."""
    assert CallableConsumer(target="a:b", timeout_s=7.5).window_s == 7.5
