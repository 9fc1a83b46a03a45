"""The first thing a request meets: it is counted, and spoilt where there is an order to do so."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from starlette.types import ASGIApp, Receive, Scope, Send

from prefect_media_jobs.deployments.sandbox.answers import (
    HTML_PAGE,
    Answer,
    carry_out,
    html_answer,
    json_answer,
    text_answer,
    xml_answer,
)
from prefect_media_jobs.deployments.sandbox.app import SPOILT
from prefect_media_jobs.deployments.sandbox.bill import RequestKind
from prefect_media_jobs.deployments.sandbox.connections import OpenConnections
from prefect_media_jobs.deployments.sandbox.incoming import Incoming, read_incoming
from prefect_media_jobs.deployments.sandbox.misbehaviour import SPOILING_KINDS, Misbehaviour
from prefect_media_jobs.deployments.sandbox.misbehaviour import MisbehaviourKind as Kind
from prefect_media_jobs.deployments.sandbox.sandbox import Sandbox
from prefect_media_jobs.deployments.sandbox.signing import StorageRefusal
from prefect_media_jobs.deployments.sandbox.store import JobStatus


class Front:
    """ASGI application around the API."""

    def __init__(self, app: ASGIApp, sandbox: Sandbox, connections: OpenConnections) -> None:
        self._app = app
        self._sandbox = sandbox
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take one request."""
        incoming = await read_incoming(scope, receive, self._sandbox)
        if incoming is None:
            return
        if incoming.kind is RequestKind.CONTROL:
            await self._app(scope, incoming.receive(receive), send)
            return
        self._sandbox.book.received(
            incoming.kind,
            idempotency_key=incoming.header("x-idempotency-key"),
            api_key=incoming.header("x-api-key") is not None,
        )
        order = self._sandbox.desk.take(incoming.kind, incoming.job_id, incoming.source)
        if order is None:
            await self._app(scope, incoming.receive(receive), send)
        elif order.kind in SPOILING_KINDS:
            await self._app({**scope, SPOILT: order.kind}, incoming.receive(receive), send)
        else:
            await self._misbehave(order, incoming, receive, send)

    async def _misbehave(self, order: Misbehaviour, incoming: Incoming, receive: Receive, send: Send) -> None:
        """Answer without carrying out, or carry out and spoil the answer."""
        if order.kind is Kind.ACCEPT_LATE:
            await self._wait(order)
        elif answer := _answer_instead(order):
            if order.accept:
                await carry_out(self._app, incoming, receive)
            await answer.send(send)
            return
        answer = await carry_out(self._app, incoming, receive)
        if order.kind in {Kind.LATE_ANSWER, Kind.HOLD_ANSWER}:
            await self._wait(order)
        if cut := self._cuts(order.kind):
            if order.kind is not Kind.DROP_ANSWER:
                await answer.send_half(send)
            cut(incoming.scope)
            await _gone(receive)
        elif order.kind is Kind.HUGE_BODY:
            await answer.send_huge(send, order.size_bytes)
        else:
            await self._spoil(order, answer).send(send)

    async def _wait(self, order: Misbehaviour) -> None:
        # wait() leaves the gate alone when the time is over; wait_for() would cancel it for everybody.
        await asyncio.wait({asyncio.wrap_future(self._sandbox.desk.gate)}, timeout=order.seconds)

    def _cuts(self, kind: Kind) -> Callable[[Scope], None] | None:
        if kind is Kind.RESET:
            return self._connections.reset
        return self._connections.close if kind in {Kind.DROP_ANSWER, Kind.CUT_SHORT} else None

    def _spoil(self, order: Misbehaviour, answer: Answer) -> Answer:
        """Return the answer as it is to be sent."""
        spoilt = answer
        match order.kind:
            case Kind.ERROR_AFTER_ACCEPT:
                spoilt = _ordered(order, 500, {"error": "Internal server error"})
            case Kind.NO_ID:
                spoilt = _ordered(order, 200, {"message": "accepted"})
            case Kind.TRUNCATED_BODY:
                spoilt = replace(answer, body=answer.body[: len(answer.body) // 2])
            case Kind.EMPTY_BODY:
                spoilt = replace(answer, body=b"")
            case Kind.UNKNOWN_STATUS if "status" in answer.data:
                spoilt = answer.with_data(
                    {**answer.data, "status": order.word or "Archiving", "s3_url": None}
                )
            case Kind.NO_LINK if answer.data.get("status") == JobStatus.COMPLETED:
                spoilt = answer.with_data({**answer.data, "s3_url": None})
            case Kind.NO_LINK | Kind.UNKNOWN_STATUS:
                self._sandbox.desk.give_back(order)
            case Kind.UNLISTED:
                spoilt = _without(answer, order)
        return spoilt


def _answer_instead(order: Misbehaviour) -> Answer | None:
    """Return what is sent in place of the real answer, None for orders that need the real one."""
    match order.kind:
        case Kind.REFUSE:
            return _ordered(order, 400, {"error": "Refused by the sandbox"})
        case Kind.NOT_FOUND:
            return _ordered(order, 404, {"error": "Job not found"})
        case Kind.HTML:
            return _ordered(order.model_copy(update={"html": True}), 502, None)
        case Kind.STORAGE_ERROR:
            refusal = StorageRefusal(order.status or 403, order.code, "Told to by the sandbox")
            return xml_answer(refusal.status, refusal.xml)
        case _:
            return None


def _ordered(order: Misbehaviour, status: int, data: object) -> Answer:
    """Return the answer that an order describes, with defaults for what it leaves open."""
    status = order.status or status
    headers = {} if order.retry_after is None else {"retry-after": str(order.retry_after)}
    if order.html:
        return html_answer(status, order.body if isinstance(order.body, str) else HTML_PAGE, headers)
    if isinstance(order.body, str):
        return text_answer(status, order.body, headers)
    return json_answer(status, order.body if order.has_body else data, headers)


def _without(answer: Answer, order: Misbehaviour) -> Answer:
    """Return a list without the jobs that the order means."""
    rows = answer.data.get("jobs")
    kept = [
        row
        for row in (rows if isinstance(rows, list) else [])
        if order.job_id not in {None, row["id"]} or order.source not in {None, row["url"]}
    ]
    return answer.with_data({**answer.data, "jobs": kept})


async def _gone(receive: Receive) -> None:
    """Wait until the server knows that the connection is closed, so that it does not answer by itself."""
    while (await receive())["type"] != "http.disconnect":
        pass
