"""What of a text from outside may be stored and shown."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_media_jobs.blocks.domain.redaction import clean, redact, shown_source

CANARY = "Canary0123456789"


@pytest.mark.parametrize(
    "text",
    [
        f"key sk_{CANARY} is not known",
        f"sk_live_{CANARY}",
        f"whsec_{CANARY}",
        f"x-api-key: {CANARY}",
        f"X-API-Key:{CANARY}",
        f"X_API_KEY={CANARY}",
        f"api_key={CANARY}&page=2",
        f"apikey={CANARY}",
        f'{{"api_key": "{CANARY}"}}',
        f'{{"apiKey":"{CANARY}"}}',
        f"{{'api-key': '{CANARY}'}}",
        f'{{\\"api_key\\": \\"{CANARY}\\"}}',
        f"Authorization: Bearer {CANARY}",
        f"authorization=bearer {CANARY}",
        f"Bearer  {CANARY}",
        f"Authorization: Basic {CANARY}==",
        f'{{"Authorization": "Basic {CANARY}"}}',
        f"access_token={CANARY}",
        f"accessToken={CANARY}",
        f"refresh_token: {CANARY}",
        f"password={CANARY};Database=x",
        f"passwd={CANARY}",
        f"client_secret = {CANARY}",
        f"secret_key={CANARY}",
        f'"secret_access_key": "{CANARY}"',
        f'"access_key":"{CANARY}"',
        f"account_key={CANARY}",
        f"sas_token={CANARY}",
        f"private-key: {CANARY}",
        f"X-Amz-Signature={CANARY}",
        f"X-Amz-Credential={CANARY}/20260701/eu/s3",
        f"X-Goog-Signature={CANARY}",
        f"Signature={CANARY}&Key-Pair-Id=K",
        f"sv=2024&sig={CANARY}&se=1",
        f"GET https://bucket.example.org/42.mp4?X-Amz-Signature={CANARY} failed",
        f"see https://bucket.example.org/42.mp4#{CANARY}",
        f"<a href='https://bucket.example.org/42.mp4?sig={CANARY}'>",
        f"https://user:{CANARY}@media.example.org/42.mp4",
        f"https://{CANARY}@media.example.org/42.mp4",
        f"postgresql+psycopg://ledger:{CANARY}@db.example.org/ledger cannot be reached",
        f"rtmp://user:{CANARY}@live.example.org/stream",
        f"https://user:{CANARY}@media.example.org:port/42.mp4",
    ],
)
def test_no_spelling_of_a_secret_is_shown(text: str) -> None:
    """Keys, tokens, signatures and passwords are masked in headers, JSON, query strings and links."""
    assert CANARY not in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "HTTP 422: format is not known",
        "The source https://media.example.org/raw/42.mov is private",
        "signature of the video is broken",
        "5 tokens used, 3 keys left",
        "design: modern",
        "job j-1 took 12 s",
        "日本のビデオ",
    ],
)
def test_what_is_no_secret_stays_readable(text: str) -> None:
    """A reason a person needs is not masked."""
    assert text == redact(text)


def test_the_name_of_what_was_masked_is_kept() -> None:
    """A masked text still tells which key it was, and what stood around it."""
    expected = "the x-api-key: [hidden] is not known, ask https://docs.example.org/keys"
    assert expected == redact(
        f"the x-api-key: {CANARY} is not known, ask https://docs.example.org/keys?ref={CANARY}"
    )


def test_several_secrets_of_one_text_are_masked() -> None:
    """One masked secret does not let the next through."""
    text = redact(f"api_key={CANARY}1&token={CANARY}2 https://h.example.org/?{CANARY}3 Bearer {CANARY}4")
    assert CANARY not in text


def test_a_cut_does_not_reveal_a_link() -> None:
    """A signed link at the very place where the text is cut is not shown half."""
    for before in range(470, 510):
        shown = redact(f"{'a' * before} https://h.example.org/f?X-Amz-Signature={CANARY}")
        assert CANARY not in shown
        assert "Signature" not in shown


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "a\x1bb", "a\x7fb"])
def test_what_a_database_chokes_on_is_replaced(text: str) -> None:
    """NUL, other control characters and lone surrogates never reach a database or a terminal."""
    expected = "a\ufffdb"
    assert expected == redact(text) == clean(text)
    assert clean(text).encode().decode() == expected


def test_lines_stay_lines() -> None:
    """Tabs and line ends are no harm and are kept."""
    text = "one\ttwo\nthree\r\n"
    assert text == clean(text)


@pytest.mark.parametrize(
    ("expected", "text", "limit"), [("abc", "abc", 3), ("ab…", "abcd", 3), ("", "", 3), ("日…", "日本語", 2)]
)
def test_a_text_is_cut_visibly(expected: str, text: str, limit: int) -> None:
    """A text beyond the limit is cut to it and ends with an ellipsis."""
    assert expected == clean(text, limit)


@pytest.mark.parametrize(
    "unit",
    [
        "x",
        "1",
        "a-",
        "a1_",
        "api_key",
        "token=",
        "https://",
        "bearer ",
        "Basic ",
        "sk_",
        " ",
        '"',
        "\x00",
        "日",
    ],
)
def test_a_huge_body_is_bounded_and_fast(unit: str) -> None:
    """Two megabytes of anything are cut to the limit in a moment."""
    text = unit * (2_000_000 // len(unit))
    began = time.perf_counter()
    shown = redact(text, 2000)
    assert time.perf_counter() - began < 0.5
    assert len(shown) <= 2000


@given(st.text(alphabet=st.characters(codec=None), max_size=300), st.integers(1, 50))
def test_any_text_can_be_shown(text: str, limit: int) -> None:
    """No text at all breaks the redaction, and what it returns can be stored and is bounded."""
    shown = redact(text, limit)
    assert len(shown) <= limit
    assert "\x00" not in shown
    assert shown == shown.encode().decode()


@pytest.mark.parametrize(
    ("expected", "source"),
    [
        ("https://media.example.org/raw/42.mov", "https://media.example.org/raw/42.mov"),
        ("https://media.example.org/42.mov", f"https://user:{CANARY}@media.example.org/42.mov"),
        ("https://media.example.org/42.mov", f"https://{CANARY}@media.example.org/42.mov"),
        ("https://media.example.org/42.mov", f"https://media.example.org/42.mov?token={CANARY}"),
        ("https://media.example.org/42.mov", f"https://media.example.org/42.mov#{CANARY}"),
        ("https://media.example.org/42.mov", f"https://media.example.org/42.mov#{CANARY}?{CANARY}"),
        ("https://media.example.org:8443/x", f"https://media.example.org:8443/x?{CANARY}"),
        ("http://[2001:db8::1]/x", f"http://user:{CANARY}@[2001:db8::1]/x"),
        ("http://[::1]:8080/x", f"http://[::1]:8080/x?{CANARY}"),
        ("//media.example.org/x", f"//user:{CANARY}@media.example.org/x?{CANARY}"),
        ("s3://bucket/raw/42.mov", f"s3://bucket/raw/42.mov?versionId={CANARY}"),
        ("file:///data/42.mov", "file:///data/42.mov"),
        ("/data/raw/42 final.mov", "/data/raw/42 final.mov"),
        ("C:\\raw\\42.mov", "C:\\raw\\42.mov"),
        ("raw/42.mov", f"raw/42.mov?{CANARY}"),
        ("spotify:show:4rOoJ6Egrf8K2IrywzwOMk", "spotify:show:4rOoJ6Egrf8K2IrywzwOMk"),
        ("media.example.org/42.mov", f"user:{CANARY}@media.example.org/42.mov"),
        ("https:/media.example.org/42.mov", f"https:/user:{CANARY}@media.example.org/42.mov"),
        ("[hidden]", f"https://media.example.org:{CANARY}/42.mov"),
        ("[hidden]", f"https://media.example.org:99999/42.mov?{CANARY}"),
        ("[hidden]", f"http://[::1/42.mov?{CANARY}"),
        ("", ""),
    ],
)
def test_a_source_is_shown_without_its_secrets(expected: str, source: str) -> None:
    """A source is shown as an address: without user part, query and fragment, or not at all if unreadable."""
    assert expected == shown_source(source)


@given(st.text(alphabet=st.characters(codec=None), max_size=60))
def test_any_source_can_be_shown(text: str) -> None:
    """No source breaks the showing, and what stands after its question mark is never shown."""
    shown = shown_source(f"https://media.example.org/x?{CANARY}{text}")
    assert CANARY not in shown
    assert len(shown_source(text).encode()) <= 4 * 500
