"""What a newcomer does first: submit, recover, hand over, or all of it in one flow."""

from tests.support.team import RECEIVE, Team, artifacts_of


def test_submit_media_buys_each_item_once(team: Team) -> None:
    """submit-media sends one POST an item, and the ledger has every job id when it ends."""
    state = team.submit("episode-1", "episode-2")
    assert (state.name, state.message) == ("Completed", "2 submitted.")
    assert sorted(team.jobs()) == sorted(str(attempt.job_id) for attempt in team.attempts())
    assert team.posts() == 2


def test_recover_media_collects_what_was_bought(team: Team) -> None:
    """recover-media asks about the jobs, looks at their files and calls them delivered."""
    team.submit("episode-1", "episode-2")
    team.sweep_until("delivered", "delivered")
    assert {attempt.size_bytes for attempt in team.attempts()} == {team.source.stat().st_size}


def test_hand_off_media_gives_each_result_to_its_consumer_once(team: Team) -> None:
    """hand-off-media calls the consumer once for each result, however often it runs."""
    team.submit("episode-1", "episode-2")
    team.sweep_until("delivered", "delivered")
    assert team.hand_over().name == "Completed"
    assert team.hand_over().name == "Completed"
    assert [attempt.item_key for attempt in team.attempts()] == sorted(item for _, item in team.received())


def test_process_media_does_all_of_it(team: Team) -> None:
    """process-media submits, follows the jobs to their end and hands the results over."""
    state = team.process("episode-1", "episode-2", consumer=RECEIVE, follow_for_s=30)
    assert (state.name, state.message) == ("Completed", "2 delivered.")
    assert len(team.received()) == 2


def test_running_a_flow_again_buys_nothing(team: Team) -> None:
    """Every further run with the same items attaches to what exists and says so (C07, C100)."""
    team.submit("episode-1", "episode-2")
    for _ in range(4):
        state = team.submit("episode-1", "episode-2")
    assert state.name == "Completed"
    assert "2 of them existed before, so nothing was bought for them now." in str(state.message)
    assert team.posts() == 2


def test_processing_again_neither_buys_nor_hands_over_again(team: Team) -> None:
    """process-media run again after its end leaves the API and the consumer alone."""
    for _ in range(2):
        state = team.process("episode-1", consumer=RECEIVE, follow_for_s=30)
    assert state.name == "Completed"
    assert (team.posts(), len(team.received())) == (1, 1)


def test_one_new_item_among_known_ones_is_the_only_one_bought(team: Team) -> None:
    """A longer list buys what is new in it, and nothing else."""
    team.submit("episode-1")
    state = team.submit("episode-1", "episode-2")
    assert state.message == "2 submitted. 1 of them existed before, so nothing was bought for them now."
    assert team.posts() == 2


def test_an_edition_buys_the_same_again_on_purpose(team: Team) -> None:
    """The same request with another edition is another request, and is bought."""
    team.submit(team.request())
    team.submit(team.request(edition="director's cut"))
    assert team.states() == ["submitted", "submitted"]
    assert team.posts() == 2


def test_a_run_leaves_a_progress_bar_and_a_table(team: Team) -> None:
    """After a submission the Prefect UI shows how far it came and how each item stands."""
    artifacts = artifacts_of(team.submit("episode-1"))
    assert {("media-submission-progress", "progress"), ("media-submission", "table")} == {
        (artifact.key, artifact.type) for artifact in artifacts
    }
    (table,) = [artifact for artifact in artifacts if artifact.type == "table"]
    assert str(team.attempt().job_id) in str(table.data)


def test_each_batch_is_reported_by_itself(team: Team) -> None:
    """A batch key groups attempts, for the summary and for a sweep over them alone."""
    team.submit("episode-1", batch_key="monday")
    team.submit("episode-2", batch_key="tuesday")
    team.sweep(batch_key="monday")
    assert team.ledger.summary("monday").total == 1
    assert [1, 0] == [attempt.lookups for attempt in team.attempts()]
