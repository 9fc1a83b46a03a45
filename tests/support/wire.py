"""A cable between a client and a server that can be cut, so that connections are refused, and mended."""

import contextlib
import socket
import threading
from typing import Self


class Wire:
    """Forwards connections to a server on this machine.

    Args:
        port: Port of the server.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._left: int | None = None
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def cut(self, after: int = 0) -> None:
        """Refuse connections, after so many more of them."""
        self._left = after
        if after == 0:
            self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()

    def mend(self) -> None:
        """Take connections again, at the same address."""
        self._left = None
        self._listener = self._listen(self.port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with listener, contextlib.suppress(OSError):
            while self._left != 0:
                near, _ = listener.accept()
                if self._left is not None:
                    self._left -= 1
                if self._left == 0:
                    # Nobody learns anything over this connection before the next one is refused.
                    listener.close()
                far = socket.create_connection(("127.0.0.1", self._target))
                threading.Thread(target=_forward, args=[near, far], daemon=True).start()


def _forward(near: socket.socket, far: socket.socket) -> None:
    """Carry bytes both ways until both sides have ended."""
    with near, far:
        back = threading.Thread(target=_carry, args=[far, near], daemon=True)
        back.start()
        _carry(near, far)
        back.join()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
