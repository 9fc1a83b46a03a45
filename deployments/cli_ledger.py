"""Which ledger a command works on, and opening it so that looking never creates anything."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from prefect_media_jobs.blocks.errors import BlockUnusableError, InvalidInputError, LedgerUnavailableError
from prefect_media_jobs.blocks.ledger import AttemptLedger
from prefect_media_jobs.blocks.ledger.locating import parse_url
from prefect_media_jobs.blocks.ledger.schema import HEAD, VERSION_TABLE
from prefect_media_jobs.deployments.bootstrap import LEDGER, LEDGER_URL_VARIABLE, ledger_at, saved_block


def find(name: str | None, url: str | None) -> AttemptLedger:
    """Return the ledger that was asked for, without opening it.

    Raises:
        InvalidInputError: both a name and a URL were given, or the URL cannot be used.
        BlockUnusableError: there is no such block.
    """
    if name is not None and url is not None:
        raise InvalidInputError("A ledger is named by --ledger or by --url, not by both.")
    if name is None:
        url = url if url is not None else os.environ.get(LEDGER_URL_VARIABLE) or None
    if url is not None:
        return ledger_at(url)
    block = saved_block(AttemptLedger, name or LEDGER)
    if block is None:
        raise BlockUnusableError(
            f"There is no AttemptLedger block named {name or LEDGER!r}; run 'media-jobs bootstrap', or name "
            "another with --ledger or --url."
        )
    return block


@contextmanager
def reading(name: str | None, url: str | None) -> Iterator[AttemptLedger]:
    """Open a ledger to look at it; one that does not exist is not created.

    Raises:
        LedgerUnavailableError: there is no ledger; the sentence tells where it was looked for.
    """
    book = find(name, url)
    place = parse_url(book.url.get_secret_value())
    if place.get_backend_name() == "sqlite":
        _require_ledger(Path(str(place.database)))
    try:
        yield book
    finally:
        book.close()


def upgrade(name: str | None, url: str | None) -> str:
    """Bring a ledger up to date and return a sentence about it."""
    book = find(name, url)
    found = book.upgrade()
    if found == HEAD:
        return f"The ledger at {book.place} is up to date (schema {HEAD})."
    before = "was empty" if found is None else f"had schema {found}"
    return f"The ledger at {book.place} {before} and has schema {HEAD} now."


def _require_ledger(path: Path) -> None:
    try:
        if not path.exists():
            raise LedgerUnavailableError(
                f"There is no ledger at {path}; run 'media-jobs upgrade' to create it, or name another with "
                "--ledger or --url."
            )
        # The ledger would make its tables in whatever database it is pointed at.
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (VERSION_TABLE,))
            if found.fetchone() is not None:
                return
    except (OSError, sqlite3.Error):
        # The ledger itself tells best what is wrong with a file that cannot be read.
        return
    raise LedgerUnavailableError(
        f"The file {path} holds no ledger; run 'media-jobs upgrade' to make one in it, or name another with "
        "--ledger or --url."
    )
