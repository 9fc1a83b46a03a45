"""The ledger in a SQLite file: private, durable; and, there and in PostgreSQL, usable by many at once."""

import os
import re
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.decisions import Change, Facts
from prefect_media_jobs.blocks.domain.states import Event, State
from prefect_media_jobs.blocks.errors import LedgerError, LedgerUnavailableError, MediaJobsError
from tests.support.attempts import a_request
from tests.support.ledgers import Sql, bring_to

THREADS = 20
WRITES = 50
KEPT = dict.fromkeys(range(THREADS), WRITES)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a ledger shall be, in folders that are not there yet."""
    return tmp_path / "new" / "folder" / "ledger.db"


def at(path: Path) -> AttemptLedger:
    """Return the ledger in a file."""
    return AttemptLedger(url=SecretStr(f"sqlite:///{path}"))


def mode(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], ids=oct)
def test_the_file_is_private(path: Path, umask: int) -> None:
    """The file and its side files can be read by their owner alone, whatever the umask."""
    before = os.umask(umask)
    try:
        ledger = at(path)
        ledger.record_attempts([a_request()])
        files = sorted(path.parent.iterdir())
        assert [file.name for file in files] == ["ledger.db", "ledger.db-shm", "ledger.db-wal"]
        assert {mode(file) for file in files} == {0o600}
        ledger.close()
    finally:
        os.umask(before)


def test_every_connection_is_durable_and_strict(path: Path) -> None:
    """WAL, full synchronisation and foreign keys are on in every connection, reading or writing."""
    ledger = at(path)
    ledger.check()
    gate = threading.Barrier(5)

    def pragmas(number: int) -> tuple[object, ...]:
        database = ledger._open()

        def look(tx: Any) -> tuple[object, ...]:
            if number:
                gate.wait(30)
            names = ("journal_mode", "synchronous", "foreign_keys")
            return tuple(tx.connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)

        return database.read(look) if number else database.write(look)

    with ThreadPoolExecutor(6) as pool:
        seen = list(pool.map(pragmas, [0, *range(1, 6)]))
    assert seen == [("wal", 2, 1)] * 6
    ledger.close()


def test_instants_are_stored_in_utc_with_their_zone(path: Path) -> None:
    """An instant is text of fixed width with the offset of UTC, so that it sorts and means one thing."""
    ledger = at(path)
    ledger.record_attempts([a_request()])
    ledger.close()
    with sqlite3.connect(path) as connection:
        (stored,) = connection.execute("SELECT asked_at FROM attempt").fetchone()
    connection.close()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", stored)


def test_every_zone_reads_the_same_instant(ledger: AttemptLedger, ledger_url: str, workers: Any) -> None:
    """Processes in Kolkata, New York, UTC and Chatham read the same instants, to the microsecond."""
    attempt = bring_to(ledger, State.SUBMITTED)
    for worker in workers:
        worker.ask("due_again", url=ledger_url, attempt_id=attempt.attempt_id)
    answers = [worker.answer() for worker in workers]
    assert len({answer["offset"] for answer in answers}) == 4
    assert {answer["asked_at"] for answer in answers} == {attempt.asked_at.isoformat()}
    assert {answer["due_at"] for answer in answers} == {attempt.due_at and attempt.due_at.isoformat()}


def test_every_zone_writes_the_same_instant(ledger: AttemptLedger, ledger_url: str, workers: Any) -> None:
    """What processes in four time zones write is stored as instants within this very minute."""
    before = ledger.now()
    for number, worker in enumerate(workers):
        worker.ask("write", url=ledger_url, keys=[f"item-{number}"])
    assert [worker.answer() for worker in workers] == ["ok"] * 4
    for attempt in ledger.list_attempts():
        assert before <= attempt.asked_at <= attempt.changed_at <= ledger.now()
        assert attempt.asked_at.utcoffset() == timedelta(0)


def test_every_zone_writes_the_same_text(path: Path, workers: Any) -> None:
    """What processes in four time zones write into a file is text in UTC."""
    for number, worker in enumerate(workers):
        worker.ask("write", url=f"sqlite:///{path}", keys=[f"item-{number}"])
    assert [worker.answer() for worker in workers] == ["ok"] * 4
    rows = Sql(f"sqlite:///{path}").run("SELECT asked_at, changed_at FROM attempt")
    assert [text[-6:] for row in rows for text in row] == ["+00:00"] * 8


def test_naive_instants_are_refused(ledger: AttemptLedger) -> None:
    """An instant without a zone is a bug, and is not written."""
    attempt = bring_to(ledger, State.SUBMITTED)
    naive = datetime(2026, 7, 1, 12)  # noqa: DTZ001 - the point of the test
    change = Change(Event.PROGRESS, State.SUBMITTED, Facts(not_found_since=naive), 0.0, "x")
    with pytest.raises(Exception, match="aware instants"):
        ledger.apply(attempt, change)
    assert ledger.read(attempt.attempt_id) == attempt


def mixed_writes(ledger: AttemptLedger, thread: int) -> int:
    """Record, begin, remember, claim and decide, until so many writes are done."""
    writes = 0
    while writes < WRITES:
        item = f"item-{thread}-{writes}"
        (attempt,) = ledger.record_attempts([a_request(item)])
        attempt = ledger.begin_attempt(attempt.attempt_id)
        attempt = ledger.remember_job(attempt.attempt_id, f"job-{item}")
        change = Change(Event.PROGRESS, State.SUBMITTED, Facts(lookups=1), 600.0, "Processing")
        ledger.apply(attempt, change)
        ledger.claim_due(["reconcile"], limit=1)
        assert ledger.recovery_plan(1)
        writes += 5
    return writes


def test_many_threads_and_another_process_write_at_once(
    ledger: AttemptLedger, ledger_url: str, workers: Any
) -> None:
    """Twenty threads with fifty writes each, beside another process that writes, meet no lock error."""
    keys = [f"other-{number}" for number in range(60)]
    workers[0].ask("write", url=ledger_url, keys=keys)
    with ThreadPoolExecutor(THREADS) as pool:
        done = dict(enumerate(pool.map(lambda thread: mixed_writes(ledger, thread), range(THREADS))))
    assert (done, workers[0].answer()) == (KEPT, "ok")
    assert ledger.summary().attempts == {State.SUBMITTED: THREADS * WRITES // 5 + 60}
    attempt_ids = [attempt.attempt_id for attempt in ledger.list_attempts()]
    assert {len(ledger.history(attempt_id)) for attempt_id in attempt_ids} == {3, 4}


def test_a_reader_does_not_wait_for_a_writer(path: Path) -> None:
    """Reading goes on while another connection holds the write lock, and sees what was committed."""
    ledger = at(path)
    ledger.record_attempts([a_request()])
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("UPDATE attempt SET version = 99")
    assert ledger.read("episode-42-attempt-1").version == 1
    other.execute("COMMIT")
    assert ledger.read("episode-42-attempt-1").version == 99
    other.close()
    ledger.close()


def test_a_writer_waits_for_its_turn(path: Path) -> None:
    """A write that finds the database locked waits until it is free instead of failing."""
    ledger = at(path)
    ledger.check()
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ledger.record_attempts, [a_request()])
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        other.execute("COMMIT")
        assert len(waiting.result(30)) == 1
    other.close()
    ledger.close()


def test_a_lock_that_is_not_given_up_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another process keeps the lock too long, the sentence says so, and nothing is written."""
    monkeypatch.setattr("prefect_media_jobs.blocks.ledger.database.BUSY_S", 0.05)
    ledger = at(path)
    ledger.check()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerUnavailableError, match="another process holds it"):
        ledger.record_attempts([a_request()])
    other.execute("ROLLBACK")
    assert ledger.list_attempts() == []
    other.close()
    ledger.close()


