"""Bad input and bad surroundings: one sentence, nothing sent, nothing recorded, everything readable."""

from collections.abc import Callable
from pathlib import Path

import pytest
from prefect.client.schemas.objects import State

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.errors import MediaJobsError
from prefect_media_jobs.blocks.request import OutputSettings
from prefect_media_jobs.flows import recover_media, reporting
from tests.support.team import Team


def _an_empty_list(team: Team) -> State:
    return team.submit()


def _one_item_with_two_settings(team: Team) -> State:
    return team.submit(team.request(), team.request(settings=OutputSettings(max_resolution="720")))


def _an_unknown_ledger_block(team: Team) -> State:
    return team.named(ledger="no-such-block").submit("episode-1")


def _an_unknown_api_block(team: Team) -> State:
    return team.named(api="no-such-block").submit("episode-1")


def _a_ledger_that_cannot_be_written(team: Team) -> State:
    folder = Path(team.path.parent, "a-file")
    folder.touch()
    AttemptLedger(url=f"sqlite:///{folder / 'ledger.db'}").save(f"{team.name}-unwritable")
    return team.named(ledger=f"{team.name}-unwritable").submit("episode-1")


def _a_ledger_file_that_is_no_database(team: Team) -> State:
    path = team.path.with_name("no-database")
    path.write_text("This is a letter, and no database at all. " * 100)
    AttemptLedger(url=f"sqlite:///{path}").save(f"{team.name}-letter")
    return team.named(ledger=f"{team.name}-letter").submit("episode-1")


def _a_wrong_api_key(team: Team) -> State:
    team.save_api(api_key="sk_0123456789abcdef0123456789abc")
    return team.submit("episode-1")


def _an_api_that_is_down(team: Team) -> State:
    team.save_api(base_url="http://127.0.0.1:9")
    return team.submit("episode-1")


def _an_api_whose_name_does_not_resolve(team: Team) -> State:
    team.save_api(base_url="http://no-such-host.invalid")
    return team.submit("episode-1")


def _something_else_than_the_api(team: Team) -> State:
    team.save_api(base_url=f"{team.sandbox.url}/docs")
    return team.submit("episode-1")


MISUSES = [
    (_an_empty_list, "The request list is empty"),
    (_one_item_with_two_settings, "asked for twice with different settings"),
    (_an_unknown_ledger_block, "no AttemptLedger block named 'no-such-block'"),
    (_an_unknown_api_block, "no TornadoApi block named 'no-such-block'"),
    (_a_ledger_that_cannot_be_written, "cannot be opened for writing"),
    (_a_ledger_file_that_is_no_database, "cannot be used"),
    (_a_wrong_api_key, "does not accept the API key"),
    (_an_api_that_is_down, "did not answer"),
    (_an_api_whose_name_does_not_resolve, "did not answer"),
    (_something_else_than_the_api, "media API"),
]


@pytest.mark.parametrize(("misuse", "words"), MISUSES, ids=[misuse.__name__[1:] for misuse, _ in MISUSES])
def test_a_misuse_is_one_sentence_and_changes_nothing(
    team: Team, misuse: Callable[[Team], State], words: str
) -> None:
    """What cannot work ends before anything is sent or recorded, and what was recorded stays readable."""
    team.submit("known")
    state = misuse(team)
    error = state.result(raise_on_failure=False)
    assert state.name == "Failed"
    assert isinstance(error, MediaJobsError), error
    assert words in str(error)
    assert "\n" not in str(error)
    assert str(error).endswith(".")
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    assert (team.states(), team.posts()) == (["submitted"], 1)


def test_a_request_that_the_contract_does_not_know_is_refused_by_its_form(team: Team) -> None:
    """A parameter that cannot be a request never starts the flow."""
    state = team.submit_raw([{"item_key": "episode-1", "source": "/film.mp4", "settings": {"format": "avi"}}])
    assert state.name == "Failed"
    assert not team.path.exists() or team.states() == []


@pytest.mark.parametrize(
    "name", ["create_table_artifact", "create_progress_artifact", "update_progress_artifact"]
)
def test_an_artifact_that_cannot_be_written_costs_nothing(
    team: Team, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A Prefect API that fails to show something has no effect on what is bought and recorded (C117)."""

    def away(*_args: object, **_fields: object) -> None:
        raise ConnectionError("the Prefect API is away")

    monkeypatch.setattr(reporting, name, away)
    assert team.submit("episode-1").name == "Completed"
    team.sweep_until("delivered")
    assert (team.states(), team.posts()) == (["delivered"], 1)


def test_an_emptied_ledger_is_not_bought_into_again(team: Team) -> None:
    """A ledger that has lost its memory is refused, because everything would be bought again (C87)."""
    team.submit("episode-1")
    team.ledger.close()
    for path in team.path.parent.glob("ledger.db*"):
        path.unlink()
    state = team.submit("episode-1")
    assert state.name == "Failed"
    assert "buy everything again" in str(state.message)
    assert (team.states(), team.posts()) == ([], 1)


def test_a_block_that_was_deleted_leaves_its_attempts_open(team: Team) -> None:
    """Attempts whose API block is gone wait for it, and go on by their ids once it is back (C120)."""
    team.submit("episode-1")
    TornadoApi.delete(team.name)
    assert "no TornadoApi block named" in str(team.sweep().message)
    assert team.states() == ["submitted"]
    team.save_api()
    team.sweep_until("delivered")
    assert team.posts() == 1


def test_a_sweep_over_an_empty_ledger_has_nothing_to_do(team: Team) -> None:
    """A sweep before the first purchase makes the ledger and ends well."""
    state = recover_media(team.name, team.name, return_state=True)
    assert (state.name, state.message) == ("Completed", "Swept: nothing.")
    assert team.path.stat().st_mode & 0o777 == 0o600
