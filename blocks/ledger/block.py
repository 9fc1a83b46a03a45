"""The ``AttemptLedger`` block: each method is one transaction."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar, TypeVar
from uuid import uuid4

import sqlalchemy as sa
from prefect.blocks.core import Block
from prefect.settings import get_current_settings
from pydantic import ConfigDict, Field, HttpUrl, PrivateAttr, SecretStr, field_validator
from sqlalchemy.exc import IntegrityError

from prefect_media_jobs.blocks.domain.attempt import Action, Attempt, AttemptEvent, PlannedAction
from prefect_media_jobs.blocks.domain.decisions import Change, decide_submission
from prefect_media_jobs.blocks.domain.handoff import Handoff, HandoffChange
from prefect_media_jobs.blocks.domain.outcomes import Accepted
from prefect_media_jobs.blocks.domain.redaction import clean
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import (
    ConflictingJobError,
    InvalidInputError,
    LedgerError,
    LedgerUnavailableError,
    StaleAttemptError,
    TransitionRefusedError,
)
from prefect_media_jobs.blocks.ledger import handoffs, queries, recording, schema, transitions
from prefect_media_jobs.blocks.ledger.database import Database, Transaction
from prefect_media_jobs.blocks.ledger.locating import file_url, parse_url, shown_url
from prefect_media_jobs.blocks.ledger.queries import LedgerSummary, Scope
from prefect_media_jobs.blocks.ledger.recording import Asked
from prefect_media_jobs.blocks.ledger.rows import read_attempt
from prefect_media_jobs.blocks.ledger.spool import Spool
from prefect_media_jobs.blocks.ledger.tables import IDENTITY
from prefect_media_jobs.blocks.request import MediaRequest, check_requests

T = TypeVar("T")
DEFAULT_API = "media-api"
SEND_WITHIN = timedelta(hours=24)
SEND_WINDOW = timedelta(minutes=5)
LEASE = timedelta(minutes=5)
EVERYTHING = Scope()
URL_VARIABLE = "MEDIA_JOBS_LEDGER_URL"
_RACES = 5
_OPENING = threading.Lock()


def default_url() -> SecretStr:
    """Return the default ledger's URL: MEDIA_JOBS_LEDGER_URL, else a file under the Prefect home folder."""
    given = os.environ.get(URL_VARIABLE)
    if given:
        return SecretStr(given)
    return SecretStr(file_url(Path(get_current_settings().home).absolute() / "media-ledger.db"))


