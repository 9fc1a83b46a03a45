"""What the worker processes of these tests do."""

import os
import signal
import sys
import threading
import time
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.ledger import database
from prefect_media_jobs.flows import steps, submission
from tests.support.without_prefect import use_blocks

IDLE_S = 0.02


def opened(url: str) -> AttemptLedger:
    """Return a ledger with connections of its own."""
    return AttemptLedger(url=SecretStr(url))


@dataclass(frozen=True)
class Looking:
    """How a worker looks up attempts.

    Args:
        folder: Where the shared log is, and the mark that it is enough.
        lookup_s: How long the API takes for a page.
        rounds: How often each attempt is looked up until it is completed; None until it is enough.
    """

    url: str
    folder: Path
    lease_s: float
    page: int = 25
    lookup_s: float = 0.0
    rounds: int | None = 1

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def enough(self) -> Path:
        """File that is there once every attempt shall be completed."""
        return self.folder / "enough"


class Log:
    """A file to which many processes append, a line at a time."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)

    def note(self, word: str, attempt: Attempt, held_until: float = 0.0) -> None:
        """Append: what, which attempt, its version, who, when, and until when it is held at least."""
        now = time.monotonic()
        line = f"{word} {attempt.attempt_id} {attempt.version} {os.getpid()} {now!r} {held_until!r}\n"
        os.write(self._file, line.encode())


def look_up(looking: Looking, barrier: Any = None) -> int:
    """Claim, look up and write, until every attempt is completed; return how many writes were refused."""
    log, waiting, refused = Log(looking.log), threading.Event(), 0
    with closing(opened(looking.url)) as ledger:
        ledger.check()
        if barrier is not None:
            barrier.wait(60)
        while True:
            asked_at = time.monotonic()
            lease = timedelta(seconds=looking.lease_s)
            page = ledger.claim_due(["lookup"], limit=looking.page, lease=lease)
            assert len(page) <= looking.page
            if not page:
                if not ledger.summary().attempts.get(State.SUBMITTED):
                    return refused
                waiting.wait(IDLE_S)
                continue
            for attempt in page:
                log.note("held", attempt, asked_at + looking.lease_s)
            waiting.wait(looking.lookup_s)
            for attempt in page:
                log.note("writing", attempt)
            written = ledger.apply_each([(each, _seen(looking, each)) for each in page])
            for before, after in zip(page, written, strict=True):
                log.note("refused" if after is None else "wrote", after or before)
            refused += written.count(None)


def _seen(looking: Looking, attempt: Attempt) -> Change:
    """Return what the look-up says: still running, or done."""
    done = looking.enough.exists() if looking.rounds is None else attempt.lookups + 1 >= looking.rounds
    facts = Facts(lookups=attempt.lookups + 1)
    if done:
        return Change(Event.COMPLETE, State.COMPLETED, facts, None, "done")
    return Change(Event.PROGRESS, State.SUBMITTED, facts, 0.0, f"look-up {attempt.lookups + 1}")


def buy(url: str, api: dict[str, Any], items: list[str], barrier: Any) -> dict[str, str | None]:
    """Submit items as the flow does, at the same moment as the others, and tell the job of each."""
    with closing(opened(url)) as ledger, closing(TornadoApi(**api)) as shop:
        use_blocks(ledger, shop)
        asked = [MediaRequest(item_key=item, source="https://media.example.org/x") for item in items]
        ledger.check()
        barrier.wait(60)
        submission.record_and_send(asked, ledger, shop, "media-api", None)
        return {attempt.item_key: attempt.job_id for attempt in ledger.list_attempts()}


@dataclass(frozen=True)
class Pausing:
    """A ledger whose process is stopped as soon as an intent is committed."""

    ledger: AttemptLedger
    begun: Path

    def begin_attempt(self, *args: Any, **fields: Any) -> Attempt:
        attempt = self.ledger.begin_attempt(*args, **fields)
        self.begun.touch()
        os.kill(os.getpid(), signal.SIGSTOP)
        return attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


def send_after_a_pause(url: str, api: dict[str, Any], attempt_id: str, begun: Path) -> str | None:
    """Submit one attempt, stopping as if by SIGSTOP once its intent is committed; tell what came of it."""
    with closing(opened(url)) as ledger, closing(TornadoApi(**api)) as shop:
        return steps.submit(Pausing(ledger, begun), shop, attempt_id).state  # type: ignore[arg-type]


def upgrade(url: str, barrier: Any) -> str | None:
    """Upgrade a ledger at the same moment as the others, use it, and tell the version found."""
    with closing(opened(url)) as ledger:
        barrier.wait(60)
        found = ledger.upgrade()
        ledger.record_attempts([MediaRequest(item_key=f"by-{os.getpid()}", source="https://example.org/x")])
        return found


def die_at_statement(url: str, number: int) -> None:
    """Upgrade a ledger, and be killed right before so many statements were run, the commit included."""
    left = iter(range(number - 1))

    def count(*_args: object, **_fields: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    sa.event.listen(sa.Engine, "commit", count)
    with closing(opened(url)) as ledger:
        ledger.upgrade()


def shift_clock(minutes: float) -> None:
    """Put the wall clock of this process forward, as every module of the package sees it."""
    shift = timedelta(minutes=minutes)

    class Shifted(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + shift

    true_time = time.time
    time.time = lambda: true_time() + shift.total_seconds()
    for name, module in list(sys.modules.items()):
        if name.startswith("prefect_media_jobs") and getattr(module, "datetime", None) is datetime:
            module.datetime = Shifted  # type: ignore[attr-defined]


def claim_by_another_clock(url: str, minutes: float, limit: int) -> dict[str, Any]:
    """Claim and begin with a wrong clock, and tell what that made."""
    shift_clock(minutes)
    with closing(opened(url)) as ledger:
        claimed = ledger.claim_due(["submit"], limit=limit, lease=timedelta(minutes=5))
        begun = ledger.begin_attempt(claimed[0].attempt_id, window=timedelta(minutes=5)) if claimed else None
        return {
            "clock": vars(database)["datetime"].now().astimezone(),
            "claimed": {each.attempt_id: each.leased_until for each in claimed},
            "deadline": begun and begun.send_deadline,
            "sent_at": begun and begun.sent_at,
        }
