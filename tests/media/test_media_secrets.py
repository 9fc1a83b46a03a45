"""No key, no signed link and no source query in anything that can be shown, stored or pickled."""

import logging
import pickle
import traceback
from typing import Any

import pytest

from prefect_media_jobs.blocks.errors import MediaApiError
from prefect_media_jobs.blocks.media.hiding import Hider

SECRETS = ("sk_live_0123456789abcdef", "s3cr3t-value", "pa55word", "feedface", "AKIASECRET")
LINK_QUERY = "X-Amz-Signature=feedface&X-Amz-Credential=AKIASECRET"


def clean(text: str) -> bool:
    """Tell whether a text is free of every secret."""
    return not any(secret in text for secret in SECRETS)


def echoes(source: str) -> list[bytes]:
    """Make bodies that repeat the key and the source in the ways servers do."""
    key = SECRETS[0]
    escaped = source.replace("/", "\\/").replace("&", "\\u0026")
    return [
        f'{{"error":"cannot read {source} with key {key}"}}'.encode(),
        f'{{"message":"{escaped}"}}'.encode(),
        f'{{"url":"{escaped}", "cut'.encode(),
        f"Bad source {source.replace('&', '&amp;')}".encode(),
        b"Bad query token=s3cr3t-value&sig=abcdefgh of user:pa55word",
        b"token s3cr3t-value is not known here",
        f"x-api-key: {key}".encode(),
        b"x" * 3990 + key.encode(),
        b" ".join([b"https://h/?" + b"y" * 390] * 10) + key.encode(),
    ]


@pytest.mark.parametrize("status", [200, 422, 500])
def test_no_submission_outcome_shows_a_secret(
    api: Any, make_attempt: Any, server: Any, reply: Any, status: int
) -> None:
    """Whatever an answer repeats, outcome texts hold neither key nor source query (C64)."""
    attempt = make_attempt()
    for body in echoes(attempt.source):
        server.will(reply(status, body, "text/plain"))
        outcome = api.submit(attempt, lambda: True)
        assert clean(repr(outcome) + outcome.reason), body
        assert clean(str(pickle.dumps(outcome)))


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
def test_no_lookup_outcome_shows_a_secret(api: Any, server: Any, reply: Any, status: int) -> None:
    """An API that repeats our key in its refusal does not put it into our ledger."""
    server.will(reply(status, {"error": f"key {SECRETS[0]} at https://h/x?{LINK_QUERY}"}))
    assert clean(repr(api.look_up("j-1")))


def test_a_failed_jobs_reason_shows_no_source(api: Any, make_attempt: Any, server: Any, reply: Any) -> None:
    """A job's error often repeats its source; the query is cut off."""
    source = make_attempt().source
    told = {"status": "Failed", "url": source, "error": f"404 for {source} (token s3cr3t-value)"}
    server.will(reply(200, told))
    outcome = api.look_up("j-1")
    assert clean(repr(outcome))
    assert "https://cdn.example/film.mp4" in outcome.reason


@pytest.mark.parametrize("status", [200, 302, 400, 403, 404, 500])
def test_no_inspection_outcome_shows_the_link(
    api: Any, server: Any, storage: Any, reply: Any, status: int
) -> None:
    """A storage that repeats the link in its error does not put it into our ledger (C62, C64)."""
    body = f"<Error><Code>X</Code><Message>/o?{LINK_QUERY} feedface</Message></Error>".encode()
    server.will(reply(200, {"status": "Completed", "s3_url": f"{storage.url}/o.mp4?{LINK_QUERY}"}))
    storage.will(reply(status, body, "application/xml", location=f"ftp://x/?{LINK_QUERY}"))
    assert clean(repr(api.open_result("j-1", None)))


def test_a_time_out_of_the_storage_shows_no_link(
    make_api: Any, server: Any, storage: Any, raw_reply: Any, reply: Any
) -> None:
    """A transfer that times out is told without the link (C64)."""
    server.will(reply(200, {"status": "Completed", "s3_url": f"{storage.url}/o.mp4?{LINK_QUERY}"}))
    storage.will(raw_reply(b"", "hang"))
    api = make_api(lookup_timeout_s=0.2)
    assert clean(repr(api.open_result("j-1", None)))


def test_no_exception_carries_a_secret(api: Any, server: Any, reply: Any) -> None:
    """What the check raises is free of secrets in text, traceback and pickle, and has no hidden cause."""
    for answer in (reply(401, {"error": SECRETS[0]}), reply(500, {"error": SECRETS[0]})):
        server.will(answer)
        with pytest.raises(MediaApiError) as raised:
            api.check()
        shown = "".join(traceback.format_exception(raised.value)) + str(pickle.dumps(raised.value))
        assert clean(shown)
        assert raised.value.__cause__ is None
        assert raised.value.__context__ is None
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_the_block_shows_no_key(api: Any) -> None:
    """Neither repr nor text of the block holds the key."""
    assert clean(repr(api) + str(api) + api.model_dump_json())


def test_the_http_librarys_log_shows_no_link(
    api: Any, server: Any, storage: Any, reply: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with all logging turned on, no address is logged with its query, and no key (C64)."""
    server.will(reply(200, {"status": "Completed", "s3_url": f"{storage.url}/o.mp4?{LINK_QUERY}"}))
    with caplog.at_level(logging.DEBUG):
        api.open_result("j-1", None)
    assert "/o.mp4" in caplog.text
    assert clean(caplog.text)


def test_a_hider_keeps_what_is_no_secret() -> None:
    """A text without secrets stays readable; a link keeps its host and path."""
    hide = Hider(["sk_live_0123456789abcdef"], ["https://u:p@h/film.mp4?a=1"])
    assert hide("cannot read\n https://u:p@h/film.mp4?a=1 now") == "cannot read https://h/film.mp4 now"
    assert hide("Folder name too long (max 200 characters)") == "Folder name too long (max 200 characters)"
