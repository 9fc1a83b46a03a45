"""The ledger against a model that computes every state and version by itself."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import (
    ConflictingJobError,
    LedgerError,
    LiveAttemptError,
    StaleAttemptError,
    TransitionRefusedError,
)
from tests.support.attempts import a_request

MOVES = {
    "refuse": ("sending", "rejected"),
    "not_sent": ("sending", "recorded"),
    "doubt": ("sending", "uncertain"),
    "adopt": ("uncertain", "submitted"),
    "progress": ("submitted", "submitted"),
    "complete": ("submitted", "completed"),
    "fail": ("submitted", "failed"),
    "lose": ("submitted", "lost"),
    "deliver": ("completed", "delivered"),
    "miss": ("completed", "missing"),
    "recheck": ("failed lost missing", "submitted completed"),
    "abandon": ("recorded uncertain rejected failed lost missing", "abandoned"),
    "search": ("uncertain", "uncertain"),
    "unanswered": ("uncertain submitted completed", "="),
}
CLAIMED = {"recorded", "uncertain", "submitted", "completed"}
CLOSED = {"rejected", "superseded", "abandoned"}


Learnt = Attempt | MultipleResults[Attempt]
"""What a rule adds to the snapshots: one, several or none."""


@dataclass
class Row:
    """What the model knows of one attempt."""

    item: str
    state: str = "recorded"
    version: int = 1
    job_id: str | None = None
    twin: bool = False
    due: bool = True
    leased: bool = False
    closed_from: str = ""
    events: list[str] = field(default_factory=list)

    def write(self, event: str, state: str, *, due: bool) -> None:
        """Move the row as one guarded write does."""
        self.events.append(event)
        self.closed_from = self.state
        self.state, self.version, self.due, self.leased = state, self.version + 1, due, False


Lend = Callable[[], AbstractContextManager[str]]
"""Lends the URL of an empty ledger for one run."""


class LedgerMachine(RuleBasedStateMachine):
    """Drives a real ledger and a plain dictionary side by side, also with snapshots that are out of date."""

    snapshots: Bundle[Attempt] = Bundle("snapshots")

    def __init__(self, lend: Lend) -> None:
        super().__init__()
        self._stack = ExitStack()
        self.ledger = AttemptLedger(url=SecretStr(self._stack.enter_context(lend())))
        self._stack.callback(self.ledger.close)
        self.rows: dict[str, Row] = {}

    def standing(self, item: str) -> str | None:
        """Return the attempt that counts for an item: the live one, or else the latest that stands."""
        ids = [key for key, row in self.rows.items() if row.item == item and row.state != "superseded"]
        live = [key for key in ids if self.rows[key].state not in CLOSED]
        return live[-1] if live else ids[-1] if ids else None

    def owner(self, job_id: str) -> str | None:
        """Return the attempt that has a job."""
        return next((key for key, row in self.rows.items() if row.job_id == job_id), None)

    def follow(self, item: str, event: str, state: str) -> str:
        """Add an attempt of an item to the model, closing the refused one it replaces."""
        last = self.standing(item)
        if last is not None and self.rows[last].state != "abandoned":
            self.rows[last].write("supersede", "superseded", due=False)
        number = sum(row.item == item for row in self.rows.values()) + 1
        key = f"{item}-attempt-{number}"
        self.rows[key] = Row(item, state, due=state == "recorded", events=[event])
        return key

    def may_follow(self, item: str) -> bool:
        """Tell whether a new attempt of an item may be made without a person."""
        last = self.standing(item)
        if last is None:
            return True
        row = self.rows[last]
        never_bought = row.state == "abandoned" and row.closed_from in {"recorded", "rejected"}
        return (row.state == "rejected" or never_bought) and not row.twin

    @initialize(target=snapshots)
    def first(self) -> Attempt:
        """Record one item to begin with."""
        self.follow("a", "record", "recorded")
        return self.ledger.record_attempts([a_request("a")])[0]

    @rule(target=snapshots, item=st.sampled_from("abc"))
    def record(self, item: str) -> Attempt:
        """Ask for an item: the attempt that counts is returned, or a new one made."""
        key = self.follow(item, "record", "recorded") if self.may_follow(item) else self.standing(item)
        (attempt,) = self.ledger.record_attempts([a_request(item)])
        assert key == attempt.attempt_id
        return attempt

    @rule(target=snapshots, item=st.sampled_from("abc"))
    def begin_new(self, item: str) -> Learnt:
        """Begin an item right away: refused if an attempt counts."""
        if self.may_follow(item):
            key = self.follow(item, "begin", "sending")
            attempt = self.ledger.begin_attempt(a_request(item))
            assert key == attempt.attempt_id
            return attempt
        self.refused(LiveAttemptError, lambda: self.ledger.begin_attempt(a_request(item)))
        return multiple()

    @rule(target=snapshots, snapshot=snapshots)
    def begin(self, snapshot: Attempt) -> Learnt:
        """Begin an attempt by its id: only from ``recorded``, whatever the snapshot says."""
        row = self.rows[snapshot.attempt_id]
        if row.state == "recorded":
            row.write("begin", "sending", due=False)
            return self.ledger.begin_attempt(snapshot.attempt_id)
        self.refused(TransitionRefusedError, lambda: self.ledger.begin_attempt(snapshot.attempt_id))
        return multiple()

    @rule(target=snapshots, snapshot=snapshots, job_id=st.sampled_from(["j-1", "j-2", "j-3", "j-4"]))
    def remember(self, snapshot: Attempt, job_id: str) -> Learnt:
        """Remember a job id: set once, of one attempt, and never dropped."""
        key, row = snapshot.attempt_id, self.rows[snapshot.attempt_id]
        error: type[LedgerError] | None = None
        if row.job_id == job_id:
            pass
        elif row.job_id is not None:
            error = ConflictingJobError
            row.events.append("late_acknowledge")
            row.version, row.twin = row.version + 1, True
        elif row.state in {"recorded", "rejected"}:
            error = TransitionRefusedError
        elif self.owner(job_id) is not None:
            error = ConflictingJobError
        elif row.state in {"sending", "uncertain"}:
            row.write("acknowledge", "submitted", due=True)
            row.job_id = job_id
            return self.later(self.ledger.remember_job(key, job_id))
        else:
            row.events.append("late_acknowledge")
            row.version, row.twin, row.job_id = row.version + 1, True, job_id
        if error is not None:
            self.refused(error, lambda: self.ledger.remember_job(key, job_id))
            return multiple()
        return self.ledger.remember_job(key, job_id)

    def later(self, attempt: Attempt) -> Attempt:
        """Note that an acknowledged job is due in a moment, not now."""
        self.rows[attempt.attempt_id].due = False
        return attempt

    @rule(
        target=snapshots,
        snapshot=snapshots | consumes(snapshots),
        event=st.sampled_from(sorted(MOVES)),
        to=st.sampled_from(["=", *map(str, State)]),
        due=st.booleans(),
        job_id=st.sampled_from(["j-1", "j-2", "j-5"]),
        legal=st.booleans(),
    )
    def apply(self, snapshot: Attempt, event: str, to: str, job_id: str, *, due: bool, legal: bool) -> Learnt:
        """Write a decision made on a snapshot: only a move of the table, and only if nobody was first."""
        row = self.rows[snapshot.attempt_id]
        if legal:
            to = MOVES[event][1].split()[-1]
        sources, targets = MOVES[event]
        target = str(snapshot.state) if to == "=" else to
        allowed = str(snapshot.state) if targets == "=" else targets
        facts = Facts(job_id=job_id) if event == "adopt" else Facts()
        change = Change(Event(event), State(target), facts, 0.0 if due else None, "seen")
        if snapshot.state not in sources.split() or target not in allowed.split():
            self.refused(TransitionRefusedError, lambda: self.ledger.apply(snapshot, change))
        elif snapshot.version != row.version:
            self.refused(StaleAttemptError, lambda: self.ledger.apply(snapshot, change))
        elif facts and self.owner(job_id) is not None:
            self.refused(ConflictingJobError, lambda: self.ledger.apply(snapshot, change))
        else:
            row.write(event, target, due=due)
            row.job_id = facts.get("job_id", row.job_id)
            return self.ledger.apply(snapshot, change)
        return multiple()

    @rule(target=snapshots, item=st.sampled_from("abc"))
    def look(self, item: str) -> Learnt:
        """Read the attempt that stands for an item."""
        key = self.standing(item)
        return multiple() if key is None else self.ledger.read(key)

    @rule(target=snapshots)
    def claim(self) -> Learnt:
        """Claim what is due: each free row once, with its version raised."""
        expected = {
            key for key, row in self.rows.items() if row.state in CLAIMED and row.due and not row.leased
        }
        claimed = self.ledger.claim_due(["submit", "lookup", "reconcile", "inspect"], limit=99)
        assert expected == {attempt.attempt_id for attempt in claimed}
        for key in expected:
            self.rows[key].version += 1
            self.rows[key].leased = True
        return multiple(*claimed)

    @staticmethod
    def refused(error: type[LedgerError], write: Callable[[], object]) -> None:
        """Assert that a write is refused with exactly this error."""
        with pytest.raises(LedgerError) as caught:
            write()
        assert type(caught.value) is error

    @invariant()
    def the_ledger_is_as_the_model_says(self) -> None:
        """Every attempt has the state, version, job, flag and history the model computed."""
        stored = {
            a.attempt_id: (str(a.state), a.version, a.job_id, a.twin, a.leased_by is not None)
            for a in self.ledger.list_attempts()
        }
        assert stored == {
            key: (row.state, row.version, row.job_id, row.twin, row.leased) for key, row in self.rows.items()
        }

    def teardown(self) -> None:
        """Compare the histories, and give the ledger back."""
        with self._stack:
            for key, row in self.rows.items():
                assert row.events == [event.event for event in self.ledger.history(key)]


@contextmanager
def copied(empty_file: Path, folder: Path) -> Iterator[str]:
    """Lend a copy of an empty SQLite ledger."""
    path = folder / "copy.db"
    shutil.copy(empty_file, path)
    yield f"sqlite:///{path}"
    path.unlink()


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 40), ("postgresql", 12)])
def test_the_ledger_does_what_a_model_computes(
    kind: str, examples: int, empty_file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Any sequence of calls, with old snapshots among them, leaves the ledger as the model computes it."""
    lend: Lend = partial(copied, empty_file, tmp_path)
    if kind == "postgresql":
        lend = request.getfixturevalue("databases").ledger
    run_state_machine_as_test(
        partial(LedgerMachine, lend),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
