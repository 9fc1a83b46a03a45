"""What people get when they install the wheel."""

from pathlib import Path

from tests.packaging.installed_wheel import CHECKOUT, FOLDERS, Installed, run

PACKAGE = "prefect_media_jobs"


def in_checkout(*patterns: str) -> set[str]:
    """Return files of the three folders under the names they have when installed."""
    return {
        f"{PACKAGE}/{file.relative_to(CHECKOUT).as_posix()}"
        for folder in FOLDERS
        for pattern in patterns
        for file in (CHECKOUT / folder).rglob(pattern)
    }


def test_every_module_comes_from_the_wheel(installed: Installed) -> None:
    """All modules can be imported, and none is taken from the checkout."""
    places = [Path(file) for file in installed.seen["modules"].values()]
    assert len(places) > 30
    assert all(place.is_relative_to(installed.site_packages) for place in places)


def test_every_package_of_the_folders_is_shipped(installed: Installed) -> None:
    """A package that nobody listed would be missing only for those who install."""
    packages = {Path(file).parent.as_posix().replace("/", ".") for file in in_checkout("__init__.py")}
    assert packages <= set(installed.seen["modules"])


def test_every_file_of_the_folders_is_shipped(installed: Installed) -> None:
    """Nothing that lies in the folders is left out: modules, migrations, deployments, markers of types."""
    expected = in_checkout("*.py", "*.yaml", "py.typed")
    assert {f"{PACKAGE}/{folder}/py.typed" for folder in FOLDERS} <= expected
    assert f"{PACKAGE}/deployments/prefect.yaml" in expected
    assert expected <= set(installed.seen["files"])


def test_nothing_else_is_installed(installed: Installed) -> None:
    """No top-level ``flows``, ``blocks`` or ``deployments`` gets in the way of a team's own folders."""
    (facts,) = installed.site_packages.glob(f"{PACKAGE}-*.dist-info")
    assert set(installed.seen["top_level"]) - {".."} == {PACKAGE, facts.name}


def test_importing_reaches_for_nothing(installed: Installed) -> None:
    """Importing all of it opens no database, no socket and no process, and leaves no file behind."""
    assert installed.seen["happened"] == []
    assert not installed.home.exists() or list(installed.home.rglob("*")) == []


def test_prefect_finds_the_blocks(installed: Installed) -> None:
    """The entry point that Prefect looks for leads to the blocks."""
    ((value, blocks),) = installed.seen["collections"]
    assert value == f"{PACKAGE}.blocks"
    assert {"AttemptLedger", "TornadoApi"} <= set(blocks)


def test_the_command_is_installed(installed: Installed, tmp_path: Path) -> None:
    """``media-jobs`` stands beside the interpreter and tells the version of the wheel."""
    (version,) = installed.seen["metadata"]["Version"]
    assert run(installed.bin / "media-jobs", "--version", folder=tmp_path) == f"{version}\n"


def test_the_facts_an_index_shows(installed: Installed) -> None:
    """License, Python versions and the needed Prefect are told in the metadata."""
    facts = installed.seen["metadata"]
    assert facts["Name"] == ["prefect-media-jobs"]
    assert facts["License-Expression"] == ["Apache-2.0"]
    assert facts["License-File"] == ["LICENSE"]
    assert facts["Requires-Python"] == [">=3.11"]
    assert any(each.startswith("prefect") and "<4" in each for each in facts["Requires-Dist"])
    assert facts["Description-Content-Type"] == ["text/markdown"]
