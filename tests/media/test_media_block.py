"""The block itself: its fields, its check, and that it is easy to carry around."""

import copy
import pickle
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from prefect_media_jobs.blocks.errors import ApiKeyRefusedError, ApiUnreachableError
from prefect_media_jobs.blocks.media import MediaApi, TornadoApi

KEY = "sk_live_0123456789abcdef"


def test_the_block_is_what_a_prefect_user_expects() -> None:
    """Type, slug, description, links and every field are described for the user interface."""
    assert TornadoApi.get_block_type_name() == "Tornado API"
    assert TornadoApi.get_block_type_slug() == "tornado-api"
    assert TornadoApi.get_description()
    assert TornadoApi._documentation_url
    assert TornadoApi._logo_url
    assert 'TornadoApi.load("media-api")' in TornadoApi.get_code_example()
    for name, field in TornadoApi.model_fields.items():
        assert (field.description or "").endswith("."), name
    assert issubclass(TornadoApi, MediaApi)


def test_an_abstract_api_cannot_be_made() -> None:
    """A block that cannot submit is not a media API."""
    with pytest.raises(TypeError):
        MediaApi()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://api.example/", "https://api.example"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_a_base_url_is_kept_without_its_last_slash(given: str, kept: str) -> None:
    """The path below the base URL is added by the block."""
    assert TornadoApi(api_key=SecretStr(KEY), base_url=given).base_url == kept


@pytest.mark.parametrize(
    "base_url",
    [
        "",
        "api.example",
        "ftp://api.example",
        "file:///x",
        "https://",
        "https://user:pw@api.example",
        "https://api.example/?a=b",
        "https://api.example/#a",
        "https://api.example/a b",
        "https://api.example:99999",
        "https://api.example\n",
    ],
)
def test_a_base_url_that_cannot_be_one_is_refused(base_url: str) -> None:
    """Only a plain web address is taken, without user, query or fragment."""
    with pytest.raises(ValidationError):
        TornadoApi(api_key=SecretStr(KEY), base_url=base_url)


@pytest.mark.parametrize("key", ["", "two words", f"{KEY}\n", f"{KEY}é"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str) -> None:
    """A key with a blank or a line end is a paste error, told without repeating the key."""
    with pytest.raises(ValidationError) as refused:
        TornadoApi(api_key=SecretStr(key))
    assert not key or key not in str(refused.value)


@pytest.mark.parametrize(
    "name", ["connect_timeout_s", "submit_timeout_s", "lookup_timeout_s", "max_in_flight"]
)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_time_outs_and_width_are_positive(name: str, value: float) -> None:
    """A time-out that never ends, or a width of nothing, is refused."""
    with pytest.raises(ValidationError):
        TornadoApi.model_validate({"api_key": KEY, name: value})


def test_the_send_window_covers_all_time_outs(make_api: Any) -> None:
    """The ledger's send deadline lies behind the longest submission."""
    api = make_api(connect_timeout_s=5, submit_timeout_s=100, send_margin_s=30, max_in_flight=7)
    assert api.send_window_s == 135
    assert api.width == 7


def test_a_block_can_be_copied_and_pickled_after_use(api: Any, server: Any, reply: Any) -> None:
    """A used block travels without its connections, and makes new ones."""
    server.will(reply(200, {"status": "Pending"}))
    api.look_up("j-1")
    for other in (pickle.loads(pickle.dumps(api)), copy.deepcopy(api)):
        assert other._clients._sets == {}
        assert other.look_up("j-1").status == "Pending"
        other.close()


def test_a_closed_block_can_be_used_again(api: Any, server: Any, reply: Any) -> None:
    """Closing gives connections back; the next question makes new ones."""
    server.will(reply(200, {"status": "Pending"}))
    for _ in range(2):
        assert api.look_up("j-1").status == "Pending"
        api.close()
    api.close()


@pytest.mark.parametrize("body", [{"jobs": [], "total": 0}, {"jobs": [{"id": "x"}]}, []])
def test_the_check_is_one_cheap_question(api: Any, server: Any, reply: Any, body: object) -> None:
    """Before anything is bought, one entry of the job list is asked for."""
    server.will(reply(200, body))
    api.check()
    (request,) = server.requests
    assert (request.method, request.target) == ("GET", "/jobs?limit=1")


@pytest.mark.parametrize("status", [401, 403])
def test_the_check_tells_a_refused_key(api: Any, server: Any, reply: Any, status: int) -> None:
    """A refused key is told with the host and what to do."""
    server.will(reply(status, {"error": "Invalid API Key"}))
    with pytest.raises(ApiKeyRefusedError, match=rf"127\.0\.0\.1:\d+ .*{status}: Invalid API Key.*api_key"):
        api.check()


def test_the_check_tells_an_api_that_is_not_there(
    api: Any, server: Any, reply: Any, html: Any, raw_reply: Any
) -> None:
    """Whatever does not answer like the API is unreachable, and the base URL is to be checked."""
    for answer in (
        html(200),
        html(403),
        reply(200, {"hello": 1}),
        reply(200, b""),
        reply(200, None),
        reply(404, {"error": "x"}),
        reply(301, location="/x"),
        reply(500, {"error": "x"}),
        reply(503, b""),
        raw_reply(b"", "close"),
    ):
        server.will(answer)
        with pytest.raises(ApiUnreachableError, match=r"127\.0\.0\.1:.*base_url"):
            api.check()
