"""What can be asked for: the contract's limits, the fingerprint, and the name of an attempt."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from prefect_media_jobs.blocks.errors import InvalidInputError
from prefect_media_jobs.blocks.request import MediaRequest, OutputSettings, check_requests
from tests.support.attempts import a_request

VALID: list[dict[str, Any]] = [
    *({"format": name} for name in ("mp4", "mkv", "webm", "mov")),
    *({"format": name, "audio_only": True} for name in ("m4a", "mp3", "ogg", "opus")),
    *({"video_codec": name} for name in ("copy", "h264", "h265", "vp9")),
    *({"audio_codec": name} for name in ("copy", "aac", "opus", "mp3")),
    *({"audio_bitrate": name} for name in ("64k", "128k", "192k", "256k", "320k")),
    {"video_quality": 0},
    {"video_quality": 51},
    *({"quality_preset": name} for name in ("highest", "high", "medium", "low", "lowest")),
    *({"max_resolution": name} for name in ("best", "2160", "1440", "1080", "720", "480", "360")),
    {"filename": "x"},
    {"filename": "日本 42.final"},
    {"filename": "x" * 255},
    {"folder": "season 1/raw"},
    {"folder": "x" * 200},
    {"audio_only": True},
    {"audio_only": False, "format": "mp4"},
    {"clip_start": "90"},
    {"clip_start": "90.5", "clip_end": "91"},
    {"clip_start": "1:30", "clip_end": "00:01:31"},
    {"clip_end": "0.1"},
    {"clip_start": "59:59", "clip_end": "01:00:00.5"},
    {"max_duration": 1},
    {"download_subtitles": True, "download_thumbnail": True, "live_recording": True},
    {"live_from_start": True, "wait_for_video": True},
]

INVALID: list[dict[str, Any]] = [
    {"format": "avi"},
    {"format": "MP4"},
    {"format": "mp3"},
    {"format": "mp3", "audio_only": False},
    {"format": "mp4", "audio_only": True},
    {"video_codec": "av1"},
    {"audio_codec": "flac"},
    {"audio_bitrate": "192"},
    {"video_quality": -1},
    {"video_quality": 52},
    {"video_quality": "23"},
    {"video_quality": 23.0},
    {"video_quality": True},
    {"quality_preset": "best"},
    {"max_resolution": 1080},
    {"max_resolution": "4320"},
    {"filename": ""},
    {"filename": "  "},
    {"filename": "x" * 256},
    {"filename": "../x"},
    {"filename": "a..b"},
    {"filename": "a/b"},
    {"filename": "a\\b"},
    {"filename": "a\x00b"},
    {"filename": "a\nb"},
    {"filename": "a\ud800"},
    {"folder": ""},
    {"folder": " "},
    {"folder": "x" * 201},
    {"folder": "/raw"},
    {"folder": "\\raw"},
    {"folder": "a/../b"},
    {"clip_start": "1:60"},
    {"clip_start": "-1"},
    {"clip_start": "1h"},
    {"clip_start": "90\n"},
    {"clip_start": "60", "clip_end": "59"},
    {"clip_start": "1:00", "clip_end": "60"},
    {"clip_start": "00:01:00", "clip_end": "59:59:59:1"},
    {"clip_end": "0"},
    {"max_duration": 0},
    {"max_duration": -1},
    {"max_duration": "60"},
    {"wait_for_video": "perhaps"},
    {"url": "https://media.example.org/"},
    {"webhook_url": "https://hooks.example.org/"},
    {"storage": {"provider": "s3"}},
    {"vidoe_codec": "h264"},
]


@pytest.mark.parametrize("fields", VALID, ids=str)
def test_what_the_contract_takes_is_taken(fields: dict[str, Any]) -> None:
    """Every setting within the API's limits is kept under the API's names, and nothing is added."""
    assert fields == OutputSettings(**fields).contract()


@pytest.mark.parametrize("fields", INVALID, ids=ascii)
def test_what_the_contract_refuses_is_refused_here(fields: dict[str, Any]) -> None:
    """A setting the API would refuse, or that it does not have, is refused before anything is recorded."""
    with pytest.raises(ValidationError):
        OutputSettings(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"item_key": ""},
        {"item_key": " episode-42"},
        {"item_key": "episode\x0042"},
        {"item_key": "x" * 201},
        {"source": ""},
        {"source": "https://media.example.org/\n"},
        {"source": "https://media.example.org/" + "x" * 8000},
        {"attempt_id": ""},
        {"attempt_id": "a/b"},
        {"attempt_id": "-a"},
        {"attempt_id": "a..b"},
        {"attempt_id": "a b"},
        {"attempt_id": "a\n"},
        {"attempt_id": "ä"},
        {"attempt_id": "x" * 201},
        {"edition": ""},
        {"edition": "x" * 101},
        {"item": "episode-42"},
        {"api_key": "sk_x"},
    ],
    ids=ascii,
)
def test_a_request_that_cannot_be_recorded_is_refused(fields: dict[str, Any]) -> None:
    """Empty, endless, unprintable or unknown fields of a request are refused when it is made."""
    with pytest.raises(ValidationError):
        MediaRequest(**{"item_key": "episode-42", "source": "https://media.example.org/"} | fields)


def test_a_request_does_not_change() -> None:
    """A request is a frozen value, so its fingerprint holds."""
    request = a_request()
    with pytest.raises(ValidationError):
        request.source = "https://other.example.org/"  # type: ignore[misc]


PINNED = MediaRequest(
    item_key="episode-42",
    source="https://media.example.org/raw/42.mov?v=3",
    settings=OutputSettings(format="mp4", video_codec="h264", max_resolution="1080"),
    edition="second cut",
)


def test_the_fingerprint_is_stable() -> None:
    """The fingerprint of a request is the same in every process, version and year."""
    expected = "b109ba35ef2dd300a580250b59a42eca38fccc770c10b2776a32889299dd15b6"
    assert expected == PINNED.request_key


def test_the_order_and_the_spelling_of_defaults_do_not_matter() -> None:
    """Settings in another order, or left out instead of set to nothing, are the same request."""
    settings = OutputSettings(max_resolution="1080", video_codec="h264", format="mp4", filename=None)
    same = PINNED.model_copy(update={"settings": settings})
    assert same.request_key == PINNED.request_key


def test_the_name_of_the_attempt_is_no_part_of_the_request() -> None:
    """A chosen attempt id does not make another request of the same wish."""
    assert a_request(attempt_id="mine").request_key == a_request().request_key


@pytest.mark.parametrize(
    "change",
    [
        {"item_key": "episode-43"},
        {"source": "https://media.example.org/raw/42.mov?v=4"},
        {"settings": OutputSettings(format="mp4", video_codec="h264", max_resolution="720")},
        {"settings": OutputSettings()},
        {"edition": "third cut"},
        {"edition": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_is_asked_for_is_in_the_fingerprint(change: dict[str, Any]) -> None:
    """Another item, source, setting or edition is another request."""
    assert PINNED.model_copy(update=change).request_key != PINNED.request_key


BASE = "https://media.example.org/Raw/42.mov?Sig=a%2Fb"


@pytest.mark.parametrize(
    ("same", "first", "second"),
    [
        (True, BASE, "HTTPS://media.example.org/Raw/42.mov?Sig=a%2Fb"),
        (True, BASE, "https://Media.Example.ORG/Raw/42.mov?Sig=a%2Fb"),
        (True, BASE, "https://media.example.org:443/Raw/42.mov?Sig=a%2Fb"),
        (True, BASE, "https://media.example.org/Raw/42.mov?Sig=a%2fb"),
        (True, BASE, f"{BASE}#t=30"),
        (True, "http://h.example.org", "http://h.example.org:80/"),
        (True, "http://[2001:DB8::1]/x", "http://[2001:db8::1]:80/x"),
        (False, BASE, "https://media.example.org/raw/42.mov?Sig=a%2Fb"),
        (False, BASE, "https://media.example.org/Raw/42.mov?sig=a%2Fb"),
        (False, BASE, "https://media.example.org/Raw/42.mov?Sig=A%2Fb"),
        (False, BASE, "https://media.example.org/Raw/42.mov?Sig=a/b"),
        (False, BASE, "https://media.example.org/Raw/42.mov"),
        (False, BASE, "http://media.example.org/Raw/42.mov?Sig=a%2Fb"),
        (False, BASE, "https://media.example.org:80/Raw/42.mov?Sig=a%2Fb"),
        (False, BASE, "https://user@media.example.org/Raw/42.mov?Sig=a%2Fb"),
        (False, "https://User@h.example.org/", "https://user@h.example.org/"),
        (False, "https://h.example.org/x/", "https://h.example.org/x"),
        (False, "/data/A.mov", "/data/a.mov"),
        (False, "https://h.example.org:bad/x", "https://h.example.org:worse/x"),
    ],
)
def test_spellings_of_one_address_are_one_request(same: bool, first: str, second: str) -> None:  # noqa: FBT001
    """Case of scheme and host, default port, fragment and percent codes do not matter; all else does."""
    assert same == (a_request(source=first).request_key == a_request(source=second).request_key)


LEAKY = "https://user:canary@media.example.org/42.mov?token=canary#canary"


def test_a_request_is_shown_without_secrets() -> None:
    """The repr and the text of a request have lost the source's query, fragment and user part."""
    request = a_request(source=LEAKY)
    for shown in (repr(request), str(request), f"{[request]}"):
        assert "canary" not in shown
        assert "https://media.example.org/42.mov" in shown


