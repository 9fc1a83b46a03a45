"""What the shipped ``prefect.yaml`` makes of a server, and that ``serve.py`` makes the same."""

from typing import Any

import pytest

from prefect_media_jobs.deployments import serve
from tests.deployments.private_prefect import PrivatePrefect, deploy_all

Deployed = dict[str, dict[str, Any]]
NAMES = {"submit-media", "recover-media", "hand-off-media", "process-media"}
CRASH = {"env": {"PREFECT_FLOW_RUN_EXECUTE_SIGTERM_BEHAVIOR": "crash"}}
SAME = (
    "entrypoint",
    "description",
    "tags",
    "parameters",
    "enforce_parameter_schema",
    "concurrency_options",
)
ELSEWHERE = [{"prefect.deployments.steps.set_working_directory": {"directory": "/"}}]


def test_the_four_flows_are_deployed(deployed: Deployed) -> None:
    """One command, run anywhere, deploys every flow a team needs day by day."""
    assert set(deployed) == NAMES


def test_code_comes_from_the_installed_package(deployed: Deployed) -> None:
    """A worker needs the package and no folder of the machine that deployed."""
    assert {each["entrypoint"] for each in deployed.values()} == {
        "prefect_media_jobs.flows.submission.submit_media",
        "prefect_media_jobs.flows.recovery.recover_media",
        "prefect_media_jobs.flows.handoff.hand_off_media",
        "prefect_media_jobs.flows.processing.process_media",
    }
    assert [each["pull_steps"] for each in deployed.values()] == [ELSEWHERE] * 4


def test_only_the_sweep_is_scheduled(deployed: Deployed) -> None:
    """The sweep comes every five minutes; nothing else runs by itself."""
    (schedule,) = deployed["recover-media"]["schedules"]
    assert (schedule["schedule"]["cron"], schedule["slug"], schedule["active"]) == (
        "*/5 * * * *",
        "every-5-minutes",
        True,
    )
    assert not any(deployed[name]["schedules"] for name in NAMES - {"recover-media"})


def test_sweeps_do_not_pile_up(deployed: Deployed) -> None:
    """A sweep that comes while another runs is cancelled, not queued."""
    sweep = deployed["recover-media"]
    assert sweep["global_concurrency_limit"]["limit"] == 1
    assert sweep["concurrency_options"] == {"collision_strategy": "CANCEL_NEW", "grace_period_seconds": 120}


def test_nothing_that_buys_on_demand_has_a_limit(deployed: Deployed) -> None:
    """A lost lease stops a run at any moment, so there is no lease around a purchase."""
    limits = [deployed[name]["global_concurrency_limit"] for name in NAMES - {"recover-media"}]
    assert limits == [None] * 3


def test_a_stopped_worker_starts_nothing_again(deployed: Deployed) -> None:
    """Workers that reschedule by default are told not to."""
    assert [each["job_variables"] for each in deployed.values()] == [CRASH] * 4


def test_wrong_parameters_are_refused_by_the_server(deployed: Deployed) -> None:
    """Every deployment has a description, tags, and checks its parameters."""
    assert all(each["enforce_parameter_schema"] for each in deployed.values())
    assert all("media" in each["tags"] and each["description"] for each in deployed.values())


def test_deploying_again_changes_nothing(server: PrivatePrefect, deployed: Deployed) -> None:
    """The schedule of a second deployment is the first one's, so that no sweep comes twice."""
    again = deploy_all(server)
    assert {name: each["id"] for name, each in again.items()} == {
        name: each["id"] for name, each in deployed.items()
    }
    assert [each["id"] for each in again["recover-media"]["schedules"]] == [
        each["id"] for each in deployed["recover-media"]["schedules"]
    ]


@pytest.mark.parametrize("name", sorted(NAMES))
def test_serving_and_deploying_are_the_same(name: str, deployed: Deployed) -> None:
    """Whoever starts with ``serve.py`` meets the same deployments as with workers."""
    served = {each.name: each for each in serve.deployments()}[name].model_dump(mode="json")
    told = deployed[name]
    assert {key: served[key] for key in SAME} == {key: told[key] for key in SAME}
    assert [_when(each) for each in served["schedules"] or ()] == [_when(each) for each in told["schedules"]]
    assert served["concurrency_limit"] == (told["global_concurrency_limit"] or {"limit": None})["limit"]


def _when(schedule: dict[str, Any]) -> tuple[object, ...]:
    return (
        schedule["schedule"]["cron"],
        schedule["schedule"]["timezone"],
        schedule["slug"],
        schedule["active"],
    )
