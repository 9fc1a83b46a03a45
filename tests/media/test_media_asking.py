"""Questions that fail on the way, and when to ask again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from prefect_media_jobs.blocks.domain.outcomes import CouldNotAsk, Succeeded


@pytest.mark.parametrize("then", ["close", "reset", "hang"])
@pytest.mark.parametrize(
    "raw", [b"", b"HTTP/1.1 2", b"?\r\n\r\n", b"HTTP/1.1 404 X\r\nContent-Length: 9\r\n\r\nn"]
)
def test_a_broken_answer_is_no_answer(
    make_api: Any, server: Any, raw_reply: Any, raw: bytes, then: str
) -> None:
    """A connection that breaks or stays silent says nothing about the job."""
    server.will(raw_reply(raw, then))
    api = make_api(lookup_timeout_s=0.2, connect_timeout_s=0.1)
    assert isinstance(api.look_up("j-1"), CouldNotAsk)


def test_an_endless_answer_is_cut_off(make_api: Any, server: Any, reply: Any, raw_reply: Any) -> None:
    """An answer that is too large or never ends is given up, and the next question works (C46)."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    server.will(
        raw_reply(head, endless=b"1000\r\n" + b" " * 4096 + b"\r\n"),
        raw_reply(head + b"1\r\n{\r\n", "hang"),
        reply(200, {"status": "Completed"}),
    )
    api = make_api(max_body_bytes=50_000, lookup_timeout_s=0.3, connect_timeout_s=0.1)
    assert isinstance(api.look_up("j-1"), CouldNotAsk)
    assert isinstance(api.look_up("j-1"), CouldNotAsk)
    assert isinstance(api.look_up("j-1"), Succeeded)


def test_a_name_that_does_not_resolve_is_no_answer(make_api: Any) -> None:
    """While names do not resolve nothing is known (C45)."""
    outcome = make_api(base_url="https://media.invalid").look_up("j-1")
    assert isinstance(outcome, CouldNotAsk)
    assert outcome.reason.startswith("media.invalid did not answer")


def test_a_proxy_setting_that_cannot_be_used_is_no_answer(
    make_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unusable proxy settings are told, not raised."""
    monkeypatch.setenv("ALL_PROXY", "gopher://proxy.example")
    assert isinstance(make_api().look_up("j-1"), CouldNotAsk)


def test_questions_share_a_connection(look_up: Any, server: Any, reply: Any) -> None:
    """Looking up many jobs does not open a connection for each."""
    for _ in range(3):
        look_up(reply(200, {"status": "Pending"}))
    assert server.connections == 1
    assert len(server.requests) == 3


def test_cookies_are_not_kept(look_up: Any, server: Any, reply: Any) -> None:
    """No question depends on what an earlier answer set."""
    look_up(reply(200, {"status": "Pending"}, set_cookie="a=b"))
    look_up(reply(200, {"status": "Pending"}))
    assert "cookie" not in server.requests[1].headers


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("0", 0.0),
        ("7", 7.0),
        ("2.5", 2.5),
        ("nan", None),
        ("inf", None),
        ("-5", None),
        ("1e999", None),
        ("soon", None),
        ("", None),
        ("999999", 3600.0),
        (format_datetime(datetime(2026, 10, 21, 7, 28, tzinfo=UTC), usegmt=True), 60.0),
        ("Wed, 21 Oct 2026 07:28:00 -0000", 60.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 21 Oct 2099 07:28:00 GMT", 3600.0),
        ("Wed, 99 Oct 2026 07:28:00 GMT", None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_read_with_care(
    look_up: Any, reply: Any, status: int, header: str | None, expected: float | None
) -> None:
    """Seconds and dates, by the API's own clock, are bounded; nonsense is as if absent (C32)."""
    told = {} if header is None else {"retry_after": header}
    outcome = look_up(reply(status, {"error": "busy"}, date="Wed, 21 Oct 2026 07:27:00 GMT", **told))
    assert isinstance(outcome, CouldNotAsk)
    assert outcome.retry_after_s == expected


def test_retry_after_works_without_the_apis_clock(look_up: Any, reply: Any) -> None:
    """Where the API tells no time, our own is used."""
    at = datetime.now(UTC) + timedelta(seconds=100)
    outcome = look_up(
        reply(503, {"error": "busy"}, retry_after=format_datetime(at, usegmt=True), date="noon")
    )
    assert 90 < outcome.retry_after_s <= 100
