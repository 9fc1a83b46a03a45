"""What is proof that nothing was sent, and that at most one request is."""

import itertools
import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.outcomes import Accepted, NotSent, Refused, Unknown
from prefect_media_jobs.blocks.media.sending import _Gate


def yes() -> bool:
    """Say that there is time left."""
    return True


def free_port() -> int:
    """Return a port nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def attempt(make_attempt: Callable[..., Attempt]) -> Attempt:
    """Make the usual attempt."""
    return make_attempt()


def test_a_refused_connection_is_proof(make_api: Any, attempt: Attempt) -> None:
    """Where nobody listens, nothing was sent (C14)."""
    outcome = make_api(base_url=f"http://127.0.0.1:{free_port()}").submit(attempt, yes)
    assert isinstance(outcome, NotSent)
    assert outcome.reason.startswith("Nothing was sent")


def test_a_name_that_does_not_resolve_is_proof(make_api: Any, attempt: Attempt) -> None:
    """Without an address nothing was sent (C45)."""
    assert isinstance(make_api(base_url="https://media.invalid").submit(attempt, yes), NotSent)


def test_failed_encryption_is_proof(make_api: Any, attempt: Attempt, server: Any) -> None:
    """Where TLS cannot be agreed on, no byte of the request left (C14)."""
    api = make_api(base_url=server.url.replace("http:", "https:"), connect_timeout_s=0.3)
    assert isinstance(api.submit(attempt, yes), NotSent)
    assert server.requests == []


def test_a_connect_time_out_is_proof(make_api: Any, attempt: Attempt) -> None:
    """A connection that does not come about in time carried nothing."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(3)]
        for client in waiting:
            client.setblocking(False)  # noqa: FBT003 (the library's signature)
            client.connect_ex(full.getsockname())
        api = make_api(base_url=f"http://127.0.0.1:{full.getsockname()[1]}", connect_timeout_s=0.2)
        outcome = api.submit(attempt, yes)
        for client in waiting:
            client.close()
    assert isinstance(outcome, NotSent)
    assert "Connect" in outcome.reason


def test_what_cannot_be_built_is_not_sent(make_api: Any, make_attempt: Any, server: Any) -> None:
    """A request that cannot even be put together was not sent."""
    assert isinstance(make_api().submit(make_attempt(settings={"clip": float("nan")}), yes), NotSent)
    assert isinstance(make_api().submit(make_attempt(attempt_id="é"), yes), NotSent)
    assert server.connections == 0


def test_after_the_send_deadline_no_byte_leaves(api: Any, attempt: Attempt, server: Any) -> None:
    """A sender that may no longer send closes the connection without writing to it."""
    outcome = api.submit(attempt, lambda: False)
    assert outcome == NotSent("Nothing was sent: the send deadline has passed.")
    server.settle(connections=1)
    assert (server.connections, server.bytes_seen) == (1, 0)


def test_the_deadline_is_looked_at_last(api: Any, attempt: Attempt, server: Any, reply: Any) -> None:
    """The sender asks whether it may once, when the connection stands and nothing is written yet."""
    server.will(reply(201, {"job_id": "j-1"}))
    seen: list[tuple[int, int]] = []

    def may_send() -> bool:
        seen.append((server.bytes_seen, len(api._clients.here().send._transport._pool.connections)))
        return True

    assert api.submit(attempt, may_send) == Accepted("j-1")
    assert seen == [(0, 1)]


def test_a_sender_that_is_stopped_while_asking_sends_nothing(api: Any, attempt: Attempt, server: Any) -> None:
    """If the deadline cannot be looked at, nothing is sent either."""

    def broken() -> bool:
        raise LookupError

    assert isinstance(api.submit(attempt, broken), NotSent)
    server.settle(connections=1)
    assert server.bytes_seen == 0


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_an_outcome(api: Any, attempt: Attempt, stop: type[BaseException]) -> None:
    """A sender that is being stopped stops; it does not report an outcome."""

    def interrupted() -> bool:
        raise stop

    with pytest.raises(stop):
        api.submit(attempt, interrupted)