@pytest.mark.parametrize(
    "fields",
    [
        {"source": f"{LEAKY}\x00"},
        {"source": LEAKY + "x" * 8000},
        {"source": [LEAKY]},
        {"edition": ""},
        {"settings": {"format": "avi"}},
        {"unknown": LEAKY},
    ],
    ids=["control", "long", "type", "edition", "settings", "unknown"],
)
def test_an_error_does_not_show_the_source(fields: dict[str, Any]) -> None:
    """A message about a wrong request never holds what was given for its source."""
    with pytest.raises(ValidationError) as caught:
        MediaRequest(**{"item_key": "episode-42", "source": LEAKY} | fields)
    assert "canary" not in str(caught.value)
    assert "canary" not in repr(caught.value)


ATTEMPT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@pytest.mark.parametrize(
    ("expected", "item_key"),
    [
        ("episode-42", "episode-42"),
        ("S01E02_final", "S01E02_final"),
        (r"shows-42-[0-9a-f]{8}", "shows/42"),
        (r"episode-42-[0-9a-f]{8}", "episode 42"),
        (r"[0-9a-f]{8}", "日本"),
        (r"a-b-[0-9a-f]{8}", "a..b"),
        (r"x-[0-9a-f]{8}", "_x"),
        (r"x-[0-9a-f]{8}", "-x"),
        (r"a-[0-9a-f]{8}", "_-_a"),
        (r"[0-9a-f]{8}", "___"),
        (r"etc-passwd-[0-9a-f]{8}", "../../etc/passwd"),
        (r"x{120}-[0-9a-f]{8}", "x" * 200),
    ],
)
def test_an_item_key_becomes_a_stem(expected: str, item_key: str) -> None:
    """A plain item key stands in the attempt id as it is; another is made fit, with a digest to tell it."""
    assert re.fullmatch(expected, a_request(item_key).id_stem)


