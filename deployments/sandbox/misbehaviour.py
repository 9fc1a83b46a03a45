"""The ways in which the sandbox can be told to misbehave, and the desk where they wait for their moment."""

import threading
from concurrent.futures import Future
from enum import StrEnum
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, JsonValue

from prefect_media_jobs.deployments.sandbox.bill import RequestKind


class MisbehaviourKind(StrEnum):
    """One way to go wrong."""

    DROP_ANSWER = "drop_answer"
    """Accept the request, then close the connection without an answer."""
    LATE_ANSWER = "late_answer"
    """Accept at once, answer after ``seconds``."""
    HOLD_ANSWER = "hold_answer"
    """Accept at once, answer when released or after ``seconds``."""
    ACCEPT_LATE = "accept_late"
    """Wait ``seconds`` (or for the release), then accept, even if the client has gone."""
    ERROR_AFTER_ACCEPT = "error_after_accept"
    """Accept, then answer ``status`` (default 500) with ``body``."""
    REFUSE = "refuse"
    """Do nothing; answer ``status`` (default 400) with ``body``, ``retry_after`` and ``html`` as wished."""
    NOT_FOUND = "not_found"
    """Answer 404 as if the id were unknown."""
    HTML = "html"
    """Answer ``status`` (default 502) with an HTML page; with ``accept`` the request is carried out first."""
    UNKNOWN_STATUS = "unknown_status"
    """Look up, and tell the status ``word`` (default Archiving) instead of the real one."""
    NO_LINK = "no_link"
    """Look up, and leave out the link of a completed job; looks at open jobs are not counted."""
    UNLISTED = "unlisted"
    """List without the jobs meant by ``job_id`` or ``source``; without both, list nothing."""
    RESET = "reset"
    """Carry out, send half of the answer, then reset the connection."""
    CUT_SHORT = "cut_short"
    """Carry out, promise the whole length, send half, then close the connection."""
    TRUNCATED_BODY = "truncated_body"
    """Carry out, and answer with the first half of the JSON as if it were all."""
    EMPTY_BODY = "empty_body"
    """Carry out, and answer with the right status and no body."""
    HUGE_BODY = "huge_body"
    """Carry out, and answer with ``size_bytes`` (default 64 MB) of JSON, sent in pieces without a length."""
    NO_ID = "no_id"
    """Carry out, and answer ``status`` (default 200) with ``body`` (default an object without an id)."""
    STALL = "stall"
    """Leave a new job in Processing (``word``: Pending) until released."""
    END_AS = "end_as"
    """Let a new job end with the status ``word`` (default Failed) and ``error`` instead of processing it."""
    WRONG_BYTES = "wrong_bytes"
    """Storage: right length, wrong bytes."""
    SHORT_FILE = "short_file"
    """Storage: only the first half of the file is there, and the lengths agree."""
    ZERO_BYTES = "zero_bytes"
    """Storage: an empty object stands in for the file."""
    ERROR_PAGE = "error_page"
    """Storage: an HTML page, status 200, with the film's content type."""
    RANGE_IGNORED = "range_ignored"
    """Storage: the whole file with status 200 although a range was asked for."""
    STORAGE_ERROR = "storage_error"
    """Storage: ``status`` (default 403) with an XML error of the given ``code`` (default AccessDenied)."""


Kind = MisbehaviourKind
SPOILING_KINDS = (Kind.WRONG_BYTES, Kind.SHORT_FILE, Kind.ZERO_BYTES, Kind.ERROR_PAGE, Kind.RANGE_IGNORED)
PROCESSING_KINDS = (Kind.STALL, Kind.END_AS)
_CREATE_KINDS = (Kind.DROP_ANSWER, Kind.LATE_ANSWER, Kind.HOLD_ANSWER, Kind.ACCEPT_LATE)
_DEFAULT_TARGETS = {
    **dict.fromkeys((*_CREATE_KINDS, Kind.ERROR_AFTER_ACCEPT, Kind.REFUSE, Kind.NO_ID), RequestKind.CREATE),
    **dict.fromkeys((*SPOILING_KINDS, Kind.STORAGE_ERROR), RequestKind.STORAGE),
    **dict.fromkeys(PROCESSING_KINDS, RequestKind.PROCESS),
    Kind.UNLISTED: RequestKind.LIST,
}
_FIXED_TARGETS = (*SPOILING_KINDS, *PROCESSING_KINDS, Kind.STORAGE_ERROR, Kind.UNLISTED)


