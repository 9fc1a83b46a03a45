"""What another process does with a ledger, task by task, until its pipe is closed."""

import contextlib
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest
from prefect_media_jobs.blocks.errors import MediaJobsError, TransitionRefusedError


def opened(url: str) -> AttemptLedger:
    """Return a ledger with connections of its own."""
    return AttemptLedger(url=SecretStr(url))


def requests(keys: list[str]) -> list[MediaRequest]:
    """Return one request an item."""
    return [MediaRequest(item_key=key, source="https://media.example.org/x") for key in keys]


def begin(url: str, attempt_ids: list[str]) -> list[str]:
    """Try to begin each attempt, and tell which were won."""
    ledger = opened(url)
    won = []
    for attempt_id in attempt_ids:
        with contextlib.suppress(TransitionRefusedError):
            won.append(ledger.begin_attempt(attempt_id).attempt_id)
    ledger.close()
    return won


def claim(url: str, limit: int) -> list[str]:
    """Claim what is due, one page after the other, and tell which attempts were given out."""
    ledger = opened(url)
    given: list[str] = []
    while page := ledger.claim_due(["submit"], limit=limit):
        given += [attempt.attempt_id for attempt in page]
    ledger.close()
    return given


def write(url: str, keys: list[str]) -> str:
    """Buy each item, and tell how it went."""
    ledger = opened(url)
    try:
        for attempt in ledger.record_attempts(requests(keys)):
            ledger.begin_attempt(attempt.attempt_id)
            ledger.remember_job(attempt.attempt_id, f"job-{attempt.attempt_id}")
    except MediaJobsError as error:
        return str(error)
    finally:
        ledger.close()
    return "ok"


def first_use(url: str, keys: list[str]) -> str:
    """Open a ledger nobody has made yet, and write to it."""
    return write(url, keys)


def due_again(url: str, attempt_id: str) -> dict[str, str | None]:
    """Tell the time zone, and the instants of an attempt as this process reads them."""
    ledger = opened(url)
    attempt = ledger.read(attempt_id)
    ledger.close()
    due_at = None if attempt.due_at is None else attempt.due_at.isoformat()
    return {"offset": time.strftime("%z"), "asked_at": attempt.asked_at.isoformat(), "due_at": due_at}


def fork(url: str) -> dict[str, Any]:
    """Use a ledger, fork, and use it in both processes; tell the connections' owners and the child's end."""
    ledger = opened(url)
    ledger.record_attempts(requests(["before"]))
    parent = ledger._open()
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(BaseException):
            ledger.record_attempts(requests(["child"]))
            own = ledger._open()
            status = 0 if own is not parent and own.pid == os.getpid() else 2
        os._exit(status)
    for number in range(20):
        ledger.record_attempts(requests([f"parent-{number}"]))
    _, status = os.waitpid(child, 0)
    same = ledger._open() is parent
    items = [attempt.item_key for attempt in ledger.list_attempts()]
    ledger.close()
    return {"child": os.waitstatus_to_exitcode(status), "parent_kept_its_own": same, "items": len(items)}


TASKS: dict[str, Callable[..., Any]] = {
    task.__name__: task for task in (begin, claim, write, first_use, due_again, fork)
}


def serve(pipe: Connection, zone: str) -> None:
    """Live in a time zone and do what comes through the pipe."""
    os.environ["TZ"] = zone
    time.tzset()
    with contextlib.suppress(EOFError):
        while True:
            task, values = pipe.recv()
            pipe.send(TASKS[task](**values))
