"""Just enough of PostgreSQL's wire protocol to see where a message ends and what it asks for.

Source: PostgreSQL documentation, "Message Formats".
"""

import socket
import struct

_ENCRYPTION_REQUESTS = {80877103, 80877104}
_NO_ANSWER_WANTED = {0, 12}
"""Kinds of authentication message after which the server goes on by itself."""


class Gone(Exception):  # noqa: N818 - nothing is wrong: the other side has ended the connection
    """The other side has ended the connection."""


def read_exactly(source: socket.socket, count: int) -> bytes:
    """Read so many bytes."""
    read = b""
    while len(read) < count:
        try:
            part = source.recv(count - len(read))
        except OSError:
            part = b""
        if not part:
            raise Gone
        read += part
    return read


def read_message(source: socket.socket) -> bytes:
    """Read one message: a byte that tells its kind, its length, its content."""
    head = read_exactly(source, 5)
    (length,) = struct.unpack("!i", head[1:])
    return head + read_exactly(source, length - 4)


def read_startup(client: socket.socket) -> bytes:
    """Read the message a connection begins with, refusing encryption before."""
    while True:
        head = read_exactly(client, 8)
        length, code = struct.unpack("!ii", head)
        if code not in _ENCRYPTION_REQUESTS:
            return head + read_exactly(client, length - 8)
        client.sendall(b"N")


def send(target: socket.socket, data: bytes) -> None:
    """Send bytes."""
    try:
        target.sendall(data)
    except OSError:
        raise Gone from None


def asks_to_commit(message: bytes) -> bool:
    """Tell whether a client's message is a COMMIT, as a simple query or as a statement to be parsed."""
    kind, content = message[:1], message[5:]
    if kind == b"P":
        _, _, content = content.partition(b"\0")
    return kind in {b"Q", b"P"} and content.split(b"\0")[0].strip(b" ;").upper() == b"COMMIT"


def read_request(client: socket.socket) -> list[bytes]:
    """Read what a client sends before it waits: up to a simple query, or a Sync."""
    messages = [read_message(client)]
    while messages[-1][:1] not in {b"Q", b"S", b"X"}:
        messages.append(read_message(client))
    return messages


def read_answer(server: socket.socket) -> list[bytes]:
    """Read what a server answers, up to the message that says it is ready for the next request."""
    messages = [read_message(server)]
    while messages[-1][:1] != b"Z":
        messages.append(read_message(server))
    return messages


def in_transaction(answer: list[bytes]) -> bool:
    """Tell whether the server is in a transaction after this answer."""
    return answer[-1][5:] != b"I"


def log_in(client: socket.socket, server: socket.socket) -> None:
    """Carry the beginning of a connection, passwords included, up to the server's being ready."""
    send(server, read_startup(client))
    while True:
        message = read_message(server)
        send(client, message)
        if message[:1] == b"Z":
            return
        if message[:1] == b"R" and struct.unpack("!i", message[5:9])[0] not in _NO_ANSWER_WANTED:
            send(server, read_message(client))
