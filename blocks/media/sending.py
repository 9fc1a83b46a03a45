"""The one POST: what is sent, what proves that it was not, and what its answer means."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic

import httpx

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.outcomes import NotSent, SubmitOutcome, Unknown
from prefect_media_jobs.blocks.media.answers import answered, read_answer
from prefect_media_jobs.blocks.media.clients import HEADERS, Clients
from prefect_media_jobs.blocks.media.hiding import Hider
from prefect_media_jobs.blocks.media.wire import read_submission

_ON_THE_WAY = (
    httpx.ReadError,
    httpx.ReadTimeout,
    httpx.WriteError,
    httpx.WriteTimeout,
    httpx.RemoteProtocolError,
)
"""What only happens once something was sent: never taken as proof of the contrary."""


class _TooLateError(Exception):
    """The send deadline passed before the request left."""


@dataclass
class _Gate:
    """Watch one request, and stop it if it is too late.

    The transport calls this right before it writes a request's first byte, when the connection and its
    encryption stand. What is sent to ask a proxy for a tunnel is not yet the request.

    Args:
        left: True when a byte of the request may have left.
    """

    may_send: Callable[[], bool]
    left: bool = False

    def __call__(self, event: str, info: Mapping[str, object]) -> None:
        if not event.endswith(".send_request_headers.started"):
            return
        if not self.may_send():
            raise _TooLateError
        if getattr(info.get("request"), "method", None) != b"CONNECT":
            self.left = True


@dataclass(frozen=True)
class Submission:
    """How to submit.

    Args:
        timeout_s: From the start to the last byte of the answer, connecting not included.
        job_id_field: Where the answer tells the id: a field name, or a dotted path.
    """

    clients: Clients
    url: str
    api_key: str
    connect_timeout_s: float
    timeout_s: float
    job_id_field: str
    cap_bytes: int

    def send(self, attempt: Attempt, may_send: Callable[[], bool]) -> SubmitOutcome:
        """Send the attempt's request once, and classify by what is certain.

        Safe to repeat: no; it may be billed.
        """
        gate = _Gate(may_send)
        hide = Hider([self.api_key], [attempt.source])
        deadline = monotonic() + self.connect_timeout_s + self.timeout_s
        try:
            client = self.clients.here().send
            with answered(client, self._request(attempt, gate)) as response:
                answer = read_answer(response, self.cap_bytes, deadline)
            return read_submission(answer, self.job_id_field, hide)
        except _TooLateError:
            return NotSent("Nothing was sent: the send deadline has passed.")
        except Exception as error:  # noqa: BLE001 (whatever happens, only the gate knows if the request left)
            told = hide(f"{type(error).__name__}: {error}")
            if gate.left or isinstance(error, _ON_THE_WAY):
                return Unknown(f"The request may have arrived: {told}")
            return NotSent(f"Nothing was sent: {told}")

    def _request(self, attempt: Attempt, gate: _Gate) -> httpx.Request:
        body = {**attempt.settings, "url": attempt.source}
        # The file name is what an orphan can be recognised by.
        body["filename"] = body.get("filename") or attempt.attempt_id
        # Not by the client: it would merge the address and the headers anew for every request.
        return httpx.Request(
            "POST",
            self.url,
            content=json.dumps(body, allow_nan=False).encode(),
            headers={
                **HEADERS,
                "Content-Type": "application/json",
                "Accept": "application/json",
                # A connection that is used once cannot be one that the other side has just closed.
                "Connection": "close",
                "x-api-key": self.api_key,
                "x-idempotency-key": attempt.attempt_id,
            },
            extensions={
                "trace": gate,
                "timeout": httpx.Timeout(self.timeout_s, connect=self.connect_timeout_s).as_dict(),
            },
        )
