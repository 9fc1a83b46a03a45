"""A look at a finished file through its signed link, without the API key."""

import re
from dataclasses import dataclass, replace
from time import monotonic
from urllib.parse import urljoin

import httpx

from prefect_media_jobs.blocks.domain.inspection import FIRST_BYTES, Sound, Verdict, judge_file
from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, Link
from prefect_media_jobs.blocks.media.answers import HTTP_ERRORS, answered, limit_body
from prefect_media_jobs.blocks.media.clients import Clients, exact_request
from prefect_media_jobs.blocks.media.hiding import Hider

_MAX_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_WHOLE = re.compile(r"https?://", re.IGNORECASE)
_RANGE = {"Range": f"bytes=0-{FIRST_BYTES - 1}"}


@dataclass(frozen=True)
class Peek:
    """How to look: a ranged GET, because a link signed for GET may refuse HEAD."""

    clients: Clients
    connect_timeout_s: float
    timeout_s: float

    def look(self, link: Link, size_bytes: int | None) -> Verdict:
        """Read the first bytes of the file and judge the answer.

        Safe to repeat: yes.
        """
        url = link.reveal()
        links = [url]
        deadline = monotonic() + self.connect_timeout_s + self.timeout_s
        try:
            for _ in range(_MAX_REDIRECTS + 1):
                verdict, target = self._ask(url, size_bytes, deadline)
                if target is None:
                    return _hidden(verdict, Hider(links=links))
                # What is whole already stays as it is, to the byte.
                url = target if _WHOLE.match(target) else urljoin(url, target)
                if not _WHOLE.match(url):
                    return CouldNotAsk("The storage redirects to something that is not a web address.")
                links.append(url)
        except HTTP_ERRORS as error:
            return CouldNotAsk(
                Hider(links=links)(f"The storage did not answer ({type(error).__name__}: {error}).")
            )
        return CouldNotAsk(f"The storage redirected more than {_MAX_REDIRECTS} times.")

    def _ask(self, url: str, size_bytes: int | None, deadline: float) -> tuple[Verdict, str | None]:
        """Return the verdict, and where the storage redirects to, if it does."""
        timeout = httpx.Timeout(self.timeout_s, connect=self.connect_timeout_s)
        # This client never sees the API key, and neither does a host it is redirected to.
        client = self.clients.here().store
        # The rest of the file is not wanted: a server may ignore the range and send all of it.
        with answered(client, exact_request(url, _RANGE, timeout)) as response:
            if response.status_code in _REDIRECTS and (target := response.headers.get("location")):
                return CouldNotAsk("redirected"), target
            head, ended = _first_bytes(response, deadline)
        return judge_file(response.status_code, response.headers, head, size_bytes, ended=ended), None


def _first_bytes(response: httpx.Response, deadline: float) -> tuple[bytes, bool]:
    """Return the first bytes, and whether the body ended with them."""
    head = bytearray()
    deadline = limit_body(response, deadline)
    for chunk in response.iter_raw():
        head += chunk
        if len(head) > FIRST_BYTES:
            return bytes(head[:FIRST_BYTES]), False
        if monotonic() > deadline:
            raise httpx.ReadTimeout("the answer does not end", request=response.request)
    return bytes(head), True


def _hidden(verdict: Verdict, hide: Hider) -> Verdict:
    return verdict if isinstance(verdict, Sound) else replace(verdict, reason=hide(verdict.reason))
