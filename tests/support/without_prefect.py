"""Run the flows' own code, in their own order, in a process that has no Prefect server.

Tasks are replaced by their functions, artifacts by nothing, and block names by blocks. What remains is what a
flow run does to the ledger and to the API.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.media import MediaApi
from prefect_media_jobs.flows import handoff, loading, recovery, reporting, submission


@dataclass(frozen=True)
class Ended:
    """What a task run leaves behind, for callers that ask for its state."""

    outcome: Any

    def result(self, *, raise_on_failure: bool) -> Any:
        assert not raise_on_failure
        return self.outcome


def use_blocks(ledger: AttemptLedger, api: MediaApi) -> None:
    """Give the flows of this process these blocks, whatever name they ask for."""

    def load(kind: type, _name: str) -> Any:
        return ledger if kind is AttemptLedger else api

    loading._load = load
    AttemptLedger.save = lambda *_args, **_fields: None
    submission.submit_page = recovery.submit_page = submission.submit_page.fn
    recovery.reconcile_page = recovery.reconcile_page.fn
    recovery.inspect_page = recovery.inspect_page.fn
    recovery.look_up_page = _asking_for_state(recovery.look_up_page.fn)
    handoff.hand_over_page = handoff.hand_over_page.fn
    reporting.get_run_logger = lambda: logging.getLogger("tests.crash")
    for name in ("create_table_artifact", "create_progress_artifact", "update_progress_artifact"):
        setattr(reporting, name, lambda *_args, **_fields: None)


def _asking_for_state(function: Callable[..., Any]) -> Callable[..., Ended]:
    def call(*args: Any, return_state: bool) -> Ended:
        assert return_state
        try:
            return Ended(function(*args))
        except Exception as error:  # noqa: BLE001 - as a failed task run's state holds it
            return Ended(error)

    return call
