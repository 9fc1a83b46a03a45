"""Let time pass in a ledger."""

import sqlite3
from contextlib import closing
from pathlib import Path

LONG_AGO = "2000-01-01T00:00:00.000000+00:00"
COLUMNS = (
    ("attempt", "due_at"),
    ("attempt", "send_deadline"),
    ("attempt", "leased_until"),
    ("handoff", "due_at"),
    ("handoff", "send_deadline"),
)


def make_due(ledger: str | Path) -> None:
    """Let the time pass that deadlines, leases and pauses of a SQLite ledger ask for.

    They exist because a silent process may still be alive, and so as not to ask too often. A test knows that
    the process is dead, so waiting would show nothing.
    """
    with closing(sqlite3.connect(ledger, timeout=30)) as connection, connection:
        for table, column in COLUMNS:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS NOT NULL", (LONG_AGO,))
