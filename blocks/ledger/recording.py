"""Recording what is asked for: a request that has a live attempt attaches to it and is not bought again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.states import LIVE, Event, Grounds, State
from prefect_media_jobs.blocks.errors import InvalidInputError, LiveAttemptError
from prefect_media_jobs.blocks.ledger.database import Transaction
from prefect_media_jobs.blocks.ledger.rows import Guard, append_events, event_of, move, read_pairs, to_attempt
from prefect_media_jobs.blocks.ledger.tables import ATTEMPT, EVENT
from prefect_media_jobs.blocks.ledger.transitions import begun, sending_values
from prefect_media_jobs.blocks.request import MediaRequest

_CHUNK = 400
"""Keys in one query; SQLite bounds the parameters of a statement."""

GROUNDS_OF = {
    State.RECORDED: Grounds.NEVER_SENT,
    State.REJECTED: Grounds.REFUSED,
    State.FAILED: Grounds.TERMINAL_VERDICT,
    State.LOST: Grounds.TERMINAL_VERDICT,
    State.MISSING: Grounds.TERMINAL_VERDICT,
}
"""Grounds that follow from the state the replaced attempt was in; from any other a person has to override."""

_NOTHING_BOUGHT = frozenset({Grounds.NEVER_SENT, Grounds.REFUSED})


@dataclass(frozen=True)
class Asked:
    """Who asks for what.

    Args:
        api: Name of the media API block.
    """

    api: str
    batch_key: str | None


@dataclass(frozen=True)
class Begun:
    """How an attempt is inserted straight into ``sending``."""

    values: dict[str, Any]
    claim_id: str


def record(tx: Transaction, requests: Sequence[MediaRequest], asked: Asked) -> list[Attempt]:
    """Record each request that has no attempt yet, and return one attempt a request, in order.

    An attempt that is still ``recorded`` counts as asked for now. A request whose last attempt may have been
    bought and was given up by a person returns that attempt: buying it again takes a new ``edition``.

    Writes: one row a new request, one commit for all.
    """
    standing = _standing(tx, [request.request_key for request in requests])
    fresh: dict[str, MediaRequest] = {}
    for request in requests:
        current = standing.get(request.request_key)
        if current is None or _may_follow(current) is not None:
            fresh.setdefault(request.request_key, request)
    _ask_again(tx, [a.attempt_id for a in standing.values() if a.state is State.RECORDED])
    for attempt in _insert(tx, list(fresh.values()), standing, asked):
        standing[attempt.request_key] = attempt
    return [standing[request.request_key] for request in requests]


def begin_new(
    tx: Transaction, request: MediaRequest, asked: Asked, window_s: float, claim_id: str
) -> Attempt:
    """Insert an attempt straight into ``sending``.

    Args:
        claim_id: Names this one claim in the history, so that it can be told from any other.

    Raises:
        LiveAttemptError: the request has an attempt that counts; nothing must be sent.
    Writes: one row, one commit.
    """
    standing = _standing(tx, [request.request_key])
    current = standing.get(request.request_key)
    if current is not None and _may_follow(current) is None:
        raise LiveAttemptError(
            f"Item {request.item_key!r} already has attempt {current.attempt_id} ({current.state}); "
            "nothing must be sent. To buy the same again on purpose, give the request a new edition."
        )
    begun = Begun(sending_values(tx.now, window_s), claim_id)
    (attempt,) = _insert(tx, [request], standing, asked, begun)
    return attempt


def begun_new(tx: Transaction, request: MediaRequest, claim_id: str) -> Attempt | None:
    """Return the attempt of a request if this claim is what began it."""
    current = _standing(tx, [request.request_key]).get(request.request_key)
    return None if current is None else begun(tx, current.attempt_id, claim_id)


def _may_follow(last: Attempt) -> Grounds | None:
    """Tell on which grounds a new attempt may follow without a person; None when it may not."""
    before = last.closed_from if last.state is State.ABANDONED else last.state
    grounds = GROUNDS_OF.get(before) if before is not None and last.state not in LIVE else None
    return grounds if grounds in _NOTHING_BOUGHT and not last.twin else None


def _standing(tx: Transaction, request_keys: Sequence[str]) -> dict[str, Attempt]:
    """Return the attempt that stands for each request: the live one, or else the latest."""
    standing: dict[str, Attempt] = {}
    for keys in _chunks(sorted(set(request_keys))):
        query = (
            sa.select(ATTEMPT)
            .where(ATTEMPT.c.request_key.in_(keys), ATTEMPT.c.state != State.SUPERSEDED)
            .order_by(ATTEMPT.c.asked_at, ATTEMPT.c.changed_at)
        )
        for row in tx.connection.execute(query).mappings():
            attempt = to_attempt(row)
            known = standing.get(attempt.request_key)
            if known is None or known.state not in LIVE:
                standing[attempt.request_key] = attempt
    return standing


def _ask_again(tx: Transaction, attempt_ids: Sequence[str]) -> None:
    for ids in _chunks(attempt_ids):
        tx.connection.execute(
            sa.update(ATTEMPT)
            .where(ATTEMPT.c.attempt_id.in_(ids), ATTEMPT.c.state == State.RECORDED)
            .values(asked_at=tx.now)
        )


def _insert(
    tx: Transaction,
    requests: Sequence[MediaRequest],
    standing: Mapping[str, Attempt],
    asked: Asked,
    sent: Begun | None = None,
) -> list[Attempt]:
    if not requests:
        return []
    names = _name(tx, requests)
    event = Event.RECORD if sent is None else Event.BEGIN
    rows = []
    for request, name in zip(requests, names, strict=True):
        last = standing.get(request.request_key)
        grounds = _may_follow(last) if last is not None else None
        if last is not None:
            _close(tx, last, name)
        replaced = {"grounds": grounds, "replaces": last.attempt_id if last is not None else None}
        rows.append(_row(tx, request, name, asked) | replaced | ({} if sent is None else sent.values))
    tx.connection.execute(sa.insert(ATTEMPT), rows)
    tx.connection.execute(sa.insert(EVENT), [_first_event(tx, row, event, sent) for row in rows])
    return [Attempt(**row | {"batch_job_ids": ()}) for row in rows]


def _close(tx: Transaction, last: Attempt, by: str) -> None:
    """Mark the attempt a new one follows; an abandoned one stays as the person left it."""
    if last.state is State.ABANDONED:
        return
    values = {
        "state": State.SUPERSEDED,
        "superseded_by": by,
        "closed_from": last.state,
        "changed_at": tx.now,
        "due_at": None,
    }
    after = move(tx, last, Guard(), values)
    if after is None:  # pragma: no cover - the row was read in this very transaction
        raise LiveAttemptError(f"Attempt {last.attempt_id} was moved at this moment; try again.")
    append_events(tx, [event_of(tx, after, Event.SUPERSEDE, last.state, f"replaced by {by}")])


def _name(tx: Transaction, requests: Sequence[MediaRequest]) -> list[str]:
    """Choose an attempt id for each request: its own, or the next free number of its item.

    Raises:
        InvalidInputError: the id a request brings along stands for another request already.
    """
    wanted = [request.attempt_id for request in requests if request.attempt_id is not None]
    taken = _owners(tx, wanted)
    used: set[str] = set()
    for request in requests:
        if request.attempt_id is None:
            continue
        owner = taken.get(request.attempt_id, request.request_key)
        if owner != request.request_key or request.attempt_id in used:
            raise InvalidInputError(
                f"The attempt id {request.attempt_id!r} stands for another request; leave it out to have one "
                "made from the item key."
            )
        used.add(request.attempt_id)
    numbers = _numbers(tx, requests)
    stems = [f"{request.id_stem}-attempt-" for request in requests]
    names = [request.attempt_id if request.attempt_id not in taken else None for request in requests]
    while None in names:
        for index, request in enumerate(requests):
            if names[index] is None:
                numbers[request.item_key] += 1
                names[index] = f"{stems[index]}{numbers[request.item_key]}"
        clashes = _owners(tx, [name for name in names if name is not None]).keys() | {
            name for name, count in Counter(names).items() if count > 1
        }
        names = [
            None if name in clashes and name != request.attempt_id else name
            for request, name in zip(requests, names, strict=True)
        ]
    return [name for name in names if name is not None]


def _owners(tx: Transaction, attempt_ids: Sequence[str]) -> dict[str, str]:
    """Return the request key of each of these attempt ids that exists."""
    owners: dict[str, str] = {}
    for ids in _chunks(attempt_ids):
        query = sa.select(ATTEMPT.c.attempt_id, ATTEMPT.c.request_key).where(ATTEMPT.c.attempt_id.in_(ids))
        owners |= read_pairs(tx, query)
    return owners


def _numbers(tx: Transaction, requests: Sequence[MediaRequest]) -> dict[str, int]:
    """Return how many attempts each item has."""
    numbers = {request.item_key: 0 for request in requests}
    for keys in _chunks(sorted(numbers)):
        query = (
            sa.select(ATTEMPT.c.item_key, sa.func.count())
            .where(ATTEMPT.c.item_key.in_(keys))
            .group_by(ATTEMPT.c.item_key)
        )
        numbers |= read_pairs(tx, query)
    return numbers


def _row(tx: Transaction, request: MediaRequest, attempt_id: str, asked: Asked) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(ATTEMPT.c.keys())
    return values | {
        "attempt_id": attempt_id,
        "item_key": request.item_key,
        "request_key": request.request_key,
        "source": request.source,
        "settings": request.settings.contract(),
        "edition": request.edition,
        "batch_key": asked.batch_key,
        "api": asked.api,
        "state": State.RECORDED,
        "version": 1,
        "batch_job_ids": [],
        "twin": False,
        "lookups": 0,
        "failures": 0,
        "not_found_count": 0,
        "asked_at": tx.now,
        "changed_at": tx.now,
        "due_at": tx.now,
    }


def _first_event(tx: Transaction, row: Mapping[str, Any], event: Event, sent: Begun | None) -> dict[str, Any]:
    told = [] if sent is None else [sent.claim_id]
    told += [] if row["replaces"] is None else [f"replaces {row['replaces']}: {row['grounds']}"]
    return {
        "attempt_id": row["attempt_id"],
        "at": row["changed_at"],
        "event": event,
        "from_state": None,
        "to_state": row["state"],
        "version": row["version"],
        "actor": tx.actor,
        "detail": "; ".join(told) or None,
    }


def _chunks(items: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
