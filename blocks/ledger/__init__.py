"""The ledger: a durable record of every attempt, kept in SQLite or PostgreSQL."""

from prefect_media_jobs.blocks.ledger.block import AttemptLedger
from prefect_media_jobs.blocks.ledger.queries import LedgerSummary, Scope

__all__ = ["AttemptLedger", "LedgerSummary", "Scope"]