class Misbehaviour(BaseModel):
    """One order to misbehave.

    ``times`` is how many requests it spoils, None for all until it is cleared. ``target`` (also ``path``) is
    the kind of request; ``job_id`` and ``source`` narrow it down. A ``body`` that is text is sent as plain
    text. The rest are options, told at the kinds.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: MisbehaviourKind
    times: Annotated[int, Field(ge=1)] | None = 1
    target: RequestKind | None = Field(default=None, validation_alias=AliasChoices("target", "path"))
    job_id: str | None = None
    source: str | None = None
    seconds: Annotated[float, Field(ge=0, le=86_400)] = 3_600.0
    status: Annotated[int, Field(ge=200, le=599)] | None = None
    word: str | None = None
    body: JsonValue = None
    error: str = "The sandbox was told to let this job end so"
    error_type: str = "error"
    retry_after: str | int | None = None
    html: bool = False
    accept: bool = False
    code: str = "AccessDenied"
    size_bytes: Annotated[int, Field(ge=1, le=2**33)] = 64 * 1024**2

    @property
    def aim(self) -> RequestKind:
        """The kind of request it waits for: the one given, else the one where it makes most sense."""
        default = _DEFAULT_TARGETS.get(self.kind, RequestKind.LOOKUP)
        return default if self.kind in _FIXED_TARGETS else self.target or default

    @property
    def has_body(self) -> bool:
        """Whether a body was given, be it ``null``."""
        return "body" in self.model_fields_set

    def concerns(self, request: RequestKind, job_id: str | None, source: str | None) -> bool:
        """Whether a request is one it waits for. A list is narrowed down later, by its rows."""
        if request is not self.aim:
            return False
        if request is RequestKind.LIST:
            return True
        return self.job_id in {None, job_id} and self.source in {None, source}


class ActiveMisbehaviour(BaseModel):
    """An order with what is left of it."""

    order: Misbehaviour
    left: int | None


class MisbehaviourDesk:
    """Holds the orders, first come first served, and the gate that holds back answers and jobs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: list[ActiveMisbehaviour] = []
        self._gate: Future[None] = Future()
        self._closed = False

    @property
    def gate(self) -> Future[None]:
        """Done at the next release."""
        with self._lock:
            return self._gate

    def add(self, order: Misbehaviour) -> None:
        """Wait for the next fitting request."""
        with self._lock:
            self._active.append(ActiveMisbehaviour(order=order, left=order.times))

    def take(self, request: RequestKind, job_id: str | None, source: str | None) -> Misbehaviour | None:
        """Use up one time of the first fitting order; None when there is none."""
        with self._lock:
            for active in self._active:
                if active.left != 0 and active.order.concerns(request, job_id, source):
                    active.left = None if active.left is None else active.left - 1
                    return active.order
            return None

    def give_back(self, order: Misbehaviour) -> None:
        """Return one time that turned out not to fit."""
        with self._lock:
            for active in self._active:
                if active.order is order and active.left is not None:
                    active.left += 1

    def active(self) -> list[ActiveMisbehaviour]:
        """Return the orders that still have something left."""
        with self._lock:
            return [active.model_copy() for active in self._active if active.left != 0]

    def clear(self) -> None:
        """Drop all orders; what is held back stays so until the release."""
        with self._lock:
            self._active.clear()

    def release(self) -> None:
        """Let go of everything that is held back now."""
        with self._lock:
            gate = self._gate
            if not self._closed:
                self._gate = Future()
        if not gate.done():
            gate.set_result(None)

    def close(self) -> None:
        """Drop all orders and hold nothing back any more."""
        with self._lock:
            self._active.clear()
            self._closed = True
        self.release()
