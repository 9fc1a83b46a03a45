"""Many processes start at once on a database that has no schema, or an old one."""

import signal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config

from prefect_media_jobs.blocks.domain.states import State
from prefect_media_jobs.blocks.ledger import schema
from prefect_media_jobs.blocks.ledger.database import Database
from prefect_media_jobs.blocks.ledger.locating import parse_url
from tests.ledger.test_ledger_schema import described
from tests.support.filling import fill
from tests.support.ledgers import Sql
from tests.support.processes import PROCESSES, children
from tests.workers.working import die_at_statement, upgrade

AT_ONCE = 8
OLD = "0001"


def make_old(url: str) -> None:
    """Make a ledger of the first version."""
    database = Database(parse_url(url))
    config = Config()
    config.set_main_option("script_location", str(Path(schema.__file__).with_name("migrations")))

    def migrate(tx: Any) -> None:
        config.attributes["connection"] = tx.connection
        command.upgrade(config, OLD)

    database.write(migrate)
    database.dispose()


def upgrade_at_once(url: str) -> list[str | None]:
    """Let many processes upgrade at the same moment, and return the versions they found."""
    barrier = PROCESSES.Barrier(AT_ONCE)
    with children(upgrade, [[url, barrier]] * AT_ONCE) as started:
        return [child.result() for child in started]


def test_one_of_many_makes_the_schema(bare_url: str) -> None:
    """Of eight processes that start at once on an empty database one makes it, and all of them use it."""
    found = upgrade_at_once(bare_url)
    assert sorted(found, key=str) == [schema.HEAD] * (AT_ONCE - 1) + [None]
    assert Sql(bare_url).run("SELECT count(*) FROM attempt") == [(AT_ONCE,)]
    assert Sql(bare_url).run(f"SELECT * FROM {schema.VERSION_TABLE}") == [(schema.HEAD,)]


def test_one_of_many_upgrades_an_old_ledger(bare_url: str, made_url: str) -> None:
    """Of eight processes that start at once on an old ledger of 10,000 rows one upgrades it, losing none."""
    make_old(bare_url)
    sql = Sql(bare_url)
    fill(sql, State.SUBMITTED, 10_000)
    before = sql.run("SELECT * FROM attempt ORDER BY attempt_id")
    assert sorted(upgrade_at_once(bare_url), key=str) == [OLD] + [schema.HEAD] * (AT_ONCE - 1)
    rows = sql.run("SELECT * FROM attempt WHERE item_key NOT LIKE 'by-%' ORDER BY attempt_id")
    assert before == rows
    assert described(made_url) == described(bare_url)


def kill_at_statements(url: str, step: int) -> int:
    """Kill a process before every so many-th statement of an upgrade, then finish it; return how often."""
    before, number = sa.inspect(Sql(url).engine).get_table_names(), 1
    while True:
        with children(die_at_statement, [[url, number]]) as started:
            if started[0].exit_code() != -signal.SIGKILL:
                break
        number += step
        assert before == sa.inspect(Sql(url).engine).get_table_names()
    assert Sql(url).run(f"SELECT * FROM {schema.VERSION_TABLE}") == [(schema.HEAD,)]
    print(f"\nkilled at {number // step} statements")
    return number // step


@pytest.mark.parametrize("old", [False, True], ids=["empty", "old"])
def test_an_upgrade_that_is_killed_is_finished_by_the_next(bare_url: str, *, old: bool) -> None:
    """A process killed in the middle of an upgrade leaves a database that the next one finishes."""
    if old:
        make_old(bare_url)
    assert kill_at_statements(bare_url, step=5) >= 2


@pytest.mark.long
@pytest.mark.parametrize("old", [False, True], ids=["empty", "old"])
def test_an_upgrade_killed_at_any_statement_is_finished_by_the_next(bare_url: str, *, old: bool) -> None:
    """A process killed before any statement of an upgrade leaves a database that the next one finishes."""
    if old:
        make_old(bare_url)
    assert kill_at_statements(bare_url, step=1) > (5 if old else 15)
