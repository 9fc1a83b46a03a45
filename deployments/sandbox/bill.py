"""What a bill would count: every request received, every job created and what it was created for."""

import threading
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from typing import TypeVar

from pydantic import BaseModel

K = TypeVar("K")


class RequestKind(StrEnum):
    """What a request asks for, told from its method and path."""

    CREATE = "create"
    """``POST /jobs``"""
    LOOKUP = "lookup"
    """``GET /jobs/{id}``"""
    LIST = "list"
    """``GET /jobs``"""
    BATCH = "batch"
    """``GET /batch/{id}``"""
    CANCEL = "cancel"
    """``DELETE /jobs/{id}``"""
    RETRY = "retry"
    """``POST /jobs/{id}/retry``"""
    DELETE_FILE = "delete_file"
    """``DELETE /jobs/{id}/file``"""
    USAGE = "usage"
    """``GET /usage``"""
    STORAGE = "storage"
    """A signed link, whatever the method."""
    CONTROL = "control"
    """The sandbox's own switches; never counted."""
    OTHER = "other"
    """Anything the API does not have."""
    PROCESS = "process"
    """No request: the moment a worker takes a job."""


class BillLine(BaseModel):
    """One job that was created; it stays on the bill whatever becomes of the job.

    ``marker`` is the file name as sent, ``how`` one of ``create``, ``batch`` and ``retry``.
    """

    job_id: str
    source: str
    marker: str | None = None
    idempotency_key: str | None = None
    batch_id: str | None = None
    how: str = "create"


class Bill(BaseModel):
    """The whole bill since the start.

    ``posts_received`` counts every ``POST /jobs`` that arrived, granted or not; ``requests`` counts by kind;
    ``keyed_storage_requests`` counts storage requests with the API key, which no client should send there.
    """

    posts_received: int = 0
    posts_by_idempotency_key: dict[str, int] = {}
    jobs_created: int = 0
    lines: list[BillLine] = []
    requests: dict[str, int] = {}
    keyed_storage_requests: int = 0

    def by_source(self) -> dict[str, list[str]]:
        """Return the job ids bought for each source."""
        return self._grouped(lambda line: line.source)

    def by_marker(self) -> dict[str | None, list[str]]:
        """Return the job ids bought under each file name; None holds those sent without one."""
        return self._grouped(lambda line: line.marker)

    def by_idempotency_key(self) -> dict[str | None, list[str]]:
        """Return the job ids bought under each idempotency key; None holds those sent without one."""
        return self._grouped(lambda line: line.idempotency_key)

    def _grouped(self, key: Callable[[BillLine], K]) -> dict[K, list[str]]:
        groups: dict[K, list[str]] = {}
        for line in self.lines:
            groups.setdefault(key(line), []).append(line.job_id)
        return groups


class BillBook:
    """Keeps the bill; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[str] = Counter()
        self._keys: Counter[str] = Counter()
        self._lines: list[BillLine] = []
        self._keyed_storage_requests = 0

    def received(self, kind: RequestKind, *, idempotency_key: str | None, api_key: bool) -> None:
        """Count a request at the moment it arrives, before anything can go wrong with it."""
        with self._lock:
            self._requests[kind.value] += 1
            if kind is RequestKind.CREATE and idempotency_key is not None:
                self._keys[idempotency_key] += 1
            if kind is RequestKind.STORAGE and api_key:
                self._keyed_storage_requests += 1

    def bought(self, line: BillLine) -> None:
        """Add a job."""
        with self._lock:
            self._lines.append(line)

    def total(self) -> Bill:
        """Return the bill as it stands."""
        with self._lock:
            return Bill(
                posts_received=self._requests[RequestKind.CREATE.value],
                posts_by_idempotency_key=dict(self._keys),
                jobs_created=len(self._lines),
                lines=list(self._lines),
                requests=dict(self._requests),
                keyed_storage_requests=self._keyed_storage_requests,
            )
