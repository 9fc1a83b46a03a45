"""Measure many workers on PostgreSQL against bare SQL, and a sweep beside a million closed attempts.

    uv run python tests/bench/scale.py [--closed 1000000]

Many workers: 8 processes claim and record 8,000 due attempts page by page, with the product and with bare
psycopg doing the same statements. Sweep: the database's part of a sweep over 1,000 open attempts, with none
and with that many closed ones beside it, on both databases.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from pydantic import SecretStr

sys.path.insert(0, str(Path(__file__).parents[2]))

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.blocks.domain.decisions import decide_lookup
from prefect_media_jobs.blocks.domain.outcomes import Running
from prefect_media_jobs.blocks.domain.states import State
from tests.support.filling import fill, long_ago
from tests.support.ledgers import Sql
from tests.support.postgres import ledger_databases

WORKERS, ATTEMPTS, PAGE, OPEN = 8, 8_000, 50, 1_000
CLAIM = """
UPDATE attempt SET version = version + 1, leased_by = %s, leased_until = now() + interval '5 minutes'
WHERE attempt_id IN (
  SELECT attempt_id FROM attempt WHERE state = 'submitted' AND due_at <= now()
  AND (leased_until IS NULL OR leased_until <= now()) ORDER BY due_at LIMIT %s FOR UPDATE SKIP LOCKED
) RETURNING attempt_id, version
"""
RECORD = """
UPDATE attempt SET version = version + 1, due_at = now() + interval '5 minutes', leased_by = NULL,
  leased_until = NULL, remote_status = 'Processing', lookups = lookups + 1
WHERE attempt_id = %s AND version = %s AND state = 'submitted'
"""
HISTORY = """
INSERT INTO attempt_event (attempt_id, at, event, from_state, to_state, version, actor, detail)
VALUES (%s, now(), 'progress', 'submitted', 'submitted', %s, 'bench', 'Processing')
"""


def work_bare(url: str) -> int:
    """Claim and record with bare SQL until nothing is due, and return how many."""
    done = 0
    with psycopg.connect(url.replace("+psycopg", ""), prepare_threshold=None) as connection:
        while True:
            page = connection.execute(CLAIM, ("bench", PAGE)).fetchall()
            connection.commit()
            if not page:
                return done
            with connection.cursor() as cursor:
                cursor.executemany(RECORD, page)
                cursor.executemany(HISTORY, [(attempt_id, version + 1) for attempt_id, version in page])
            connection.commit()
            done += len(page)


def work_product(url: str) -> int:
    """Claim and record with the product until nothing is due, and return how many."""
    ledger, done = AttemptLedger(url=SecretStr(url)), 0
    begun_at = ledger.now()
    while page := ledger.claim_due([Action.LOOKUP], PAGE, due_before=begun_at):
        now = ledger.now()
        ledger.apply_each([(each, decide_lookup(each, Running("Processing"), now)) for each in page])
        done += len(page)
    ledger.close()
    return done


def many_workers(work: Callable[[str], int], url: str) -> float:
    """Let all workers go through what is due, and return attempts per second."""
    sql = Sql(url)
    sql.run("TRUNCATE attempt CASCADE")
    fill(sql, State.SUBMITTED, ATTEMPTS, due_at=long_ago(sql))
    sql.run("ANALYZE attempt")
    sql.engine.dispose()
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        pool.map(len, ["warm"] * WORKERS, chunksize=1)
        begun_at = time.perf_counter()
        done = pool.map(work, [url] * WORKERS, chunksize=1)
        spent = time.perf_counter() - begun_at
    assert sum(done) == ATTEMPTS
    return ATTEMPTS / spent


def sweep_s(url: str) -> float:
    """Return the seconds the database's part of a sweep over the open attempts takes."""
    sql = Sql(url)
    times = []
    ledger = AttemptLedger(url=SecretStr(url))
    for _ in range(5):
        sql.run(
            "UPDATE attempt SET leased_until = NULL, due_at = :at WHERE state = 'submitted'",
            at=_stored(sql, datetime.now(UTC) - timedelta(minutes=1)),
        )
        begun_at, due_before, swept = time.perf_counter(), ledger.now(), 0
        while page := ledger.claim_due([Action.LOOKUP], PAGE, due_before=due_before):
            now = ledger.now()
            ledger.apply_each([(each, decide_lookup(each, Running("Processing"), now)) for each in page])
            swept += len(page)
        assert swept == OPEN
        times.append(time.perf_counter() - begun_at)
    ledger.close()
    sql.engine.dispose()
    return statistics.median(times)


def _stored(sql: Sql, instant: datetime) -> object:
    return instant.isoformat(timespec="microseconds") if sql.sqlite else instant


def beside_closed(url: str, closed: int) -> None:
    """Print how much longer a sweep takes beside closed attempts."""
    sql = Sql(url)
    fill(sql, State.SUBMITTED, OPEN, due_at=long_ago(sql))
    sql.run("ANALYZE")
    alone = sweep_s(url)
    fill(sql, State.DELIVERED, closed, "closed")
    sql.run("ANALYZE")
    sql.engine.dispose()
    beside = sweep_s(url)
    kind = "SQLite" if sql.sqlite else "PostgreSQL"
    print(
        f"{kind}: sweep of {OPEN:,} open {alone:.2f} s alone, {beside:.2f} s beside {closed:,} closed, "
        f"ratio {beside / alone:.2f}",
        flush=True,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--closed", type=int, default=1_000_000)
    chosen = parser.parse_args()
    with ledger_databases() as databases:
        with databases.ledger() as url:
            for number in range(3):
                bare, ours = many_workers(work_bare, url), many_workers(work_product, url)
                print(
                    f"round {number + 1}: {WORKERS} workers {ours:.0f}/s, bare SQL {bare:.0f}/s, "
                    f"ratio {ours / bare:.2f}",
                    flush=True,
                )
        with databases.ledger() as url:
            beside_closed(url, chosen.closed)
    with tempfile.TemporaryDirectory() as folder:
        path = f"sqlite:///{Path(folder) / 'ledger.db'}"
        AttemptLedger(url=SecretStr(path)).upgrade()
        beside_closed(path, chosen.closed)