def one_sentence(error: MediaJobsError, path: Path) -> None:
    """Assert that an error names the place and says in one line what to do."""
    text = str(error)
    assert str(path) in text
    assert "\n" not in text
    assert "sqlalche.me" not in text
    assert text.endswith(".")
    assert error.__cause__ is None
    assert error.__suppress_context__


METHODS = ["upgrade", "check", "recovery_plan", "summary"]


@pytest.mark.parametrize("method", METHODS)
def test_a_file_that_is_no_database_is_told(tmp_path: Path, method: str) -> None:
    """Another file is neither taken for an empty ledger nor overwritten, whichever method meets it first."""
    path = tmp_path / "notes.txt"
    path.write_text("These are notes, and not a database.\n" * 100)
    with pytest.raises(LedgerUnavailableError, match="not a database") as caught:
        getattr(at(path), method)()
    one_sentence(caught.value, path)
    assert path.read_text() == "These are notes, and not a database.\n" * 100


@pytest.mark.parametrize("method", METHODS)
def test_a_folder_is_no_ledger(tmp_path: Path, method: str) -> None:
    """The path of a folder is told as such."""
    with pytest.raises(LedgerUnavailableError, match="cannot be opened") as caught:
        getattr(at(tmp_path), method)()
    one_sentence(caught.value, tmp_path)


