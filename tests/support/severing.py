"""A cable to a PostgreSQL server that can be cut around the commit of a transaction."""

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Literal, Self

import sqlalchemy as sa

from tests.support.pg_messages import Gone, asks_to_commit, log_in, read_answer, read_request, send

Moment = Literal["before", "after"]
"""Right before the server gets a COMMIT, or right after it has processed it and before its answer is seen."""


class Severing:
    """Forwards connections to a server, and cuts the one that commits next when it is told to.

    Args:
        url: URL of a database on the server.
    """

    def __init__(self, url: str) -> None:
        self._target = sa.make_url(url)
        self._moment: Moment | None = None
        self._meanwhile: Callable[[], object] | None = None
        self._lock = threading.Lock()
        self.cuts = 0
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
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def cut_next(self, moment: Moment, meanwhile: Callable[[], object] | None = None) -> None:
        """Cut the connection of the next COMMIT.

        Args:
            meanwhile: Called when the fate of the transaction is settled and its client does not know it.
        """
        with self._lock:
            self._moment, self._meanwhile = moment, meanwhile

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._ends.append(client)
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        """Carry one connection, request by request: the client waits for each answer."""
        with client, contextlib.suppress(Gone, OSError):
            server = socket.create_connection((str(self._target.host), self._target.port or 5432))
            self._ends.append(server)
            with server:
                log_in(client, server)
                while self._exchange(client, server):
                    pass

    def _exchange(self, client: socket.socket, server: socket.socket) -> bool:
        """Carry a request and its answer; False when the cable was cut."""
        request = read_request(client)
        moment, meanwhile = self._take() if any(map(asks_to_commit, request)) else (None, None)
        if moment != "before":
            send(server, b"".join(request))
            answer = read_answer(server)
        if moment is not None:
            # The server notices an end it was not told of when it reads; then the transaction is undone.
            server.shutdown(socket.SHUT_RDWR)
            self.cuts += 1
            if meanwhile is not None:
                meanwhile()
            return False
        send(client, b"".join(answer))
        return True

    def _take(self) -> tuple[Moment | None, Callable[[], object] | None]:
        """Return what is to happen to a COMMIT; it happens to one."""
        with self._lock:
            taken = self._moment, self._meanwhile
            self._moment = self._meanwhile = None
            return taken
