"""Kill this process at a chosen point: around a commit, or around or amid an exchange with a server."""

import os
import signal
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
from sqlalchemy.engine.default import DefaultDialect

MOMENTS = {"commit": ("before", "after"), "exchange": ("before", "sent", "after")}


@dataclass(frozen=True, order=True)
class Point:
    """One moment in the life of a process.

    Args:
        what: "commit" or "exchange".
        number: Which one, from 1.
        when: "before", "after", or "sent": the request has left and its answer was not read.
    """

    what: str
    number: int
    when: str


def points(counts: dict[str, int]) -> list[Point]:
    """Return every point of a run that had so many commits and exchanges."""
    return [
        Point(what, number, when)
        for what, moments in MOMENTS.items()
        for number in range(1, counts.get(what, 0) + 1)
        for when in moments
    ]


@dataclass
class Reaper:
    """Counts what this process does, and kills it at its point."""

    point: Point | None
    counts: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, what: str) -> int:
        """Count one more commit or exchange."""
        with self._lock:
            self.counts[what] += 1
            number = self.counts[what]
        self.reach(what, number, "before")
        return number

    def reach(self, what: str, number: int, when: str) -> None:
        """Die if this is the point."""
        if self.point == Point(what, number, when):
            os.kill(os.getpid(), signal.SIGKILL)

    def watch(self) -> None:
        """Watch every commit of SQLAlchemy and every exchange of httpx in this process."""
        self._watch_commits()
        self._watch_exchanges()

    def _watch_commits(self) -> None:
        commit = DefaultDialect.do_commit

        def watched(dialect: Any, connection: Any) -> None:
            number = self.begin("commit")
            commit(dialect, connection)
            self.reach("commit", number, "after")

        DefaultDialect.do_commit = watched

    def _watch_exchanges(self) -> None:
        handle = httpx.HTTPTransport.handle_request

        def watched(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
            number = self.begin("exchange")
            inner = request.extensions.get("trace")

            def trace(event: str, info: Any) -> None:
                if inner is not None:
                    inner(event, info)
                if event.endswith(".receive_response_headers.started"):
                    self.reach("exchange", number, "sent")

            request.extensions = {**request.extensions, "trace": trace}
            response = handle(transport, request)
            self.reach("exchange", number, "after")
            return response

        httpx.HTTPTransport.handle_request = watched