def test_a_path_below_a_file_is_told(tmp_path: Path) -> None:
    """A folder that cannot be made is told, with the path."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(LedgerUnavailableError, match="cannot be opened") as caught:
        at(tmp_path / "file" / "ledger.db").check()
    one_sentence(caught.value, tmp_path / "file" / "ledger.db")


needs_permissions = pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")


@needs_permissions
def test_a_read_only_file_is_told(path: Path) -> None:
    """A ledger that cannot be written is told before anything is sent, and read access does not hide it."""
    ledger = at(path)
    ledger.check()
    ledger.close()
    path.chmod(0o400)
    with pytest.raises(LedgerUnavailableError, match="cannot be opened for writing") as caught:
        ledger.check()
    one_sentence(caught.value, path)


@needs_permissions
def test_a_read_only_folder_is_told(tmp_path: Path) -> None:
    """A folder in which no file can be made is told."""
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LedgerUnavailableError, match="Permission denied"):
            at(tmp_path / "ledger.db").check()
    finally:
        tmp_path.chmod(0o700)


def test_a_ledger_that_became_read_only_is_told(path: Path) -> None:
    """A database that turns read-only while it is used fails in one sentence, and keeps what it had."""
    ledger = at(path)
    ledger.record_attempts([a_request()])
    with ledger._open().engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    with pytest.raises(LedgerUnavailableError, match="readonly database") as caught:
        ledger.record_attempts([a_request("other")])
    one_sentence(caught.value, path)
    ledger.close()
    assert [attempt.item_key for attempt in ledger.list_attempts()] == ["episode-42"]
    ledger.close()


def test_a_full_disk_is_told(path: Path) -> None:
    """A database that cannot grow fails in one sentence that says so, and keeps what it had."""
    ledger = at(path)
    ledger.check()
    with ledger._open()._writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    with pytest.raises(LedgerUnavailableError, match="make room") as caught:
        ledger.record_attempts([a_request(f"e-{n}") for n in range(500)])
    one_sentence(caught.value, path)
    assert ledger.list_attempts() == []
    ledger.close()


def test_a_broken_database_is_told(path: Path) -> None:
    """A damaged file is told in one sentence, not taken for an empty ledger."""
    ledger = at(path)
    ledger.record_attempts([a_request(f"e-{n}") for n in range(50)])
    ledger.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(LedgerError) as caught:
        at(path).list_attempts()
    one_sentence(caught.value, path)


def test_a_closed_ledger_opens_again(path: Path) -> None:
    """After ``close`` the next call opens the file again, and nothing is lost."""
    ledger = at(path)
    (attempt,) = ledger.record_attempts([a_request()])
    ledger.close()
    assert not path.with_name("ledger.db-wal").exists()
    assert ledger.read(attempt.attempt_id) == attempt
    ledger.close()


def test_many_threads_may_open_at_once(path: Path) -> None:
    """Threads that use a new ledger at the same moment share one database and one migration."""
    ledger = at(path)
    gate = threading.Barrier(8)

    def use(number: int) -> int:
        gate.wait(30)
        ledger.record_attempts([a_request(f"e-{number}")])
        return id(ledger._open())

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(use, range(8)))) == 1
    assert len(ledger.list_attempts()) == 8
    ledger.close()


def test_a_new_file_that_is_just_being_written_is_waited_for(path: Path) -> None:
    """A file that is not yet in WAL mode and locked by another process is waited for, not given up."""
    path.parent.mkdir(parents=True)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("CREATE TABLE theirs (a INTEGER)")
    ledger = at(path)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ledger.check)
        with pytest.raises(TimeoutError):
            waiting.result(0.2)
        other.execute("ROLLBACK")
        other.close()
        assert waiting.result(30) is None
    ledger.close()


def test_many_processes_may_make_the_ledger(path: Path, workers: Any) -> None:
    """Four processes that open a file nobody has made yet all succeed, and all write to it."""
    for number, worker in enumerate(workers):
        worker.ask("first_use", url=f"sqlite:///{path}", keys=[f"e-{number}"])
    assert [worker.answer() for worker in workers] == ["ok"] * 4
    ledger = at(path)
    assert len(ledger.list_attempts()) == 4
    ledger.close()


def test_a_forked_child_has_its_own_connections(ledger_url: str, workers: Any) -> None:
    """After a fork, parent and child each use connections of their own, and both write."""
    workers[0].ask("fork", url=ledger_url)
    expected = {"child": 0, "parent_kept_its_own": True, "items": 22}
    assert expected == workers[0].answer()
