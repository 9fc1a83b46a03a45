"""A real HTTP server on a socket that answers by script, and the block that talks to it."""

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.media import TornadoApi

KEY = "sk_live_0123456789abcdef"
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SOURCE = "https://user:pa55word@cdn.example/film.mp4?token=s3cr3t-value&sig=abcdefgh"


@dataclass(frozen=True)
class Reply:
    """What the server does with one request.

    Args:
        raw: Bytes to send back.
        then: "keep" the connection, "close" it, "reset" it, or "hang" until the client goes away.
        endless: Sent again and again after ``raw``, until the client goes away.
    """

    raw: bytes = b""
    then: str = "keep"
    endless: bytes = b""


@dataclass
class Received:
    """One request as it came over the wire."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    head: bytes = field(repr=False, default=b"")

    def json(self) -> Any:
        return json.loads(self.body)


def reply(status: int, body: object = b"", kind: str = "application/json", **headers: str) -> Reply:
    """Make a whole answer; a body that is not bytes is sent as JSON."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Status", f"Content-Length: {len(content)}"]
    lines += [f"Content-Type: {kind}"] if kind else []
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return Reply("\r\n".join([*lines, "", ""]).encode() + content)


def html(status: int, **headers: str) -> Reply:
    """Make a page, such as a gateway's or a bot check's."""
    return reply(status, b"<html><body>Just a moment</body></html>", "text/html; charset=utf-8", **headers)


class Server:
    """Answers each request with the next reply of its script; the last reply stays."""

    def __init__(self) -> None:
        self.script: list[Reply] = [reply(404)]
        self.requests: list[Received] = []
        self.connections = 0
        self.bytes_seen = 0
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._accepted = threading.Condition(self._lock)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def will(self, *replies: Reply) -> None:
        """Set the script."""
        self.script = list(replies)

    def settle(self, connections: int = 0) -> None:
        """Wait until so many connections were accepted, and every one of them is over."""
        with self._accepted:
            assert self._accepted.wait_for(lambda: self.connections >= connections, timeout=5)
        for thread in list(self._threads):
            thread.join(timeout=5)
            assert not thread.is_alive()

    def drop_connections(self) -> None:
        """Close all connections from this side, as a server does with idle ones."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.settle()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(timeout=5)
        self._listener.close()
        self.drop_connections()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            with self._accepted:
                self.connections += 1
                self._open.add(connection)
                self._threads.append(thread)
                thread.start()
                self._accepted.notify_all()

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(10)
        with connection, suppress(OSError):
            while (request := self._read(connection)) is not None:
                with self._lock:
                    self.requests.append(request)
                    answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
                if not self._answer(connection, answer):
                    break
        with self._lock:
            self._open.discard(connection)

    def _read(self, connection: socket.socket) -> Received | None:
        data = b""
        while b"\r\n\r\n" not in data:
            data += (chunk := self._receive(connection))
            if not chunk:
                return None
        head, _, body = data.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        while len(body) < int(headers.get("content-length", "0")):
            body += self._receive(connection)
        method, target, _ = first.split(" ")
        return Received(method, target, headers, body, head)

    def _receive(self, connection: socket.socket) -> bytes:
        chunk = connection.recv(65536)
        with self._lock:
            self.bytes_seen += len(chunk)
        return chunk

    @staticmethod
    def _answer(connection: socket.socket, answer: Reply) -> bool:
        connection.sendall(answer.raw)
        while answer.endless:
            connection.sendall(answer.endless)
        if answer.then == "hang":
            connection.recv(1)
        if answer.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return answer.then == "keep"


@pytest.fixture
def server() -> Iterator[Server]:
    """Serve as the API."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def storage() -> Iterator[Server]:
    """Serve as the storage."""
    server = Server()
    yield server
    server.close()


@pytest.fixture
def make_api(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TornadoApi]]:
    """Make blocks that talk to the server, with short time-outs."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setattr("prefect_media_jobs.blocks.media.answers._LEAST_BODY_S", 0.05)
    made: list[TornadoApi] = []

    def make(**fields: Any) -> TornadoApi:
        defaults = {"connect_timeout_s": 2.0, "submit_timeout_s": 2.0, "lookup_timeout_s": 2.0}
        api = TornadoApi(**{"base_url": server.url, "api_key": KEY} | defaults | fields)
        made.append(api)
        return api

    yield make
    for api in made:
        api.close()


@pytest.fixture
def api(make_api: Callable[..., TornadoApi]) -> TornadoApi:
    """Make the usual block."""
    return make_api()


@pytest.fixture
def look_up(server: Server, api: TornadoApi) -> Callable[..., Any]:
    """Ask once, of a server that gives these answers."""

    def look_up(*answers: Reply, job_id: str = "j-1") -> Any:
        server.will(*answers)
        return api.look_up(job_id)

    return look_up


@pytest.fixture
def make_attempt() -> Callable[..., Attempt]:
    """Make attempts that are about to be sent."""

    def make(**overrides: Any) -> Attempt:
        nothing = dict.fromkeys(Attempt.__dataclass_fields__)
        usual = {
            "attempt_id": "episode-42-attempt-1",
            "item_key": "episode-42",
            "request_key": "f" * 64,
            "source": SOURCE,
            "settings": {"format": "mp4"},
            "api": "media-api",
            "state": State.SENDING,
            "version": 1,
            "batch_job_ids": (),
            "twin": False,
            "lookups": 0,
            "failures": 0,
            "not_found_count": 0,
            "asked_at": NOW,
            "changed_at": NOW,
        }
        return Attempt(**nothing | usual | overrides)

    return make


@pytest.fixture(name="reply")
def _reply() -> Callable[..., Reply]:
    return reply


@pytest.fixture(name="html")
def _html() -> Callable[..., Reply]:
    return html


@pytest.fixture(name="raw_reply")
def _raw_reply() -> type[Reply]:
    return Reply
