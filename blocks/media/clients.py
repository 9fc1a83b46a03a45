"""The HTTP clients of a block: made late, one set per process, never pickled."""

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote

import httpx

from prefect_media_jobs.blocks.domain.redaction import shown_source

HEADERS = {"User-Agent": "prefect-media-jobs", "Accept-Encoding": "identity"}
_SENDABLE = "".join(map(chr, range(0x21, 0x7F)))
_FRESH = httpx.Limits(max_connections=None, max_keepalive_connections=0)
_KEPT = httpx.Limits(max_connections=None, max_keepalive_connections=32)


class ExactUrl(httpx.URL):
    """An address that goes out byte for byte as given, and is shown without its query.

    ``httpx.URL`` removes dot segments and re-encodes characters, which breaks a signature or asks for
    something else; and httpx logs each address it asks for, which would put signed links into logs.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        after_host = url.split("://", 1)[1]
        start = min((after_host.find(mark) for mark in "/?#" if mark in after_host), default=len(after_host))
        target = after_host[start:].split("#", 1)[0]
        # What cannot stand in a request line at all is the only thing that is encoded.
        self._target = quote(target if target.startswith("/") else f"/{target}", safe=_SENDABLE).encode()

    @property
    def raw_path(self) -> bytes:
        """Path and query as they go over the wire."""
        return self._target

    def __str__(self) -> str:
        return shown_source(super().__str__())


def exact_request(url: str, headers: dict[str, str], timeout: httpx.Timeout) -> httpx.Request:
    """Build a GET for exactly this address.

    Raises:
        httpx.InvalidURL, ValueError: the text is not an address.
    """
    exact = ExactUrl(url)
    # Not by the client: it would take the address apart and put it together again, twice.
    request = httpx.Request(
        "GET", exact, headers=HEADERS | headers, extensions={"timeout": timeout.as_dict()}
    )
    request.url = exact
    return request


class _NoCookies(httpx.Cookies):
    """Keeps none, and does not even look for them."""

    def extract_cookies(self, response: httpx.Response) -> None:
        """Leave the answer's cookies alone."""


class _Client(httpx.Client):
    """A client without a memory for cookies."""

    @property
    def cookies(self) -> httpx.Cookies:
        """No cookies."""
        return _NO_COOKIES

    @cookies.setter
    def cookies(self, _: object) -> None:
        raise AttributeError("this client keeps no cookies")


_NO_COOKIES = _NoCookies()


@dataclass(frozen=True)
class _Set:
    """One process's clients.

    Args:
        send: For the one POST: every request has a connection of its own, so that a connection which the
            other side has just closed cannot swallow it.
        ask: For questions, on kept connections.
        store: For the storage; separate, so that nothing of the API's can reach another host.
    """

    send: httpx.Client
    ask: httpx.Client
    store: httpx.Client

    def close(self) -> None:
        for client in (self.send, self.ask, self.store):
            client.close()


class Clients:
    """Hand out the clients of this process.

    A forked child must not use its parent's connections, so each process makes its own set. There is no lock
    that a fork could leave locked: of two sets made at once, one is thrown away.
    """

    def __init__(self) -> None:
        self._sets: dict[int, _Set] = {}

    def __reduce__(self) -> tuple[Callable[[], "Clients"], tuple[()]]:
        return Clients, ()

    def here(self) -> _Set:
        """Return the set of this process, making it if need be."""
        process = os.getpid()
        found = self._sets.get(process)
        if found is None:
            made = _make_set()
            found = self._sets.setdefault(process, made)
            if found is not made:
                made.close()
        return found

    def close(self) -> None:
        """Close this process's connections."""
        found = self._sets.pop(os.getpid(), None)
        if found is not None:
            found.close()


def _make_set() -> _Set:
    context = httpx.create_ssl_context()
    return _Set(_client(context, _FRESH), _client(context, _KEPT), _client(context, _KEPT))


def _client(context: ssl.SSLContext, limits: httpx.Limits) -> httpx.Client:
    return _Client(
        verify=context,
        limits=limits,
        headers=HEADERS,
        follow_redirects=False,
        http1=True,
        http2=False,
    )
