"""What people see: artifacts and a last sentence. All of it comes after the ledger's commits and may fail."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from prefect.artifacts import create_progress_artifact, create_table_artifact, update_progress_artifact
from prefect.client.schemas.objects import State
from prefect.logging import get_run_logger
from prefect.logging.loggers import LoggingAdapter
from prefect.states import Completed, Failed

from prefect_media_jobs.blocks.domain import states
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import FOR_A_PERSON

SHOWN_ROWS = 500
"""Rows in a table artifact; the ledger has them all."""

_UNSENT = frozenset({states.State.RECORDED})


@dataclass(frozen=True)
class Line:
    """One attempt as a report shows it; nothing in it is secret."""

    attempt_id: str
    item_key: str
    state: str
    job_id: str | None
    reason: str | None


@dataclass(frozen=True)
class Report:
    """What a flow run leaves behind.

    Args:
        lines: One an attempt.
        attached: Attempts that existed before, so that nothing was bought for them now.
        notes: Sentences for a person.
    """

    lines: tuple[Line, ...] = ()
    attached: int = 0
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Number of attempts by state."""
        return dict(Counter(line.state for line in self.lines))


def line(attempt: Attempt) -> Line:
    """Make the line of an attempt."""
    return Line(attempt.attempt_id, attempt.item_key, attempt.state, attempt.job_id, attempt.reason)


def logger() -> LoggingAdapter:
    """Return the run's logger."""
    adapter: LoggingAdapter = get_run_logger()  # type: ignore[assignment]
    return adapter


def sentence(counts: dict[str, int]) -> str:
    """Return counts by state as a phrase."""
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "nothing"


def publish_table(key: str, lines: Sequence[Line], description: str) -> None:
    """Write a table artifact; one that cannot be written costs a warning and nothing else."""
    rows = [
        {
            "item": each.item_key,
            "state": each.state,
            "job": each.job_id or "",
            "attempt": each.attempt_id,
            "note": each.reason or "",
        }
        for each in lines[:SHOWN_ROWS]
    ]
    if len(lines) > SHOWN_ROWS:
        description += f" The first {SHOWN_ROWS} of {len(lines)} are shown."
    try:
        create_table_artifact(table=rows, key=artifact_key(key), description=description)
    except Exception as error:  # noqa: BLE001 - what is seen never decides what is done
        logger().warning("The table %s could not be written (%s).", key, type(error).__name__)


class Progress:
    """A progress bar in the UI that may fail without consequences.

    Args:
        key: Artifact key.
        total: What counts as all.
    """

    def __init__(self, key: str, total: int, description: str) -> None:
        self._total = max(1, total)
        self._shown = -1.0
        self._artifact: UUID | None = None
        try:
            created = create_progress_artifact(0.0, key=artifact_key(key), description=description)
            self._artifact = created if isinstance(created, UUID) else None
        except Exception as error:  # noqa: BLE001 - what is seen never decides what is done
            logger().warning("The progress bar could not be made (%s).", type(error).__name__)

    def show(self, done: int) -> None:
        """Show how much is done; a call that changes nothing costs nothing."""
        percent = round(100.0 * min(done, self._total) / self._total, 1)
        if self._artifact is None or percent == self._shown:
            return
        self._shown = percent
        try:
            update_progress_artifact(self._artifact, percent)
        except Exception as error:  # noqa: BLE001 - what is seen never decides what is done
            self._artifact = None
            logger().warning("The progress bar stands still (%s).", type(error).__name__)


def artifact_key(text: str) -> str:
    """Return a text as an artifact key: small letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:100] or "media-jobs"


def final_state(report: Report, settled: Iterable[states.State]) -> State[Report]:
    """Return the state a flow run ends in: a named failure when something needs a person or is still open.

    Args:
        settled: States in which an attempt is as far as this flow takes it.
    """
    found = {states.State(state) for state in report.counts}
    message = f"{sentence(report.counts)}." + "".join(f" {note}" for note in report.notes)
    done = frozenset(settled)
    for name, which, advice in (
        ("Uncertain", {states.State.UNCERTAIN}, "Nothing is sent again; recover-media looks for them."),
        ("NeedsAPerson", FOR_A_PERSON, "'media-jobs plan' tells why; a rerun sends what was refused."),
        ("NotSent", _UNSENT, "Nothing was bought for them; recover-media sends what was asked for recently."),
        ("StillOpen", frozenset(states.State) - done, "The jobs may still run; recover-media collects them."),
    ):
        if (found - done) & which:
            return Failed(name=name, message=f"{message} {advice}")
    return Completed(message=message, data=report)
