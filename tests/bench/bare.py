"""What a bare script does: the yardsticks of the benchmark, with nothing that the product adds."""

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

WIDTH = 16


def submissions(url: str, folder: Path, count: int) -> float:
    """Submit ``count`` items with two durable commits each, and return items per second.

    Every thread has a connection of its own and lets SQLite wait for the write lock.
    """
    path = folder / "bare.db"
    local = threading.local()

    def connection() -> sqlite3.Connection:
        if not hasattr(local, "connection"):
            local.connection = sqlite3.connect(
                path, timeout=30, isolation_level=None, check_same_thread=False
            )
            local.connection.execute("PRAGMA journal_mode=WAL")
            local.connection.execute("PRAGMA synchronous=FULL")
            opened.append(local.connection)
        made: sqlite3.Connection = local.connection
        return made

    opened: list[sqlite3.Connection] = []
    connection().execute("CREATE TABLE attempt (id TEXT PRIMARY KEY, state TEXT, job_id TEXT, source TEXT)")
    client = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False)

    def one(number: int) -> None:
        database, key = connection(), f"item-{number}-attempt-1"
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO attempt VALUES (?, 'sending', NULL, '/x')", (key,))
        database.execute("COMMIT")
        answer = client.post(
            f"{url}/jobs",
            json={"url": "/x", "filename": key},
            headers={"x-api-key": "sk_bench", "x-idempotency-key": key},
        )
        job_id = answer.json()["job_id"]
        database.execute("BEGIN IMMEDIATE")
        database.execute("UPDATE attempt SET state = 'submitted', job_id = ? WHERE id = ?", (job_id, key))
        database.execute("COMMIT")

    begun_at = time.perf_counter()
    with client, ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(one, range(count)))
    spent = time.perf_counter() - begun_at
    for each in opened:
        each.close()
    return count / spent


def lookups(url: str, count: int) -> float:
    """Ask about ``count`` jobs and return questions per second."""

    def one(number: int) -> str:
        status: str = client.get(f"{url}/jobs/job-{number}", headers={"x-api-key": "sk_bench"}).json()[
            "status"
        ]
        return status

    client = httpx.Client(limits=httpx.Limits(max_keepalive_connections=WIDTH), trust_env=False)
    begun_at = time.perf_counter()
    with client, ThreadPoolExecutor(WIDTH) as pool:
        list(pool.map(one, range(count)))
    return count / (time.perf_counter() - begun_at)
