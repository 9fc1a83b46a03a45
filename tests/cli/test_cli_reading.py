"""Looking into a ledger: what ``status``, ``plan`` and ``history`` show, and that looking changes nothing."""

import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
LONG = "a" * 150
READING = (("status",), ("plan",), ("history", "submitted-attempt-1"))


def test_status_counts_by_state(run: Run, filled: str) -> None:
    """The counts by state, what waits for a person, and where the ledger is."""
    data = run("status", "--url", filled, "--json").data
    assert datetime.fromisoformat(data.pop("oldest_open")).utcoffset() == datetime.now(UTC).utcoffset()
    assert data == {
        "ledger": filled.removeprefix("sqlite:///"),
        "batch": None,
        "total": 4,
        "attempts": {"recorded": 1, "uncertain": 1, "rejected": 1, "submitted": 1},
        "handoffs": {},
        "waiting_for_a_person": 1,
        "twins": 0,
    }


def test_status_of_one_batch(run: Run, filled: str) -> None:
    """A batch is counted alone."""
    assert run("status", "--url", filled, "--batch", "spring", "--json").data["total"] == 3
    assert run("status", "--url", filled, "--batch", "autumn", "--json").data["total"] == 0


def test_status_for_people(run: Run, filled: str) -> None:
    """A person reads the same in words."""
    shown = run("status", "--url", filled)
    assert shown.code == 0
    assert "4 attempts, 1 waiting for a person" in shown.out
    assert "oldest open: asked for at 20" in shown.out


def test_plan_tells_the_next_step(run: Run, filled: str) -> None:
    """Each open attempt has one next step, and why."""
    actions = run("plan", "--url", filled, "--json").data["actions"]
    assert {each["attempt_id"]: (each["action"], each["job_id"]) for each in actions} == {
        "submitted-attempt-1": ("lookup", "job-1"),
        "uncertain-attempt-1": ("reconcile", None),
        "rejected-attempt-1": ("review", None),
        LONG: ("submit", None),
    }


def test_plan_can_be_cut(run: Run, filled: str) -> None:
    """A limit shows the first steps alone."""
    assert len(run("plan", "--url", filled, "--json", "--limit", "2").data["actions"]) == 2


def test_history_tells_every_event(run: Run, filled: str) -> None:
    """An attempt's history begins with the intent and names each state it came to."""
    events = run("history", "submitted-attempt-1", "--url", filled, "--json").data["events"]
    assert [(each["event"], each["to_state"]) for each in events] == [
        ("begin", "sending"),
        ("acknowledge", "submitted"),
    ]
    assert all(each["at"].endswith("Z") for each in events)


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("command", READING)
def test_no_secret_of_a_source_is_shown(
    run: Run, filled: str, command: tuple[str, ...], form: tuple[str, ...]
) -> None:
    """The source is shown without user, password and query."""
    shown = run(*command, "--url", filled, *form)
    assert shown.code == 0
    assert "canary" not in shown.out + shown.err
    assert ("https://media.example.org/raw/42.mov" in shown.out) == (command[0] == "history")


def test_a_pipe_gets_ids_in_one_piece(run: Run, filled: str) -> None:
    """Where no terminal looks, long ids stay on one line."""
    assert LONG in run("plan", "--url", filled).out


def test_a_narrow_terminal_folds_and_cuts_nothing(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In thirty columns a table is ugly, but whole."""
    monkeypatch.setenv("COLUMNS", "30")
    shown = run("plan", "--url", filled)
    assert shown.code == 0
    assert shown.out.count("a") >= len(LONG)
    assert "…" not in shown.out


def test_a_plain_terminal_shows_what_it_can(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that knows ASCII alone does not end the command."""
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as plain:
        monkeypatch.setattr(sys, "stdout", plain)
        assert run("history", "uncertain-attempt-1", "--url", filled).code == 0
        assert b"Stra?e" in plain.buffer.getvalue()


def test_the_environment_names_the_ledger(run: Run, filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the URL in the environment no option is needed, and Prefect is not asked."""
    monkeypatch.setenv("MEDIA_JOBS_LEDGER_URL", filled)
    assert run("status", "--json").data["total"] == 4


@pytest.mark.parametrize("command", READING)
def test_looking_creates_no_ledger(
    run: Run, command: tuple[str, ...], empty_url: str, tmp_path: Path
) -> None:
    """Where there is no ledger, that is said, with the place, and nothing is created."""
    shown = run(*command, "--url", empty_url)
    assert (shown.code, shown.out) == (2, "")
    assert shown.err.startswith(f"There is no ledger at {tmp_path / 'ledger.db'}; run 'media-jobs upgrade'")
    assert list(tmp_path.iterdir()) == []


def test_upgrade_creates_the_ledger_for_its_owner_alone(run: Run, empty_url: str, tmp_path: Path) -> None:
    """The one command that may create a ledger makes it readable by nobody else, and can be repeated."""
    first, second = run("upgrade", "--url", empty_url), run("upgrade", "--url", empty_url)
    assert (first.code, second.code) == (0, 0)
    assert "was empty and has schema" in first.out
    assert "is up to date" in second.out
    assert (tmp_path / "ledger.db").stat().st_mode & 0o777 == 0o600
