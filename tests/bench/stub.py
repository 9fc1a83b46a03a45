"""A media API that answers at once, for measuring: POST /jobs, GET /jobs/{id}, GET /jobs."""

import asyncio
import itertools
import json
import sys

_NUMBERS = itertools.count(1)


def _body(head: bytes) -> bytes:
    method, path, _ = head.split(b" ", 2)
    if method == b"POST":
        return json.dumps({"job_id": f"job-{next(_NUMBERS)}"}).encode()
    job_id = path.rpartition(b"/")[2].decode()
    if job_id.startswith("jobs"):
        return b'{"jobs": [], "total": 0, "limit": 100, "offset": 0}'
    return json.dumps({"id": job_id, "status": "Processing", "step": "Muxing"}).encode()


class Stub(asyncio.Protocol):
    """One connection: answers each request and keeps the connection unless told otherwise."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while b"\r\n\r\n" in self.received:
            head, _, rest = self.received.partition(b"\r\n\r\n")
            lowered = head.lower()
            length = 0
            if b"content-length:" in lowered:
                length = int(lowered.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            if len(rest) < length:
                return
            self.received = rest[length:]
            body = _body(head)
            close = b"connection: close" in lowered
            self.transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: "
                + str(len(body)).encode()
                + (b"\r\nConnection: close" if close else b"")
                + b"\r\n\r\n"
                + body
            )
            if close:
                self.transport.close()


async def serve() -> None:
    """Serve on a free port, told on standard output, until standard input ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Stub, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve())
