"""Break a connection as a crashing server or a bad network would."""

import asyncio
import socket
import struct

from starlette.types import Scope
from uvicorn.protocols.http.h11_impl import H11Protocol


class OpenConnections:
    """The server's connections by the client's address, which is all that an ASGI scope tells of one."""

    def __init__(self) -> None:
        self._transports: dict[tuple[str, int], asyncio.Transport] = {}

    def protocol(self) -> type[H11Protocol]:
        """Return uvicorn's protocol, made to enter its connections here."""
        known = self._transports

        class KnownProtocol(H11Protocol):
            def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
                super().connection_made(transport)
                if self.client is not None:
                    known[self.client] = transport

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                if self.client is not None:
                    known.pop(self.client, None)

        return KnownProtocol

    def close(self, scope: Scope) -> None:
        """Send what was written, then close: the client sees the end where it expects more."""
        if transport := self._transports.get(scope["client"]):
            transport.close()

    def reset(self, scope: Scope) -> None:
        """Close with a reset: the client sees the connection break."""
        if transport := self._transports.get(scope["client"]):
            # Lingering for zero seconds makes the system answer with RST instead of FIN.
            linger = struct.pack("ii", 1, 0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            transport.abort()
