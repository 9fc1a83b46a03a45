"""The one Prefect server that flow tests share, and how many crash points were covered."""

import re
from collections.abc import Iterator

import pytest

IDLE_SERVICES = (
    "CANCELLATION_CLEANUP",
    "EVENT_PERSISTER",
    "FOREMAN",
    "LATE_RUNS",
    "PAUSE_EXPIRATIONS",
    "SCHEDULER",
    "TASK_RUN_RECORDER",
    "TRIGGERS",
)
"""Parts of the Prefect server that flow runs do not need; without them it is half as slow."""


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Run a Prefect server on a temporary database; once a session, as it takes half a minute to start."""
    from prefect.settings import (  # noqa: PLC0415
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_LOGGING_TO_API_ENABLED,
        temporary_settings,
    )
    from prefect.testing.utilities import prefect_test_harness  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        for service in IDLE_SERVICES:
            patch.setenv(f"PREFECT_SERVER_SERVICES_{service}_ENABLED", "false")
        # The heartbeat costs a second at the end of each flow run, and shipping its log a fifth of the rest.
        with (
            prefect_test_harness(server_startup_timeout=120),
            temporary_settings(
                {PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None, PREFECT_LOGGING_TO_API_ENABLED: False}
            ),
        ):
            yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell at how many points the crash tests killed a process."""
    told = "\n".join(report.capstdout for report in terminalreporter.getreports("passed"))
    covered = re.findall(r"^.+: killed at (\d+) points", told, re.MULTILINE)
    if covered:
        terminalreporter.write_line(f"crash points covered: {sum(map(int, covered))}")