item_keys = (
    st.text(alphabet="aZ9_-./ \\日é", min_size=1, max_size=30) | st.text(min_size=1, max_size=200)
).filter(lambda key: key == key.strip() and not re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", key))


@given(item_keys)
def test_any_item_key_gives_a_valid_attempt_id(item_key: str) -> None:
    """Whatever an item is called, the id made from it can stand in a header, a path and a file name."""
    attempt_id = f"{a_request(item_key).id_stem}-attempt-99999"
    assert ATTEMPT_ID.fullmatch(attempt_id)
    assert a_request(attempt_id=attempt_id).attempt_id == attempt_id


@given(st.sets(item_keys, min_size=2, max_size=20))
def test_distinct_items_have_distinct_stems(keys: set[str]) -> None:
    """Two items never share the stem of their attempt ids."""
    stems = {a_request(key).id_stem for key in keys}
    assert len(keys) == len(stems)


def test_an_empty_list_is_refused() -> None:
    """Asking for nothing is a mistake, not a success."""
    with pytest.raises(InvalidInputError, match="empty"):
        check_requests(iter(()))


def test_one_item_asked_for_in_two_ways_is_refused() -> None:
    """One item key with two different settings or sources contradicts itself."""
    other = a_request(settings=OutputSettings(format="mkv"))
    with pytest.raises(InvalidInputError, match="own item_key") as caught:
        check_requests([a_request(), other])
    assert "canary" not in str(caught.value)


def test_the_same_request_twice_is_one_wish() -> None:
    """A duplicate in the list is no contradiction, and neither is another edition."""
    requests = [a_request(), a_request(), a_request(edition="2", settings=OutputSettings(format="mkv"))]
    assert requests == check_requests(iter(requests))
