"""Where the ledger is, and that its password is never shown."""

import traceback
from pathlib import Path

import pytest
from prefect.settings import PREFECT_HOME, temporary_settings
from pydantic import SecretStr, ValidationError

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.errors import InvalidInputError, LedgerUnavailableError
from prefect_media_jobs.blocks.ledger.locating import parse_url

POSTGRES = "postgresql://ledger:canary@localhost:1/ledger?application_name=canary"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("sqlite:////data/ledger.db", "sqlite:////data/ledger.db"),
        ("sqlite+pysqlite:////data/ledger.db", "sqlite+pysqlite:////data/ledger.db"),
        ("postgresql+psycopg://u:***@h/d", "postgresql://u:p@h/d"),
        ("postgresql+psycopg://u:***@h/d", "postgres://u:p@h/d"),
        ("postgresql+psycopg://u:***@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgresql+psycopg://u:***@h:6432/d?sslmode=require", "postgresql://u:p@h:6432/d?sslmode=require"),
    ],
)
def test_a_usable_url_is_read(expected: str, text: str) -> None:
    """SQLite files and PostgreSQL servers are taken, with the driver this package uses."""
    assert expected == str(parse_url(text))


BAD = [
    "",
    "ledger.db",
    "canary",
    "sqlite://",
    "sqlite:///",
    "sqlite:///:memory:",
    "sqlite:////data/canary.db?mode=memory&uri=true",
    "mysql://u:canary@h/d",
    "https://u:canary@h/d",
    "sqlite+aiosqlite:////data/canary.db",
    "postgresql+asyncpg://u:canary@h/d",
    "postgresql+psycopg2://u:canary@h/d",
    "postgresql://u:canary@h:port/d",
    "postgresql://u:canary@[::1/d",
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_url_is_bad_input(text: str) -> None:
    """What is not the URL of a usable database is refused in one sentence that shows none of it."""
    with pytest.raises(InvalidInputError) as caught:
        parse_url(text)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("text", BAD)
def test_a_block_with_a_bad_url_shows_none_of_it(text: str) -> None:
    """The message about a block's wrong URL does not hold the URL, and so no password."""
    with pytest.raises(ValidationError) as caught:
        AttemptLedger(url=text)
    assert "canary" not in str(caught.value)
    assert "canary" not in "".join(traceback.format_exception(caught.value))


def test_the_message_about_a_bad_url_says_what_to_give() -> None:
    """Who gives the URL of another database is told which ones can be used."""
    with pytest.raises(ValidationError, match=r"use sqlite or postgresql\+psycopg"):
        AttemptLedger(url=SecretStr("mysql://u:p@h/d"))


def test_the_password_is_never_shown() -> None:
    """Neither the block, nor its place, nor its fields as text show the password or the options."""
    ledger = AttemptLedger(url=SecretStr(POSTGRES))
    for shown in (
        repr(ledger),
        str(ledger),
        ledger.place,
        str(ledger.model_dump()),
        ledger.model_dump_json(),
    ):
        assert "canary" not in shown
    assert ledger.place == "postgresql+psycopg://ledger:***@localhost:1/ledger"
    assert ledger.url.get_secret_value() == POSTGRES.replace("postgresql", "postgresql+psycopg", 1)


def test_a_server_that_cannot_be_used_is_told_without_password() -> None:
    """A PostgreSQL server that cannot be reached, or a driver that is not there, is told without secrets."""
    ledger = AttemptLedger(url=SecretStr(POSTGRES))
    with pytest.raises(LedgerUnavailableError) as caught:
        ledger.check()
    assert "canary" not in "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The place is fixed when the block is made, whatever folder the process goes to later."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    ledger = AttemptLedger(url=SecretStr("sqlite:///sub/ledger.db"))
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.check()
    ledger.close()
    assert ledger.place == str(tmp_path / "sub" / "ledger.db")
    assert Path(ledger.place).exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_the_home_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tilde in the path stands for the home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert AttemptLedger(url=SecretStr("sqlite:///~/ledger.db")).place == str(tmp_path / "ledger.db")


@pytest.mark.parametrize("name", ["plain", "with space", "with%20percent", "what?", "#1", "日本", "a+b@c:d"])
def test_the_default_is_a_file_under_prefects_home(tmp_path: Path, name: str) -> None:
    """Without a URL the ledger is in Prefect's own folder; one whose name a URL cannot hold is refused."""
    with temporary_settings({PREFECT_HOME: tmp_path / name}):
        try:
            ledger = AttemptLedger()
        except InvalidInputError:
            # Only the older versions of SQLAlchemy that are supported have no spelling for this one.
            pytest.skip("this version of SQLAlchemy has no URL for such a path")
    ledger.check()
    ledger.close()
    assert ledger.place == str(tmp_path / name / "media-ledger.db")