@pytest.mark.parametrize(
    "broken",
    [
        *itertools.product(
            [b"", b"HTTP/1.1 200", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"],
            ["close", "reset", "hang"],
        )
    ],
)
def test_once_sent_no_failure_is_proof(
    make_api: Any, attempt: Attempt, server: Any, raw_reply: Any, broken: tuple[bytes, str]
) -> None:
    """After the request left, whatever goes wrong is unknown, and nothing is sent again (C01, C14, C24)."""
    server.will(raw_reply(*broken))
    outcome = make_api(connect_timeout_s=0.1, submit_timeout_s=0.2).submit(attempt, yes)
    assert isinstance(outcome, Unknown)
    assert (len(server.requests), server.connections) == (1, 1)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(api: Any, attempt: Attempt, server: Any, reply: Any, status: int) -> None:
    """A redirect of a submission would send it twice or lose its body, so it is unknown."""
    server.will(reply(status, location=f"{server.url}/elsewhere"), reply(201, {"job_id": "j-2"}))
    assert isinstance(api.submit(attempt, yes), Unknown)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_no_status_is_answered_with_a_second_request(
    api: Any, attempt: Attempt, server: Any, reply: Any, status: int
) -> None:
    """Neither a server's trouble nor an invitation to retry makes us send again (C08, C10, C26)."""
    server.will(reply(status, {"error": "x"}, retry_after="0"), reply(201, {"job_id": "j-2"}))
    assert isinstance(api.submit(attempt, yes), Refused if status == 429 else Unknown)
    assert len(server.requests) == 1


def test_every_submission_has_its_own_connection(api: Any, attempt: Attempt, server: Any, reply: Any) -> None:
    """No submission travels on a connection that was used, or closed by the other side, before (C25)."""
    server.will(reply(201, {"job_id": "j-1"}))
    for number in range(1, 4):
        assert api.submit(attempt, yes) == Accepted("j-1")
        assert server.connections == number
        server.drop_connections()
    assert {request.headers["connection"] for request in server.requests} == {"close"}


def test_many_threads_share_one_block(make_api: Any, make_attempt: Any, server: Any, reply: Any) -> None:
    """Submissions of many threads at once each leave once, on one set of clients."""
    server.will(reply(201, {"job_id": "j-1"}))
    api, start = make_api(), threading.Barrier(8)

    def one(number: int) -> Any:
        start.wait()
        return api.submit(make_attempt(attempt_id=f"a-{number}"), yes)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, range(8))) == [Accepted("j-1")] * 8
    sent = sorted(request.headers["x-idempotency-key"] for request in server.requests)
    assert sent == [f"a-{number}" for number in range(8)]
    assert list(api._clients._sets) == [os.getpid()]


def test_a_proxy_that_refuses_the_tunnel_is_proof(
    make_api: Any, attempt: Attempt, server: Any, html: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is sent to a proxy to ask for a tunnel is not the request, and has nothing of it."""
    monkeypatch.setenv("HTTPS_PROXY", server.url)
    server.will(html(502))
    assert isinstance(make_api(base_url="https://api.example").submit(attempt, yes), NotSent)
    (asked,) = server.requests
    assert (asked.method, asked.target) == ("CONNECT", "api.example:443")
    assert b"sk_live" not in asked.head


def test_a_proxy_that_says_nothing_is_no_proof(
    make_api: Any, attempt: Attempt, server: Any, raw_reply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a proxy breaks off, the outcome is unknown: only what is certain counts."""
    monkeypatch.setenv("HTTPS_PROXY", server.url)
    server.will(raw_reply(b"", "close"))
    assert isinstance(make_api(base_url="https://api.example").submit(attempt, yes), Unknown)


def test_a_proxy_that_took_the_request_may_have_passed_it_on(
    make_api: Any, attempt: Attempt, server: Any, html: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without encryption a proxy gets the request itself, so its own error page is unknown."""
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.will(html(502))
    assert isinstance(make_api(base_url="http://api.example").submit(attempt, yes), Unknown)
    assert [request.target for request in server.requests] == ["http://api.example/jobs"]


def test_a_proxy_setting_that_cannot_be_used_is_not_sent(
    make_api: Any, attempt: Attempt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxy settings that the client cannot use stop the request before it leaves."""
    monkeypatch.setenv("ALL_PROXY", "gopher://proxy.example")
    assert isinstance(make_api().submit(attempt, yes), NotSent)


def test_the_gate_fails_closed() -> None:
    """Only a request for a tunnel is known not to be the request; anything else counts as sent."""
    gate = _Gate(yes)
    gate("connection.connect_tcp.started", {})
    assert not gate.left
    gate("http11.send_request_headers.started", {"request": httpx.Request(b"CONNECT", "http://p")})
    gate("http11.send_request_headers.started", {})
    assert gate.left


def test_a_forked_process_makes_its_own_connections(
    api: Any, attempt: Attempt, server: Any, reply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clients of another process are not used: a fork would share its connections."""
    server.will(reply(201, {"job_id": "j-1"}))
    api.submit(attempt, yes)
    parents = api._clients.here()
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        assert api._clients.here() is not parents
        api.close()
    assert api._clients.here() is parents
