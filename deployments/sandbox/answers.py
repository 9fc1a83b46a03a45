"""An answer that is kept back, to be sent as it is, changed, or not at all."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Send

from prefect_media_jobs.deployments.sandbox.incoming import Incoming

HTML_PAGE = "<!DOCTYPE html><html><head><title>Gateway</title></head><body><h1>Bad gateway</h1></body></html>"
PIECE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole HTTP answer."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes

    @property
    def data(self) -> dict[str, object]:
        """The JSON object in the body; empty when there is none."""
        try:
            found: object = json.loads(self.body)
        except ValueError:
            return {}
        return cast("dict[str, object]", found) if isinstance(found, dict) else {}

    def with_data(self, data: object) -> "Answer":
        """Return the answer with another JSON body."""
        return replace(self, body=json.dumps(data).encode())

    def starting(self, length: int | None) -> Message:
        """Return the message that starts it, promising a length, or none."""
        headers = [header for header in self.headers if header[0].lower() != b"content-length"]
        if length is not None:
            headers.append((b"content-length", str(length).encode()))
        return {"type": "http.response.start", "status": self.status, "headers": headers}

    async def send(self, send: Send) -> None:
        """Send it whole."""
        await send(self.starting(len(self.body)))
        await send({"type": "http.response.body", "body": self.body})

    async def send_half(self, send: Send) -> None:
        """Promise the whole and send half."""
        await send(self.starting(len(self.body)))
        await send(
            {"type": "http.response.body", "body": self.body[: len(self.body) // 2], "more_body": True}
        )

    async def send_huge(self, send: Send, size_bytes: int) -> None:
        """Send its JSON object with padding, in pieces, without saying how long it is."""
        first = json.dumps({**self.data, "padding": ""}).encode()[:-2]
        await send(self.starting(None))
        await send({"type": "http.response.body", "body": first, "more_body": True})
        left = max(0, size_bytes - len(first) - 2)
        while left:
            piece = min(PIECE_BYTES, left)
            await send({"type": "http.response.body", "body": b"x" * piece, "more_body": True})
            left -= piece
        await send({"type": "http.response.body", "body": b'"}'})


def json_answer(status: int, data: object, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer in JSON."""
    return _answer(status, "application/json", json.dumps(data), headers)


def text_answer(status: int, text: str, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an answer in plain text."""
    return _answer(status, "text/plain; charset=utf-8", text, headers)


def html_answer(status: int, page: str = HTML_PAGE, headers: Mapping[str, str] | None = None) -> Answer:
    """Return an HTML page, as gateways and sign-in pages do."""
    return _answer(status, "text/html; charset=utf-8", page, headers)


def xml_answer(status: int, xml: str) -> Answer:
    """Return an answer in XML."""
    return _answer(status, "application/xml", xml, None)


async def carry_out(app: ASGIApp, incoming: Incoming, receive: Receive) -> Answer:
    """Have a request carried out and keep the answer."""
    messages: list[Message] = []

    async def keep(message: Message) -> None:
        messages.append(message)

    await app(incoming.scope, incoming.receive(receive), keep)
    start = messages[0]
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return Answer(start["status"], tuple((bytes(k), bytes(v)) for k, v in start["headers"]), body)


def _answer(status: int, content_type: str, text: str, headers: Mapping[str, str] | None) -> Answer:
    named = {"content-type": content_type, **(headers or {})}
    return Answer(
        status, tuple((name.encode(), value.encode()) for name, value in named.items()), text.encode()
    )
