"""Workers whose clocks are wrong: leases and deadlines go by the clock of the PostgreSQL server."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from tests.support.attempts import a_request
from tests.support.processes import children
from tests.workers.working import claim_by_another_clock

MINUTE = timedelta(minutes=1)


@pytest.fixture
def shared(postgres_url: str) -> Iterator[AttemptLedger]:
    """A ledger on PostgreSQL with ten recorded attempts. SQLite has no clock but that of its one host."""
    ledger = AttemptLedger(url=SecretStr(postgres_url))
    ledger.record_attempts([a_request(f"e-{number}") for number in range(10)])
    yield ledger
    ledger.close()


@pytest.mark.parametrize("order", [(10, -10, 0), (-10, 10, 0), (0, 10, -10)], ids=str)
def test_workers_with_wrong_clocks_share_out_the_work(
    shared: AttemptLedger, postgres_url: str, order: tuple[int, ...]
) -> None:
    """Workers whose clocks differ by ten minutes never get an attempt that another one holds."""
    given: list[str] = []
    for minutes in order:
        with children(claim_by_another_clock, [[postgres_url, minutes, 4]]) as workers:
            told = workers[0].result()
        assert abs(told["clock"] - datetime.now(UTC) - minutes * MINUTE) < MINUTE
        assert {abs(until - shared.now() - 5 * MINUTE) < MINUTE for until in told["claimed"].values()} <= {
            True
        }
        given += told["claimed"]
    assert sorted(attempt.attempt_id for attempt in shared.list_attempts()) == sorted(given)


@pytest.mark.parametrize("minutes", [10, -10])
def test_a_deadline_goes_by_the_servers_clock(shared: AttemptLedger, postgres_url: str, minutes: int) -> None:
    """The deadline of a sender with a wrong clock is neither over at once nor ten minutes late."""
    with children(claim_by_another_clock, [[postgres_url, minutes, 1]]) as workers:
        told = workers[0].result()
    assert told["deadline"] - told["sent_at"] == 5 * MINUTE
    assert abs(told["sent_at"] - shared.now()) < MINUTE
    assert shared.claim_due(["reconcile"]) == []
