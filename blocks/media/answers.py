"""One answer of the API, read with a bound on bytes and on time."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from time import monotonic

import httpx

from prefect_media_jobs.blocks.domain.backoff import parse_retry_after
from prefect_media_jobs.blocks.media.hiding import Hider

HTTP_ERRORS = (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL, OSError, ValueError, ImportError)
"""What a request can fail with that is no bug of ours: the network, the answer, the proxy settings."""


_LEAST_BODY_S = 2.0
"""What the body gets once the head is there, even if we were paused until the deadline was over."""


@contextmanager
def answered(client: httpx.Client, request: httpx.Request) -> Iterator[httpx.Response]:
    """Send a request and give its answer with an unread body; trouble with hanging up does not count."""
    response = client.send(request, stream=True)
    try:
        yield response
    finally:
        with suppress(httpx.HTTPError, OSError):
            response.close()


@dataclass(frozen=True)
class Answer:
    """What came back.

    Args:
        body: As much of the body as was read.
        fault: Why the body is not whole; None when it is.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    fault: str | None = None

    @property
    def is_success(self) -> bool:
        """True for any 2xx: the API's documents disagree on which one it sends."""
        return 200 <= self.status < 300  # noqa: PLR2004 (the class of status codes)

    @property
    def from_between(self) -> bool:
        """True when something between us and the API answered: a gateway's or a bot check's page."""
        is_page = "html" in self.headers.get("content-type", "").lower()
        return is_page or "cf-mitigated" in self.headers or self.body.lstrip()[:1] == b"<"

    def json(self) -> object:
        """Return the parsed body.

        Raises:
            ValueError: the body is not JSON.
        """
        try:
            return json.loads(self.body)
        except RecursionError:
            raise ValueError("too deeply nested") from None

    def retry_after_s(self) -> float | None:
        """Return how long the API asks to wait, by the API's own clock where it tells it."""
        now = datetime.now(UTC)
        with suppress(ValueError, OverflowError):
            told = parsedate_to_datetime(self.headers.get("date", ""))
            now = told.replace(tzinfo=told.tzinfo or UTC)
        return parse_retry_after(self.headers.get("retry-after"), now)

    def explanation(self, hide: Hider) -> str:
        """Return what the API gives as its reason, fit to be shown."""
        text = self.body.decode("utf-8", "replace")
        try:
            told = self.json()
        except (ValueError, OverflowError):
            return hide(text) or "no reason given"
        if isinstance(told, dict):
            parts = [_plain(told.get(name)) for name in ("error", "message", "detail")]
            text = ": ".join(dict.fromkeys(part for part in parts if part)) or json.dumps(
                told, ensure_ascii=False
            )
        return (hide(text) if told else "") or "no reason given"

    def excerpt(self, hide: Hider) -> str:
        """Return the beginning of the body, fit to be shown and stored."""
        text = self.body.decode("utf-8", "replace")
        with suppress(ValueError, OverflowError):
            text = json.dumps(self.json(), ensure_ascii=False)
        kind = self.headers.get("content-type", "").split(";")[0] or "no content type"
        return f"{kind}, {hide(text)}" if text.strip() else "empty body"


def read_answer(response: httpx.Response, cap_bytes: int, deadline: float) -> Answer:
    """Read the body of a streamed response, not more than ``cap_bytes`` and not beyond ``deadline``.

    Args:
        deadline: On the monotonic clock.
    """
    body = bytearray()
    fault = None
    deadline = limit_body(response, deadline)
    try:
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > cap_bytes:
                fault = f"longer than {cap_bytes} bytes"
                break
            if monotonic() > deadline:
                fault = "it does not end"
                break
    except (httpx.HTTPError, httpx.StreamError) as error:
        fault = f"broken off ({type(error).__name__})"
    return Answer(response.status_code, response.headers, bytes(body[:cap_bytes]), fault)


def limit_body(response: httpx.Response, deadline: float) -> float:
    """Let no read of the body wait beyond the deadline; return it, moved so that a moment is left."""
    deadline = max(deadline, monotonic() + _LEAST_BODY_S)
    # The transport looks at this figure when it starts on the body.
    response.request.extensions["timeout"]["read"] = deadline - monotonic()
    return deadline


def _plain(value: object) -> str:
    """Return a reason's text, also where the API wraps it in an object."""
    if isinstance(value, dict):
        value = value.get("message") or value
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
