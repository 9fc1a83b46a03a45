"""What the commands print: tables for people, or JSON with nothing cut off."""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

from prefect_media_jobs.blocks.domain.attempt import Attempt, AttemptEvent, PlannedAction
from prefect_media_jobs.blocks.domain.handoff import HandoffState
from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.ledger import LedgerSummary

S = TypeVar("S", bound=StrEnum)
PIPED_WIDTH = 2_000
"""Columns where nobody looks at a terminal: wide enough that no id is ever folded."""

_SHOWN_ALWAYS = ("item_key", "state", "source", "job_id", "reason")
_SHOWN_IF_SET = (
    "settings",
    "edition",
    "batch_key",
    "batch_id",
    "batch_job_ids",
    "grounds",
    "replaces",
    "superseded_by",
    "closed_from",
    "twin",
    "remote_status",
    "object_key",
    "size_bytes",
    "asked_at",
    "sent_at",
    "due_at",
)


def status(place: str, batch: str | None, summary: LedgerSummary, *, as_json: bool) -> None:
    """Show how a ledger, or a batch in it, stands."""
    if as_json:
        _print_json(
            {
                "ledger": place,
                "batch": batch,
                "total": summary.total,
                "attempts": _in_order(State, summary.attempts),
                "handoffs": _in_order(HandoffState, summary.handoffs),
                "waiting_for_a_person": summary.for_a_person,
                "twins": summary.twins,
                "oldest_open": summary.oldest_open,
            }
        )
        return
    console = _console()
    _line(console, f"Ledger {place}" + ("" if batch is None else f", batch {batch}"))
    for title, counts in (
        ("attempts", _in_order(State, summary.attempts)),
        ("handoffs", _in_order(HandoffState, summary.handoffs)),
    ):
        if counts:
            console.print(_table((title, "number"), counts.items()))
    _line(console, f"{summary.total} attempts, {summary.for_a_person} waiting for a person")
    if summary.twins:
        _line(console, f"{summary.twins} for which a second job may exist")
    if summary.oldest_open is not None:
        _line(console, f"oldest open: asked for at {_shown(summary.oldest_open)}")


def claims(place: str, held: Sequence[Attempt], *, as_json: bool) -> None:
    """Show which worker holds which attempt, and until when."""
    rows = [(each.attempt_id, each.state, each.leased_by, each.leased_until) for each in held]
    if as_json:
        names = ("attempt_id", "state", "leased_by", "leased_until")
        _print_json({"ledger": place, "claims": [dict(zip(names, row, strict=True)) for row in rows]})
        return
    console = _console()
    _line(console, f"Ledger {place}")
    if not rows:
        _line(console, "Nobody holds anything.")
        return
    console.print(_table(("attempt", "state", "held by", "until"), rows))


def plan(place: str, actions: Sequence[PlannedAction], *, as_json: bool) -> None:
    """Show what open attempts need next."""
    if as_json:
        _print_json({"ledger": place, "actions": [asdict(each) for each in actions]})
        return
    console = _console()
    _line(console, f"Ledger {place}")
    if not actions:
        _line(console, "Nothing is open.")
        return
    rows = ((each.attempt_id, each.action, each.job_id, each.due_at, each.reason) for each in actions)
    console.print(_table(("attempt", "next", "job", "due", "why"), rows))


def history(place: str, attempt: Attempt, events: Sequence[AttemptEvent], *, as_json: bool) -> None:
    """Show one attempt and what happened to it."""
    # The source as given may carry a key of the team's storage.
    facts = {each.name: getattr(attempt, each.name) for each in fields(attempt)}
    facts["source"] = attempt.shown_source
    if as_json:
        _print_json({"ledger": place, "attempt": facts, "events": [asdict(each) for each in events]})
        return
    console = _console()
    _line(console, f"Ledger {place}")
    _line(console, f"Attempt {attempt.attempt_id}")
    for name in (*_SHOWN_ALWAYS, *(each for each in _SHOWN_IF_SET if facts[each])):
        _line(console, f"  {name:<14} {_shown(facts[name])}")
    rows = ((e.at, e.event, _moved(e), e.actor, e.detail) for e in events)
    console.print(_table(("at", "event", "state", "who", "detail"), rows))


def _moved(event: AttemptEvent) -> str:
    if event.from_state is None or event.from_state == event.to_state:
        return event.to_state
    return f"{event.from_state} -> {event.to_state}"


def _in_order(kind: Iterable[S], counts: Mapping[S, int]) -> dict[str, int]:
    """Return the counts in the order of the life cycle."""
    return {str(state): counts[state] for state in kind if counts.get(state)}


def _console() -> Console:
    narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(markup=False, highlight=False, emoji=False, width=None if narrow else PIPED_WIDTH)


def _line(console: Console, text: str) -> None:
    console.print(text, soft_wrap=True)


def _table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for header in headers:
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*(_shown(value) for value in row))
    return table


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={part}" for name, part in value.items())
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _print_json(data: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(data, indent=2, default=_plain) + "\n")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no JSON form.")
