"""SQLite has one writer at a time; threads that wait for their turn share the next commit.

A commit waits for the disk, which costs far more than the few rows it makes durable. So whoever has the turn
also does the work of all who wait, in the same transaction, and everybody learns the result after the commit.
Nobody goes on before its own rows are durable.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

MOST_TOGETHER = 64
"""Pieces of work that share one commit at most."""


class Ticket:
    """One piece of work that waits for its turn.

    Args:
        work: Called with the connection; called again if the first transaction had to be given up.
    """

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.woken = threading.Event()
        self.settled = False
        self.result: Any = None
        self.error: Exception | None = None


class Turns:
    """Lets one thread write at a time, and lets it write for those who wait.

    Args:
        commit: Runs these pieces of work in one transaction, storing their results; when one of them raises,
            nothing of all is kept.
    """

    def __init__(self, commit: Callable[[Sequence[Ticket]], None]) -> None:
        self._commit = commit
        self._mutex = threading.Lock()
        self._waiting: deque[Ticket] = deque()
        self._taken = False

    def run(self, work: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - the result of the work, whatever it is
        """Do the work in a transaction, and return its result once that is committed."""
        ticket = Ticket(work)
        with self._mutex:
            self._waiting.append(ticket)
            has_turn, self._taken = not self._taken, True
        if not has_turn:
            self._wait(ticket)
        if not ticket.settled:
            self._serve()
        if ticket.error is not None:
            raise ticket.error
        return ticket.result

    def _wait(self, ticket: Ticket) -> None:
        try:
            ticket.woken.wait()
        except BaseException:
            # Interrupted while waiting: the work is not done, and the turn must not be left with this thread.
            with self._mutex:
                appointed = ticket.woken.is_set() and not ticket.settled
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                if appointed:
                    self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give the turn to who waits longest; the mutex is held."""
        self._taken = bool(self._waiting)
        if self._waiting:
            self._waiting[0].woken.set()

    def _serve(self) -> None:
        """Commit what waits, this thread's own work first among it, and pass the turn on."""
        with self._mutex:
            batch = [self._waiting.popleft() for _ in range(min(MOST_TOGETHER, len(self._waiting)))]
        try:
            self._settle(batch)
        finally:
            with self._mutex:
                # Unsettled only if this thread was interrupted: the others' work is still to be done.
                self._waiting.extendleft(ticket for ticket in reversed(batch[1:]) if not ticket.settled)
                self._pass_on()
            for ticket in batch:
                if ticket.settled:
                    ticket.woken.set()

    def _settle(self, batch: Sequence[Ticket]) -> None:
        if len(batch) > 1:
            try:
                self._commit(batch)
            except Exception:  # noqa: BLE001, S110 - each is done again alone below and meets its own error
                pass
            else:
                for ticket in batch:
                    ticket.settled = True
                return
        for ticket in batch:
            try:
                self._commit([ticket])
            except Exception as error:  # noqa: BLE001 - belongs to the thread that waits for it
                ticket.error = error
            ticket.settled = True
