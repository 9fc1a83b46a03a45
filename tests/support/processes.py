"""Other processes, forked from one that has imported everything and never touched a ledger."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

PROCESSES = multiprocessing.get_context("forkserver")
"""Quick to start, as everything was imported before; and clean, as nothing is open when they are forked."""
PROCESSES.set_forkserver_preload(["alembic.command", "tests.ledger.ledger_worker", "tests.workers.working"])


def until(look: Callable[[], Any], within_s: float = 60) -> None:
    """Wait for a condition that another process brings about, for a bounded time."""
    never, deadline = threading.Event(), time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline, "the condition did not come true"
        never.wait(0.005)


class Child:
    """A process that calls one function and tells what came of it.

    Args:
        work: A function of a module that can be imported.
    """

    def __init__(self, work: Callable[..., Any], *args: Any) -> None:
        self._pipe, theirs = PROCESSES.Pipe(duplex=False)
        self._process = PROCESSES.Process(target=_call, args=(theirs, work, args), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def result(self, within_s: float = 120) -> Any:
        """Wait for the function's end and return its result."""
        try:
            assert self._pipe.poll(within_s), "the other process does not answer"
            error, value = self._pipe.recv()
        finally:
            self.kill()
        assert error is None, error
        return value

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process; nothing happens if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def exit_code(self, within_s: float = 60) -> int:
        """Wait for the process's end and return its status; a negative one is the signal that killed it."""
        self._process.join(within_s)
        assert self._process.exitcode is not None, "the other process does not end"
        return self._process.exitcode

    def has_ended(self) -> bool:
        """Tell whether the process is gone."""
        return not self._process.is_alive()

    def kill(self) -> None:
        """End the process whatever it does, also when it is stopped; nothing happens if it is gone."""
        self._process.kill()
        self._process.join(30)
        self._pipe.close()


def _call(pipe: Connection, work: Callable[..., Any], args: Sequence[Any]) -> None:
    try:
        value = work(*args)
    except BaseException:  # noqa: BLE001 - the test is told, whatever it was
        pipe.send((traceback.format_exc(), None))
    else:
        pipe.send((None, value))


@contextmanager
def children(work: Callable[..., Any], arguments: Sequence[Sequence[Any]]) -> Iterator[list[Child]]:
    """Start a process for each list of arguments, and leave none behind."""
    started: list[Child] = []
    try:
        started.extend(Child(work, *each) for each in arguments)
        yield started
    finally:
        for child in started:
            child.kill()
