"""Ledgers that several processes use at once."""

from tests.support.ledger_fixtures import (
    bare_url,
    databases,
    empty_file,
    ledger,
    ledger_url,
    made_url,
    postgres_url,
    sql,
)

__all__ = [
    "bare_url",
    "databases",
    "empty_file",
    "ledger",
    "ledger_url",
    "made_url",
    "postgres_url",
    "sql",
]
