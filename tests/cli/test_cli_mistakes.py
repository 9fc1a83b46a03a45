"""Every mistake is one sentence on the error stream and exit code 2; nothing else is printed."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from prefect_media_jobs.blocks.errors import LedgerError

Run = Callable[..., Any]


def sentence(shown: Any) -> str:
    """Return the one sentence of a refused command."""
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.count("\n") == 1
    assert shown.err.endswith((".\n", "?\n"))
    return str(shown.err)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["stauts"], "stauts"),
        (["status", "--bach", "x"], "--bach"),
        (["status", "extra"], "extra"),
        (["history"], "ATTEMPT"),
        (["plan", "--limit", "0"], "--limit"),
        (["plan", "--limit", "many"], "--limit"),
        (["plan", "--url"], "--url"),
        (["sandbox", "--port", "70000"], "--port"),
        (["sandbox", "--link-lifetime-s", "0"], "--link-lifetime-s"),
        (["sandbox", "--host", "0.0.0.0"], "0.0.0.0"),
        (["sandbox", "--api-key", ""], "API key"),
        (["sandbox", "--allow-folder", "/no/such/folder"], "/no/such/folder"),
        (["demo", "--source", "/no/such/film.mp4"], "/no/such/film.mp4"),
    ],
)
def test_a_bad_word_is_named(run: Run, words: list[str], told: str) -> None:
    """Whatever is wrong on the command line is named."""
    assert told in sentence(run(*words))


def test_an_unknown_attempt(run: Run, filled: str) -> None:
    """An attempt that does not exist is named."""
    assert sentence(run("history", "nope", "--url", filled)) == "The ledger has no attempt 'nope'.\n"


def test_a_file_that_is_no_database(run: Run, tmp_path: Path) -> None:
    """A file of another kind is left as it is."""
    file = tmp_path / "notes.txt"
    file.write_text("not a database, but long enough to be looked at as one\n" * 40)
    before = file.read_bytes()
    assert "is not a database" in sentence(run("status", "--url", f"sqlite:///{file}"))
    assert file.read_bytes() == before


def test_the_database_of_something_else(run: Run, tmp_path: Path) -> None:
    """Looking into a database that holds no ledger makes none in it."""
    file = tmp_path / "other.db"
    with closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE theirs (id)")
        other.commit()
        before = file.read_bytes()
        assert f"{file} holds no ledger" in sentence(run("plan", "--url", f"sqlite:///{file}"))
        assert file.read_bytes() == before


def test_a_folder_in_place_of_a_file(run: Run, tmp_path: Path) -> None:
    """A folder is no ledger."""
    assert str(tmp_path) in sentence(run("status", "--url", f"sqlite:///{tmp_path}"))


def test_a_place_that_cannot_be_written(run: Run, tmp_path: Path) -> None:
    """A ledger that cannot be created is named with its place."""
    file = tmp_path / "a-file"
    file.touch()
    told = sentence(run("upgrade", "--url", f"sqlite:///{file}/ledger.db"))
    assert f"{file}/ledger.db cannot be opened for writing" in told


@pytest.mark.parametrize("url", ["nonsense", "mysql://u:canary@host/db", "sqlite://", "sqlite:///:memory:"])
def test_a_url_that_cannot_be_a_ledger(run: Run, url: str) -> None:
    """A URL of something else is refused without repeating its password."""
    assert "canary" not in sentence(run("status", "--url", url))


def test_a_ledger_named_twice(run: Run, filled: str) -> None:
    """A name and a URL together are refused, because they may mean two ledgers."""
    assert "not by both" in sentence(run("status", "--url", filled, "--ledger", "media-ledger"))


def test_a_name_no_block_can_have(run: Run) -> None:
    """A name that Prefect would not take is refused before Prefect is asked."""
    assert "small letters" in sentence(run("status", "--ledger", "../Secrets"))


@pytest.mark.parametrize("command", [("status",), ("bootstrap", "--url", "sqlite:////no/such")])
def test_prefect_does_not_answer(run: Run, command: tuple[str, ...]) -> None:
    """A server that is not there is named, without the password of its URL."""
    with temporary_settings({PREFECT_API_URL: "http://user:canary@127.0.0.1:9/api"}):
        told = sentence(run(*command))
    assert told == ("Prefect at http://127.0.0.1:9/api does not answer; start it, or set PREFECT_API_URL.\n")


def raising(error: BaseException) -> Callable[..., None]:
    """Return a function that raises."""

    def function(*_: object, **__: object) -> None:
        raise error

    return function


SHOW_PLAN = "prefect_media_jobs.deployments.cli_show.plan"


def test_something_unforeseen_names_its_type(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error nobody thought of is one sentence too, without secrets, with exit code 1."""
    monkeypatch.setattr(SHOW_PLAN, raising(KeyError("api_key=canary0123456789")))
    shown = run("plan", "--url", filled)
    assert (shown.code, shown.out, shown.err.count("\n")) == (1, "", 1)
    assert "KeyError" in shown.err
    assert "--debug" in shown.err
    assert "canary" not in shown.err


@pytest.mark.parametrize("how", ["option", "environment"])
def test_where_it_came_from_is_shown_on_request(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Only who asks for it gets a traceback."""
    monkeypatch.setattr(SHOW_PLAN, raising(KeyError("x")))
    if how == "environment":
        monkeypatch.setenv("MEDIA_JOBS_DEBUG", "1")
    shown = run("plan", "--url", filled, *(["--debug"] if how == "option" else []))
    assert shown.code == 1
    assert "Traceback" in shown.err


def test_an_error_of_ours_never_has_a_traceback(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence of ours is enough, in debugging as well, and stays on one line."""
    monkeypatch.setattr(SHOW_PLAN, raising(LedgerError("It is\nas it is.")))
    assert sentence(run("--debug", "plan", "--url", filled)) == "It is as it is.\n"


def test_ctrl_c_says_nothing(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who interrupts a command knows it; scripts see 130."""
    monkeypatch.setattr(SHOW_PLAN, raising(KeyboardInterrupt()))
    shown = run("plan", "--url", filled)
    assert (shown.code, shown.out, shown.err) == (130, "", "")


def test_the_demo_gets_its_words(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo gets every source, and its exit code is the command's."""
    films = [tmp_path / "one.mp4", tmp_path / "two.mp4"]
    for film in films:
        film.touch()
    seen: list[object] = []

    def run_demo(sources: list[Path], *, keep: bool) -> int:
        seen.extend([sources, keep])
        return 1

    monkeypatch.setattr("prefect_media_jobs.deployments.demo.run_demo", run_demo)
    assert run("demo", "--source", str(films[0]), str(films[1]), "--keep").code == 1
    assert seen == [films, True]
