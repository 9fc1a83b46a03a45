"""``media-jobs bootstrap`` against a real Prefect server: what it saves, keeps and never shows."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.errors import InvalidInputError
from prefect_media_jobs.deployments.bootstrap import bootstrap, saved_block
from prefect_media_jobs.deployments.cli import main
from tests.deployments.private_prefect import PrivatePrefect

pytestmark = pytest.mark.usefixtures("talking")
KEY, NEW_KEY = "sk_canary0first0key", "sk_canary0second0key"


@pytest.fixture
def talking(server: PrivatePrefect, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivatePrefect]:
    """Let this process talk to the private server, with nothing else set."""
    for name in ("MEDIA_JOBS_LEDGER_URL", "MEDIA_JOBS_API_URL", "MEDIA_JOBS_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    with temporary_settings({PREFECT_API_URL: server.url}):
        yield server


def a_ledger(folder: Path) -> str:
    """Return the URL of a ledger in a folder."""
    return f"sqlite:///{folder / 'ledger.db'}"


def saved_api(name: str) -> TornadoApi:
    """Return a saved media API block, which must be there."""
    block = saved_block(TornadoApi, name)
    assert block is not None
    return block


def test_both_blocks_are_there_after_a_bootstrap(tmp_path: Path) -> None:
    """After one call the flows find both blocks by their usual names, and the ledger is ready."""
    done = bootstrap(ledger="first-ledger", api="first-api", ledger_url=a_ledger(tmp_path), api_key=KEY)
    assert (done.ledger.change, done.api.change) == ("created", "created")
    book = saved_block(AttemptLedger, "first-ledger")
    assert book is not None
    assert book.summary().total == 0
    book.close()
    assert saved_api("first-api").api_key == SecretStr(KEY)


def test_a_second_bootstrap_keeps_what_is_not_given(tmp_path: Path) -> None:
    """Running it again with nothing new changes nothing, least of all the key."""
    again = partial(bootstrap, ledger="twice-ledger", api="twice-api")
    again(ledger_url=a_ledger(tmp_path), api_url="http://127.0.0.1:1", api_key=KEY)
    done = again()
    assert (done.ledger.change, done.api.change) == ("unchanged", "unchanged")
    assert (done.ledger.place, done.api.place) == (str(tmp_path / "ledger.db"), "http://127.0.0.1:1")
    assert saved_api("twice-api").api_key == SecretStr(KEY)


def test_only_what_is_given_is_updated(tmp_path: Path) -> None:
    """A new address keeps the key, a new key keeps the address, and both keep what was set in the UI."""
    TornadoApi(base_url="http://127.0.0.1:1", api_key=SecretStr(KEY), max_in_flight=3).save("tuned-api")
    again = partial(bootstrap, ledger="tuned-ledger", api="tuned-api")
    again(ledger_url=a_ledger(tmp_path), api_url="http://127.0.0.1:2")
    moved = saved_api("tuned-api")
    assert (moved.base_url, moved.api_key, moved.max_in_flight) == ("http://127.0.0.1:2", SecretStr(KEY), 3)
    again(api_key=SecretStr(NEW_KEY))
    changed = saved_api("tuned-api")
    assert (changed.base_url, changed.api_key, changed.max_in_flight) == (
        "http://127.0.0.1:2",
        SecretStr(NEW_KEY),
        3,
    )


def test_no_key_and_nobody_to_ask_saves_nothing(tmp_path: Path) -> None:
    """Without a key neither block is saved and no ledger is made."""
    with pytest.raises(InvalidInputError, match="MEDIA_JOBS_API_KEY"):
        bootstrap(ledger="none-ledger", api="none-api", ledger_url=a_ledger(tmp_path))
    assert saved_block(AttemptLedger, "none-ledger") is None
    assert list(tmp_path.iterdir()) == []


def test_the_command_takes_the_environment_and_shows_no_secret(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command reads the three variables, says what it did, and not with which key."""
    monkeypatch.setenv("MEDIA_JOBS_LEDGER_URL", a_ledger(tmp_path))
    monkeypatch.setenv("MEDIA_JOBS_API_URL", "http://127.0.0.1:3")
    monkeypatch.setenv("MEDIA_JOBS_API_KEY", KEY)
    assert main(["bootstrap", "--ledger", "command-ledger", "--api", "command-api"]) == 0
    shown = capsys.readouterr()
    assert f"Block command-ledger is created: {tmp_path / 'ledger.db'}" in shown.out
    assert "Block command-api is created: http://127.0.0.1:3" in shown.out
    assert KEY not in shown.out + shown.err


def test_every_kind_of_block_is_known_to_the_server(talking: PrivatePrefect, tmp_path: Path) -> None:
    """The UI can offer all our blocks, also those nobody has saved yet."""
    bootstrap(ledger="kinds-ledger", api="kinds-api", ledger_url=a_ledger(tmp_path), api_key=KEY)
    kinds = {each["slug"] for each in talking.ask("POST", "block_types/filter", limit=200)}
    assert kinds >= {"media-attempt-ledger", "tornado-api", "media-callable-consumer"}


def test_an_unknown_block_name_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """A ledger block that does not exist is named, with what to do."""
    assert main(["status", "--ledger", "nobody-saved-this"]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == (
        "There is no AttemptLedger block named 'nobody-saved-this'; run 'media-jobs bootstrap', or name "
        "another with --ledger or --url.\n"
    )


def test_a_command_finds_the_ledger_by_its_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The name of a saved block is enough to look into the ledger."""
    bootstrap(ledger="named-ledger", api="named-api", ledger_url=a_ledger(tmp_path), api_key=KEY)
    assert main(["plan", "--ledger", "named-ledger"]) == 0
    assert capsys.readouterr().out == f"Ledger {tmp_path / 'ledger.db'}\nNothing is open.\n"
