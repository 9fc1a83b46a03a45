"""The README is true: its tables and commands are held against the code."""

import contextlib
import re
import shlex
from pathlib import Path

import pytest
import yaml

from prefect_media_jobs.blocks.domain.states import TRANSITIONS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE_BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def transitions_table() -> str:
    """Return the life cycle as the README must show it."""
    rows = ["| event | from | to | meaning |", "|---|---|---|---|"]
    for event, row in TRANSITIONS.items():
        sources = ["-"] if None in row.sources else []
        sources += [f"`{state}`" for state in sorted(state for state in row.sources if state is not None)]
        targets = [f"`{state}`" for state in sorted(row.targets)]
        rows.append(f"| {event} | {', '.join(sources)} | {', '.join(targets)} | {row.meaning} |")
    return "\n".join(rows)


def test_the_life_cycle_in_the_readme_is_that_of_the_code() -> None:
    """The README's table of transitions is made of the one table in the code."""
    shown = README.partition("<!-- transitions -->\n")[2].partition("\n<!-- /transitions -->")[0]
    assert transitions_table() == shown


def test_the_checks_end_with_the_readmes_test_command() -> None:
    """The last thing the check script runs is the test command that the README gives."""
    (command,) = [text.strip() for _, text in CODE_BLOCKS if "pytest" in text]
    assert command == (ROOT / ".ci" / "run").read_text(encoding="utf-8").strip().splitlines()[-1]


def commands() -> list[str]:
    """Return every ``media-jobs`` command line the README shows."""
    lines = [line.split("#")[0].strip() for _, text in CODE_BLOCKS for line in text.splitlines()]
    return sorted(
        {line.removeprefix("uv run ") for line in lines if "media-jobs " in line and ">" not in line}
    )


@pytest.mark.parametrize("command", commands())
def test_every_command_in_the_readme_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every ``media-jobs`` command that the README shows has a help page."""
    from prefect_media_jobs.deployments.cli import app  # noqa: PLC0415 - slow, and needed here alone

    words = shlex.split(command)
    assert words[0] == "media-jobs"
    with contextlib.suppress(SystemExit):
        app([words[1], "--help"])
    assert f"Usage: media-jobs {words[1]}" in capsys.readouterr().out


def test_the_deployments_in_the_readme_are_those_that_ship() -> None:
    """The README's table of deployments names exactly those of prefect.yaml."""
    shipped = yaml.safe_load((ROOT / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    section = README.partition("## Deploying")[2].partition("\n\n|")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert [deployment["name"] for deployment in shipped["deployments"]] == named


def test_the_end_states_in_the_readme_are_those_of_the_flows() -> None:
    """The README names every state a flow run can end in, and no other."""
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "flows").glob("*.py"))
    named_in_code = set(re.findall(r'name="([A-Z]\w+)"', sources)) | set(
        re.findall(r'^\s+\("([A-Z]\w+)", ', sources, re.MULTILINE)
    )
    section = README.partition("How a run ends")[2].partition("## Operating")[0]
    assert named_in_code | {"Completed"} == set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE))


def test_every_folder_in_the_readme_exists() -> None:
    """Where things live is where the README says they live."""
    section = README.partition("## Where things live")[2].partition("## Developing")[0]
    folders = re.findall(r"^(\w+)/ ", section, re.MULTILINE)
    assert folders == ["blocks", "flows", "deployments", "tests"]
    assert all((ROOT / folder).is_dir() for folder in folders)
