"""The world of the crash tests, seen from the test process: an API, a zygote, and places to crash in."""

import fcntl
import itertools
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx

from prefect_media_jobs.deployments.sandbox.bill import Bill
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle
from tests.support.killing import Point, points
from tests.support.passing_time import make_due
from tests.support.receiving import received
from tests.support.zygote import Ended, Worker, Zygote

KILLED = -9
AT_ONCE = 3
In = TypeVar("In")
Out = TypeVar("Out")


def until(look: Callable[[], Any], within_s: float = 20) -> None:
    """Wait for a condition, for a bounded time."""
    deadline = time.monotonic() + within_s
    while not look():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def at_once(work: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """Do several things at the same time, in order of their results."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


@dataclass(frozen=True)
class Row:
    """One attempt, as the ledger's file has it."""

    attempt_id: str
    item_key: str
    state: str
    job_id: str | None


@dataclass(frozen=True)
class World:
    """The API, the zygote, and a folder for ledgers."""

    sandbox: SandboxHandle
    zygote: Zygote
    folder: Path
    source: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def place(self, items: int = 2, width: int = 1) -> "Place":
        """Return a new place: a ledger that does not exist yet, and items nobody has bought."""
        name = f"place-{next(self._numbers)}"
        (self.folder / name).mkdir()
        keys = tuple(f"{name}-item-{number}" for number in range(items))
        return Place(self, self.folder / name, keys, width)

    def finished(self, items: Iterable[str]) -> int:
        """Return how many jobs for these items the API has completed."""
        answer = httpx.get(
            f"{self.sandbox.url}/jobs?limit=100",
            headers={"x-api-key": self.sandbox.api_key},
            trust_env=False,
        )
        wanted = {self.source_of(item) for item in items}
        jobs = [job for job in answer.json()["jobs"] if job["url"] in wanted]
        return sum(job["status"] == "Completed" for job in jobs)

    def source_of(self, item: str) -> str:
        """Return an item's source: the same film for all, by addresses of their own."""
        return f"{self.source.as_uri()}?{item}"


@dataclass(frozen=True)
class Place:
    """A ledger, what is bought in it, and what its consumer received.

    Args:
        width: Requests in flight at once; with one, every run takes the same course.
    """

    world: World
    folder: Path
    items: tuple[str, ...]
    width: int

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    def copy(self) -> "Place":
        """Return a place with the same ledger, down to the last row."""
        other = replace(self.world.place(), items=self.items, width=self.width)
        with closing(sqlite3.connect(self.ledger)) as old, closing(sqlite3.connect(other.ledger)) as new:
            old.backup(new)
        return other

    def start(self, do: str, point: Point | None = None, **order: Any) -> Worker:
        """Start a process that does one thing, and dies at its point."""
        items = order.pop("items", self.items)
        api = {"base_url": self.world.sandbox.url, "api_key": self.world.sandbox.api_key}
        return self.world.zygote.start(
            {
                "do": do,
                "point": None if point is None else [point.what, point.number, point.when],
                "ledger": str(self.ledger),
                "received": str(self.folder / "received"),
                "marks": str(self.folder),
                "api": api | {"max_in_flight": self.width} | order.pop("api", {}),
                "requests": [{"item_key": key, "source": self.world.source_of(key)} for key in items],
                **order,
            }
        )

    def run(self, do: str, **order: Any) -> Ended:
        """Run a process to its end, which must be a good one."""
        ended = self.start(do, **order).wait()
        assert (ended.code, ended.told.get("ended")) == (0, "returned"), ended.told.get("trace", ended)
        return ended

    def die(self, do: str, point: Point, **order: Any) -> None:
        """Run a process that is killed at a point, which it must reach."""
        ended = self.start(do, point, **order).wait()
        assert ended.code == KILLED, (point, ended)

    @contextmanager
    def gate(self) -> Iterator[Path]:
        """Hold back every process that was started with this gate, and let all go at once at the end."""
        path = self.folder / "gate"
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the ledger's write lock, as a process that hangs in mid-transaction does."""
        with closing(sqlite3.connect(self.ledger, timeout=30, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield
            connection.execute("ROLLBACK")

    def marked(self, what: str) -> int:
        """Return how many processes left this mark."""
        return len(list(self.folder.glob(f"{what}-*")))

    def make_due(self) -> None:
        """Let the time pass that deadlines, leases and pauses ask for."""
        make_due(self.ledger)

    def rows(self) -> list[Row]:
        """Return the attempts; none when there is no ledger yet."""
        if not self.ledger.exists():
            return []
        with closing(sqlite3.connect(self.ledger, timeout=30)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'attempt'").fetchall():
                return []
            found = connection.execute("SELECT attempt_id, item_key, state, job_id FROM attempt")
            return [Row(*row) for row in found]

    def states(self) -> dict[str, str]:
        """Return the state of each item's one attempt."""
        return {row.item_key: row.state for row in self.rows()}

    def received(self) -> list[tuple[str, str]]:
        """Return what the consumer was called with: delivery key and item."""
        return received(self.folder / "received")

    def handoffs(self) -> dict[str, str]:
        """Return the state of each delivery."""
        with closing(sqlite3.connect(self.ledger, timeout=30)) as connection:
            return dict(connection.execute("SELECT delivery_key, state FROM handoff"))


@dataclass(frozen=True)
class Crash:
    """A place right after a process died in it.

    Args:
        rows: What the ledger said then.
        received: What the consumer had received then.
    """

    place: Place
    point: Point | str
    rows: list[Row]
    received: list[tuple[str, str]]
    handoffs: dict[str, str]


def crash(place: Place, do: str, point: Point) -> Crash:
    """Kill a process at a point and look at what it leaves behind."""
    place.die(do, point)
    return left_behind(place, point)


def crash_if_reached(place: Place, do: str, point: Point) -> Crash | None:
    """Kill a process at a point; None when it took a course that ended before."""
    return left_behind(place, point) if place.start(do, point).wait().code == KILLED else None


def crash_when(place: Place, do: str, condition: Callable[[], Any]) -> Crash:
    """Kill a process once a condition is true."""
    worker = place.start(do)
    until(condition)
    worker.signal(signal.SIGKILL)
    assert worker.wait().code == KILLED
    return left_behind(place, f"{do}, once a condition was true")


def left_behind(place: Place, point: Point | str) -> Crash:
    """Look at what a dead process left."""
    rows = place.rows()
    return Crash(place, point, rows, place.received(), place.handoffs() if rows else {})


def crash_everywhere(do: str, place: Callable[[], Place]) -> list[Crash]:
    """Find every commit and every exchange of a process, and kill one at each of its points."""
    known = points(place().run(do).told["counts"])
    crashes = at_once(lambda point: crash(place(), do, point), known)
    tell(do, known)
    return crashes


def crash_nearly_everywhere(do: str, place: Callable[[], Place]) -> list[Crash]:
    """Do the same with a process whose threads share commits, so that not every run has as many."""
    known = points(place().run(do).told["counts"])
    tried = at_once(lambda point: crash_if_reached(place(), do, point), known)
    crashes = [each for each in tried if each is not None]
    tell(do, [point for point, each in zip(known, tried, strict=True) if each is not None])
    assert len(crashes) > len(known) / 2
    return crashes


def tell(do: str, covered: list[Point]) -> None:
    """Print at how many points a process was killed."""
    moments = Counter(f"{point.when} {point.what}" for point in covered)
    told = ", ".join(f"{count} {moment}" for moment, count in sorted(moments.items()))
    print(f"\n{do}: killed at {len(covered)} points ({told})")


def check_crash(each: Crash, bill: Bill) -> None:
    """Check what must be true right after a crash: what is called unsent was not sent."""
    posts = {row.attempt_id: bill.posts_by_idempotency_key.get(row.attempt_id, 0) for row in each.rows}
    said_unsent = {row.attempt_id for row in each.rows if row.state == "recorded"}
    assert set() == {attempt_id for attempt_id in said_unsent if posts[attempt_id]}, each.point


def check_end(each: Crash, bill: Bill) -> None:
    """Check what must be true when everything has become quiet: nothing bought twice, nothing lost."""
    rows, jobs = each.place.rows(), bill.by_idempotency_key()
    assert len(rows) == len({row.item_key for row in rows}), each.point
    for row in rows:
        bought = jobs.get(row.attempt_id, [])
        assert bill.posts_by_idempotency_key.get(row.attempt_id, 0) <= 1, (each.point, row)
        assert len(bought) <= 1, (each.point, row)
        expected = ("delivered", bought[0]) if bought else ("uncertain", None)
        assert expected == (row.state, row.job_id), (each.point, row)
    known = {row.attempt_id: row.job_id for row in each.rows if row.job_id}
    assert known == {row.attempt_id: row.job_id for row in rows if row.attempt_id in known}, each.point
    _check_handoffs(each, [row.item_key for row in rows if row.state == "delivered"])


def _check_handoffs(each: Crash, delivered: list[str]) -> None:
    """Check that each result was received under one key, and twice only where nothing can prevent it."""
    calls = each.place.received()
    assert sorted(delivered) == sorted({item for _, item in calls}), each.point
    assert len(delivered) == len(set(calls)), (each.point, calls)
    assert {"consumed"} >= set(each.place.handoffs().values()), each.point
    # Received, and the process died before it could write that down.
    unwritten = {key for key, _ in each.received if each.handoffs[key] == "sending"}
    again = {key for key, item in calls if calls.count((key, item)) > 1}
    assert unwritten == again, (each.point, calls)
    assert max((calls.count(call) for call in calls), default=1) <= 2, each.point
