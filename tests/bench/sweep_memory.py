"""Sweep over so many open attempts and print this process's peak memory in MB."""

import resource
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import run
from sqlalchemy import create_engine, text

from prefect_media_jobs.blocks import AttemptLedger, TornadoApi
from prefect_media_jobs.blocks.domain.attempt import Action
from prefect_media_jobs.flows.recovery import look_up_page
from prefect_media_jobs.flows.submission import PAGE


def main(count: int) -> None:
    """Make the attempts with SQL in a process that is not measured, then sweep."""
    with tempfile.TemporaryDirectory() as folder, run.stub() as url:
        path = Path(folder) / "ledger.db"
        run.subprocess.run([sys.executable, __file__, "fill", str(path), str(count)], check=True)
        ledger = AttemptLedger(url=f"sqlite:///{path}")
        api = TornadoApi(base_url=url, api_key="sk_bench")
        begun_at, swept = datetime.now(UTC), 0
        while page := ledger.claim_due([Action.LOOKUP], PAGE, run.LEASE, due_before=begun_at):
            swept += len(look_up_page.fn(ledger, api, page))
        assert swept == count
        ledger.close()
        api.close()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def fill(path: str, count: int) -> None:
    """Record the attempts and make them look submitted."""
    ledger = AttemptLedger(url=f"sqlite:///{path}")
    ledger.record_attempts(run.requests(count))
    ledger.close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(
            text("UPDATE attempt SET state = 'submitted', job_id = attempt_id, sent_at = asked_at")
        )
    engine.dispose()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        main(int(sys.argv[1]))
