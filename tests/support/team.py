"""A team that buys media processing with the flows: its blocks, its ledger, its API and its consumer."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.client.schemas.objects import Artifact, State

from prefect_media_jobs.blocks import AttemptLedger, MediaRequest, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.deployments.sandbox.bill import Bill
from prefect_media_jobs.deployments.sandbox.server import SandboxHandle
from prefect_media_jobs.flows import hand_off_media, process_media, recover_media, submit_media
from tests.support.passing_time import make_due
from tests.support.receiving import received

RECEIVE = "tests.support.receiving:receive"
STUMBLE = "tests.support.receiving:stumble"
REFUSE = "tests.support.receiving:refuse"


@dataclass(frozen=True)
class Team:
    """What a team sees and does.

    Args:
        name: Name of its ledger block and of its API block, and beginning of its item keys.
        path: The ledger's file.
    """

    name: str
    path: Path
    log: Path
    source: Path
    sandbox: SandboxHandle
    ledger: AttemptLedger
    ledger_name: str
    api_name: str

    def save_api(self, **fields: Any) -> None:
        """Save the API block, as somebody does in the Prefect UI."""
        usual = {"base_url": self.sandbox.url, "api_key": self.sandbox.api_key}
        TornadoApi(**usual | fields).save(self.name, overwrite=True)

    def request(self, item: str = "episode-1", **fields: Any) -> MediaRequest:
        item_key = f"{self.name}-{item}"
        return MediaRequest(**{"item_key": item_key, "source": f"{self.source.as_uri()}?{item_key}"} | fields)

    def submit(self, *requests: MediaRequest | str, **fields: Any) -> State[Any]:
        """Run submit-media with these requests, or items."""
        state: State[Any] = submit_media(
            self._listed(requests), ledger=self.ledger_name, api=self.api_name, return_state=True, **fields
        )
        return state

    def process(self, *requests: MediaRequest | str, **fields: Any) -> State[Any]:
        """Run process-media."""
        state: State[Any] = process_media(
            self._listed(requests), ledger=self.ledger_name, api=self.api_name, return_state=True, **fields
        )
        return state

    def sweep(self, **fields: Any) -> State[Any]:
        """Run recover-media, once everything has become due."""
        make_due(self.path)
        state: State[Any] = recover_media(self.ledger_name, self.api_name, return_state=True, **fields)
        return state

    def hand_over(self, consumer: str = RECEIVE, **fields: Any) -> State[Any]:
        """Run hand-off-media, once everything has become due."""
        make_due(self.path)
        state: State[Any] = hand_off_media(
            self.ledger_name, consumer, self.api_name, return_state=True, **fields
        )
        return state

    def submit_raw(self, requests: list[Any]) -> State[Any]:
        """Run submit-media with parameters as they come from a form."""
        state: State[Any] = submit_media(
            requests, ledger=self.ledger_name, api=self.api_name, return_state=True
        )
        return state

    def named(self, *, ledger: str | None = None, api: str | None = None) -> "Team":
        """Return the same team, asking for other blocks."""
        return replace(self, ledger_name=ledger or self.ledger_name, api_name=api or self.api_name)

    def sweep_until(self, *states: str, at_most: int = 40, **fields: Any) -> None:
        """Sweep until the attempts are in these states; the API needs a moment for each job."""
        for _ in range(at_most):
            if self.states() == list(states):
                return
            self.sweep(**fields)
        assert list(states) == self.states()

    def attempts(self) -> list[Attempt]:
        return self.ledger.list_attempts()

    def attempt(self) -> Attempt:
        """Return the only attempt."""
        (attempt,) = self.attempts()
        return attempt

    def states(self) -> list[str]:
        """Return the states of all attempts, oldest first."""
        return [str(attempt.state) for attempt in self.attempts()]

    def age(self, **columns: str) -> None:
        """Move instants of the only attempt back, as if it had been long ago."""
        settings = ", ".join(f"{name} = ?" for name in columns)
        with closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.execute(f"UPDATE attempt SET {settings}", tuple(columns.values()))

    def received(self) -> list[tuple[str, str]]:
        """Return what the consumer was called with: delivery key and item."""
        return received(self.log)

    def posts(self) -> int:
        """Return how many POSTs the API has received for this team's attempts."""
        return sum(self.bill().posts_by_idempotency_key.values())

    def jobs(self) -> list[str]:
        """Return the ids of all jobs that the API made for this team."""
        return [line.job_id for line in self.bill().lines]

    def bill(self) -> Bill:
        """Return this team's part of the bill."""
        bill, mine = self.sandbox.bill(), f"{self.name}-"
        posts = bill.posts_by_idempotency_key
        return bill.model_copy(
            update={
                "lines": [line for line in bill.lines if str(line.idempotency_key).startswith(mine)],
                "posts_by_idempotency_key": {key: posts[key] for key in posts if key.startswith(mine)},
            }
        )

    def _listed(self, requests: Iterable[MediaRequest | str]) -> list[MediaRequest]:
        return [self.request(each) if isinstance(each, str) else each for each in requests]


def artifacts_of(state: State[Any]) -> list[Artifact]:
    """Return the artifacts that a flow run left behind."""
    run_id = state.state_details.flow_run_id
    assert run_id is not None
    with get_client(sync_client=True) as client:
        found: list[Artifact] = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]))
        )
    return found