class AttemptLedger(Block):
    """Durable record of every attempt to buy media processing.

    Attributes:
        url: Where the ledger is kept.

    Example:
        Load a saved ledger and see what is open:
        ```python
        from prefect_media_jobs.blocks import AttemptLedger

        ledger = AttemptLedger.load("BLOCK_NAME")
        for action in ledger.recovery_plan():
            print(action.attempt_id, action.action)
        ```
    """

    _block_type_name: ClassVar[str] = "Media Attempt Ledger"
    _block_type_slug: ClassVar[str] = "media-attempt-ledger"
    _description: ClassVar[str] = "Durable record of every attempt to buy media processing."
    _logo_url: ClassVar[HttpUrl | None] = HttpUrl(
        "https://raw.githubusercontent.com/PrefectHQ/prefect/main/docs/logos/logo.png"
    )
    _documentation_url: ClassVar[HttpUrl | None] = HttpUrl("https://docs.prefect.io/v3/concepts/blocks")

    # An error about the URL must not show the password in it.
    model_config = ConfigDict(hide_input_in_errors=True)

    url: SecretStr = Field(
        default_factory=default_url,
        description="SQLite file (sqlite:////path/to/file.db) or PostgreSQL (postgresql+psycopg://...).",
    )

    identity: str | None = Field(
        default=None,
        description="Identity of the database this block has used; another one stops submissions.",
    )

    _database: Database | None = PrivateAttr(default=None)

    @field_validator("url")
    @classmethod
    def _readable_url(cls, url: SecretStr) -> SecretStr:
        return SecretStr(parse_url(url.get_secret_value()).render_as_string(hide_password=False))

    @property
    def place(self) -> str:
        """Where the ledger is: the absolute path of the file, or the server, without password."""
        return shown_url(parse_url(self.url.get_secret_value()))

    def upgrade(self) -> str | None:
        """Create the schema or bring it up to date; safe to repeat and from many processes at once.

        Returns:
            The schema version found before; None when the ledger was empty.
        """
        database = Database(parse_url(self.url.get_secret_value()))
        try:
            return schema.upgrade(database)
        finally:
            database.dispose()

    def check(self) -> None:
        """Make sure the ledger can be written, before anything is sent.

        Raises:
            LedgerUnavailableError: it cannot; the sentence names the place and what to do.
        """
        self._write(lambda _: None)

    def find_identity(self) -> str:
        """Return the identity of the database, which an emptied or exchanged one does not share."""
        return self._read(lambda tx: str(tx.connection.execute(sa.select(IDENTITY.c.identity)).scalar_one()))

    def keep_answer(self, attempt: Attempt, change: Change) -> Path:
        """Keep an answer that the ledger cannot take now, in a file beside the worker.

        Raises:
            OSError: it cannot be kept there either.
        """
        return self._spool().keep(attempt.attempt_id, change.facts)

    def take_kept_answers(self) -> list[str]:
        """Write down the answers that were kept in files on this machine while the ledger was away.

        Returns:
            One sentence for each.
        Writes: one row an answer, one commit each.
        """
        spool, told = self._spool(), []
        for kept in spool.kept():
            change = Change(
                Event.ACKNOWLEDGE, State.SUBMITTED, kept.facts, 0.0, "kept while the ledger was away"
            )
            try:
                self._acknowledge(self.read(kept.attempt_id), change)
            except LedgerUnavailableError:
                raise
            except LedgerError as error:
                told.append(f"An answer kept for {kept.attempt_id} is at {spool.set_aside(kept)}: {error}")
            else:
                spool.done(kept)
                told.append(f"The answer kept for {kept.attempt_id} is in the ledger now.")
        return told

    def record_attempts(
        self, requests: Iterable[MediaRequest], batch_key: str | None = None, *, api: str = DEFAULT_API
    ) -> list[Attempt]:
        """Record what shall be bought; a request that has a live attempt gets that one, never a second.

        Args:
            api: Name of the media API block it will be bought from.
        Returns:
            One attempt a request, in order.
        Raises:
            InvalidInputError: there are none, or they contradict each other.
        Writes: one row a new request, one commit for all.
        """
        listed = check_requests(requests)
        asked = Asked(clean(api, 200), None if batch_key is None else clean(batch_key, 200))
        return self._racing(lambda tx: recording.record(tx, listed, asked))

    def begin_attempt(
        self,
        what: MediaRequest | str,
        *,
        window: timedelta = SEND_WINDOW,
        api: str = DEFAULT_API,
        batch_key: str | None = None,
    ) -> Attempt:
        """Commit the intent right before the request leaves; of several callers one wins.

        Args:
            what: A request is inserted straight into ``sending``; an id moves its ``recorded`` attempt there.
            window: How long the sender may be sending, by its own clock.
        Raises:
            LiveAttemptError: the request has an attempt that counts, so nothing must be sent.
            TransitionRefusedError: the attempt is not ``recorded``, so it must not be sent.
        Writes: one row, one commit.
        """
        window_s, claim_id = window.total_seconds(), f"claim {uuid4().hex[:12]}"
        if isinstance(what, str):
            return self._write(
                lambda tx: transitions.begin(tx, what, window_s, claim_id),
                kept=lambda tx: transitions.begun(tx, what, claim_id),
            )
        asked = Asked(clean(api, 200), None if batch_key is None else clean(batch_key, 200))
        return self._racing(
            lambda tx: recording.begin_new(tx, what, asked, window_s, claim_id),
            kept=lambda tx: recording.begun_new(tx, what, claim_id),
        )

    def remember_job(self, attempt_id: str, job_id: str) -> Attempt:
        """Commit the job id the API answered with; the same id again is fine.

        Raises:
            InvalidInputError: the id is empty or cannot be stored (also a ``ValueError``).
            AttemptNotFoundError: there is no such attempt.
            ConflictingJobError: the attempt has another id, or the id belongs to another attempt.
        Writes: one row, one commit.
        """
        if not isinstance(job_id, str) or not job_id.strip():
            raise InvalidInputError("The job id is empty; give the id as the API answered it.")
        if clean(job_id, len(job_id)) != job_id:
            raise InvalidInputError("The job id holds control characters; give it as the API answered it.")
        return self._acknowledge(self.read(attempt_id), decide_submission(Accepted(job_id)))

    def apply(self, attempt: Attempt, change: Change, *, actor: str | None = None) -> Attempt:
        """Write a decision, if the attempt is still as it was when the decision was made.

        An acknowledgement is evidence and is written whoever moved the attempt meanwhile.

        Args:
            actor: Who decided; left out, this process.
        Raises:
            StaleAttemptError: another writer moved the row after it was read.
            TransitionRefusedError: the table has no such move.
            ConflictingJobError: the job id belongs to another attempt.
        Writes: one row, one commit.
        """
        if change.event is Event.ACKNOWLEDGE:
            return self._acknowledge(attempt, change)
        instants: list[datetime] = []

        def work(tx: Transaction) -> Attempt:
            instants.append(tx.now)
            return transitions.apply(tx, attempt, change)

        try:
            return self._write(
                work, actor, kept=lambda tx: transitions.applied(tx, attempt, change, instants)
            )
        except IntegrityError:
            raise self._conflict(attempt.attempt_id, change) from None

    def apply_each(self, decided: Sequence[tuple[Attempt, Change]]) -> list[Attempt | None]:
        """Write many decisions at once, each if its attempt is still as it was.

        Returns:
            The attempts in order; None for one that another writer moved first.
        Raises:
            TransitionRefusedError: the table has no such move; nothing is written.
        Writes: one row a decision, one commit for all.
        """
        instants: list[datetime] = []

        def work(tx: Transaction) -> list[Attempt]:
            instants.append(tx.now)
            return transitions.apply_together(tx, decided)

        def kept(tx: Transaction) -> list[Attempt] | None:
            found = [transitions.applied(tx, attempt, change, instants) for attempt, change in decided]
            ours = [attempt for attempt in found if attempt is not None]
            return ours if len(ours) == len(decided) else None

        try:
            return [*self._write(work, kept=kept)]
        except StaleAttemptError:
            return self._write(lambda tx: transitions.apply_each(tx, decided))

    def recovery_plan(
        self,
        limit: int | None = None,
        *,
        scope: Scope = EVERYTHING,
        send_within: timedelta = SEND_WITHIN,
    ) -> list[PlannedAction]:
        """Tell what each open attempt needs next, what is due first coming first; writes nothing."""
        within_s = send_within.total_seconds()

        def read(tx: Transaction) -> list[PlannedAction]:
            plan = [*queries.recovery_plan(tx, limit, within_s, scope), *queries.refused_handoffs(tx, scope)]
            return plan[:limit]

        return self._read(read)

    def claim_due(
        self,
        actions: Iterable[Action | str],
        limit: int = 50,
        lease: timedelta = LEASE,
        *,
        scope: Scope = EVERYTHING,
        send_within: timedelta = SEND_WITHIN,
        due_before: datetime | None = None,
    ) -> list[Attempt]:
        """Lease attempts that are due for these actions; nobody else gets them until the lease ends.

        Their version is raised, so a holder that was paused past its lease cannot write.

        Args:
            due_before: Leave out what became due later than this; left out, until now.
        Writes: the leased rows, one commit.
        """
        listed = [Action(action) for action in actions]
        lease_s, within_s = lease.total_seconds(), send_within.total_seconds()
        return self._write(
            lambda tx: queries.claim_due(
                tx, listed, scope, limit=limit, lease_s=lease_s, send_within_s=within_s, due_before=due_before
            )
        )

    def now(self) -> datetime:
        """Return the database's time."""
        return self._read(lambda tx: tx.now)

    def still_held(self, claimed: Sequence[Attempt]) -> list[Attempt]:
        """Return those of the claimed attempts that nobody has written since."""
        return self._read(lambda tx: queries.still_held(tx, claimed))

    def held_now(self, scope: Scope = EVERYTHING) -> list[Attempt]:
        """Return the attempts somebody has a lease on now: who holds what until when."""
        return self._read(lambda tx: queries.held_now(tx, scope))

    def read(self, attempt_id: str) -> Attempt:
        """Read one attempt.

        Raises:
            AttemptNotFoundError: there is no such attempt.
        """
        return self._read(lambda tx: read_attempt(tx, attempt_id))

    def list_attempts(
        self,
        scope: Scope = EVERYTHING,
        states: Iterable[State] | None = None,
        limit: int | None = None,
    ) -> list[Attempt]:
        """Return attempts, oldest first."""
        return self._read(lambda tx: queries.list_attempts(tx, scope, states, limit))

    def needs_a_person(
        self, limit: int, *, scope: Scope = EVERYTHING, send_within: timedelta = SEND_WITHIN
    ) -> list[Attempt]:
        """Return attempts that a person should look at, oldest first."""
        within_s = send_within.total_seconds()
        return self._read(lambda tx: queries.needs_a_person(tx, scope, within_s, limit))

    def refused_handoffs(self, scope: Scope = EVERYTHING) -> list[PlannedAction]:
        """Return the results a consumer refused; a person has to decide about them."""
        return self._read(lambda tx: queries.refused_handoffs(tx, scope))

    def next_due(self, scope: Scope, states: Iterable[State]) -> datetime | None:
        """Return when the next of these attempts is due; None when none is due by itself."""
        return self._read(lambda tx: queries.next_due(tx, scope, states))

    def history(self, attempt_id: str) -> list[AttemptEvent]:
        """Return the history of one attempt, oldest first.

        Raises:
            AttemptNotFoundError: there is no such attempt.
        """
        return self._read(lambda tx: queries.history(tx, attempt_id))

    def summary(self, batch_key: str | None = None, *, scope: Scope = EVERYTHING) -> LedgerSummary:
        """Count attempts and handoffs by state, of one batch, of a narrower scope, or of all."""
        narrowed = scope if batch_key is None else replace(scope, batch_key=batch_key)
        return self._read(lambda tx: queries.summary(tx, narrowed))

    def owners_of(self, api: str, job_ids: Sequence[str]) -> dict[str, str]:
        """Return the attempt each of these jobs belongs to; jobs that belong to none are left out."""
        return self._read(lambda tx: queries.owners_of(tx, api, job_ids))

    def due_handoffs(self, consumer: str, limit: int, scope: Scope = EVERYTHING) -> list[Handoff]:
        """Return handoffs that are due, offering what was delivered meanwhile.

        Writes: the newly offered and the overdue rows, one commit.
        """
        return self._racing(lambda tx: handoffs.due_handoffs(tx, consumer, limit, scope))

    def begin_handoff(self, handoff: Handoff, window: timedelta) -> Handoff:
        """Claim a handoff right before its consumer is called; of several callers one wins.

        Raises:
            StaleAttemptError: another caller was first.
        Writes: one row, one commit.
        """
        return self._write(lambda tx: handoffs.begin_handoff(tx, handoff, window.total_seconds()))

    def apply_handoff(self, handoff: Handoff, changes: tuple[HandoffChange, ...]) -> Handoff:
        """Write what a consumer's answer means.

        Raises:
            StaleAttemptError: another writer moved the row after it was read.
        Writes: one row, one commit.
        """
        return self._write(lambda tx: handoffs.apply_handoff(tx, handoff, changes))

    def handoffs(self, scope: Scope = EVERYTHING) -> list[Handoff]:
        """Return the handoffs of these attempts."""
        return self._read(lambda tx: handoffs.handoffs_of(tx, scope))

    def close(self) -> None:
        """Close the connections of this process; the next use opens them again."""
        with _OPENING:
            if self._database is not None:
                self._database.dispose()
            self._database = None

    def _acknowledge(self, before: Attempt, change: Change) -> Attempt:
        try:
            after, error = self._write(lambda tx: transitions.acknowledge(tx, before, change))
        except IntegrityError:
            raise self._conflict(before.attempt_id, change) from None
        if error is not None:
            raise error
        return after

    def _conflict(self, attempt_id: str, change: Change) -> LedgerError:
        """Give a refusal of the database's rules its name."""
        job_id = change.facts.get("job_id")
        if job_id is None:
            return TransitionRefusedError(
                f"The rules of the ledger do not allow to {change.event} attempt {attempt_id} like this."
            )
        api = self.read(attempt_id).api
        owner = self.owners_of(api, [job_id]).get(job_id, "another attempt")
        return ConflictingJobError(
            f"Job {clean(job_id, 100)} belongs to {owner}; attempt {attempt_id} cannot have it as well."
        )

    def _spool(self) -> Spool:
        return Spool(Path(get_current_settings().home), self.place)

    def _racing(
        self, work: Callable[[Transaction], T], kept: Callable[[Transaction], T | None] | None = None
    ) -> T:
        """Run a write that inserts; when another writer inserts the same at this moment, look again."""
        for _ in range(_RACES - 1):
            with contextlib.suppress(IntegrityError):
                return self._write(work, kept=kept)
        return self._write(work, kept=kept)

    def _write(
        self,
        work: Callable[[Transaction], T],
        actor: str | None = None,
        kept: Callable[[Transaction], T | None] | None = None,
    ) -> T:
        return self._open().write(work, actor, kept)

    def _read(self, work: Callable[[Transaction], T]) -> T:
        return self._open().read(work)

    def _open(self) -> Database:
        """Return the database, ready for use: SQLite brings its schema up to date by itself."""
        database = self._database
        if database is not None and database.pid == os.getpid():
            return database
        with _OPENING:
            if self._database is None or self._database.pid != os.getpid():
                # Connections must not cross a fork, so a child opens its own.
                database = Database(parse_url(self.url.get_secret_value()))
                try:
                    if database.sqlite:
                        schema.upgrade(database)
                    else:
                        schema.require_head(database)
                except BaseException:
                    database.dispose()
                    raise
                self._database = database
            return self._database
