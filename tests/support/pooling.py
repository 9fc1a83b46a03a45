"""A pooler in front of a PostgreSQL server: each transaction gets a connection, and the next one another."""

import contextlib
import itertools
import queue
import socket
import threading
from typing import Self

import pytest
import sqlalchemy as sa

from tests.support.pg_messages import Gone, in_transaction, read_answer, read_request, read_startup, send


class TransactionPooler:
    """Shares a few connections to a server among all clients, one transaction at a time.

    As the known poolers do in this mode, it keeps nothing of a session: what a client has prepared or set on
    one connection is not on the next. The server must want no password.

    Args:
        url: URL of a database on the server.
        width: Connections to the server.
    """

    def __init__(self, url: str, width: int = 3) -> None:
        self._target = sa.make_url(url)
        if self._target.password:
            pytest.skip("this pooler cannot log in with a password")
        self._width = width
        self._free: queue.Queue[tuple[int, socket.socket]] = queue.Queue()
        self._greeting = b""
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.used: list[int] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        port: int = self._listener.getsockname()[1]
        self.url = self._target.set(host="127.0.0.1", port=port).render_as_string(hide_password=False)
        self._accepting = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._accepting.start()
        return self

    def __exit__(self, *_error: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join(10)
        self._listener.close()
        for end in self._ends:
            end.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(Gone, OSError):
            startup = read_startup(client)
            with self._lock:
                while next(self._numbers) < self._width:
                    self._connect(startup)
            send(client, self._greeting)
            while True:
                self._transaction(client)

    def _connect(self, startup: bytes) -> None:
        server = socket.create_connection((str(self._target.host), self._target.port or 5432))
        self._ends.append(server)
        send(server, startup)
        self._greeting = b"".join(read_answer(server))
        self._free.put((self._free.qsize(), server))

    def _transaction(self, client: socket.socket) -> None:
        """Carry one transaction, on the connection that was not used for longest."""
        request = read_request(client)
        if request[-1][:1] == b"X":
            raise Gone
        number, server = self._free.get(timeout=30)
        self.used.append(number)
        while True:
            send(server, b"".join(request))
            answer = read_answer(server)
            ended = not in_transaction(answer)
            if ended:
                self._free.put((number, server))
            send(client, b"".join(answer))
            if ended:
                return
            request = read_request(client)
