"""Rules the database keeps by itself, shown with SQL that goes past all Python."""

import pytest
from sqlalchemy.exc import IntegrityError

from prefect_media_jobs.blocks import AttemptLedger
from prefect_media_jobs.blocks.domain.states import LIVE, State
from tests.support.ledgers import Sql, bring_to

COLUMNS = (
    "attempt_id, item_key, request_key, source, settings, api, state, version, job_id, batch_job_ids, twin, "
    "lookups, failures, not_found_count, asked_at, sent_at, changed_at"
)


@pytest.fixture
def rows(ledger: AttemptLedger) -> AttemptLedger:
    """A ledger with an attempt in each state, called after it."""
    for state in State:
        bring_to(ledger, state, f"in-{state}")
    return ledger


def refused(sql: Sql, statement: str, *names: str) -> None:
    """Assert that the database refuses a statement by one of its named rules, and keeps everything."""
    before = sql.dump()
    with pytest.raises(IntegrityError) as caught:
        sql.run(statement)
    assert any(name in str(caught.value) for name in names), str(caught.value)
    assert sql.dump() == before


def in_state(state: str) -> str:
    """Return the condition that picks the attempt of a state."""
    return f"WHERE attempt_id = 'in-{state}-attempt-1'"


@pytest.mark.parametrize(
    "column", ["attempt.state", "attempt.closed_from", "attempt_event.from_state", "attempt_event.to_state"]
)
def test_only_the_states_of_the_design_can_be_stored(rows: AttemptLedger, sql: Sql, column: str) -> None:
    """A word that is no state is refused by every column that holds one."""
    assert rows
    table, _, name = column.partition(".")
    for word in ("flying", "", "SUBMITTED", "Submitted"):
        statement = f"UPDATE {table} SET {name} = '{word}' {in_state('submitted')}"
        refused(sql, statement, f"ck_{table}_{name}")


def test_only_known_grounds_can_be_stored(rows: AttemptLedger, sql: Sql) -> None:
    """Grounds that the design does not have are refused."""
    assert rows
    statement = "UPDATE attempt SET grounds = 'because' WHERE attempt_id = 'in-superseded-attempt-2'"
    refused(sql, statement, "grounds")


def test_what_was_bought_has_an_id(rows: AttemptLedger, sql: Sql) -> None:
    """An attempt the API accepted cannot lose its job id."""
    assert rows
    for state in ("submitted", "completed", "failed", "lost", "delivered", "missing"):
        refused(sql, f"UPDATE attempt SET job_id = NULL {in_state(state)}", "bought_has_id")


def test_what_was_not_bought_has_no_id(rows: AttemptLedger, sql: Sql) -> None:
    """An attempt without an answer cannot have a job or a batch."""
    assert rows
    for state in ("recorded", "sending", "uncertain", "rejected"):
        for column in ("job_id", "batch_id"):
            refused(sql, f"UPDATE attempt SET {column} = 'j-x' {in_state(state)}", "unbought_has_no_id")


def test_a_batch_is_an_id_too(rows: AttemptLedger, sql: Sql) -> None:
    """A batch id stands in for the job id of an accepted attempt."""
    assert rows
    sql.run(f"UPDATE attempt SET job_id = NULL, batch_id = 'b-1' {in_state('submitted')}")
    assert sql.run(f"SELECT batch_id FROM attempt {in_state('submitted')}") == [("b-1",)]


def test_what_was_sent_has_a_time(rows: AttemptLedger, sql: Sql) -> None:
    """Whatever may have left has the instant it was sent at."""
    assert rows
    for state in sorted(set(State) - {State.RECORDED, State.ABANDONED}):
        refused(sql, f"UPDATE attempt SET sent_at = NULL {in_state(state)}", "sent_has_time")


def test_a_replacement_has_grounds(rows: AttemptLedger, sql: Sql) -> None:
    """An attempt that replaces another says why, and grounds without a replaced attempt do not exist."""
    assert rows
    for assignment in ("grounds = NULL", "replaces = NULL", "grounds = NULL, replaces = 'in-lost-attempt-1'"):
        statement = f"UPDATE attempt SET {assignment} WHERE attempt_id = 'in-superseded-attempt-2'"
        refused(sql, statement, "replacement_has_grounds")


def test_superseded_names_its_successor(rows: AttemptLedger, sql: Sql) -> None:
    """A superseded attempt names the one that replaced it, and no other attempt names one."""
    assert rows
    for statement in (
        f"UPDATE attempt SET superseded_by = NULL {in_state('superseded')}",
        f"UPDATE attempt SET superseded_by = 'in-lost-attempt-1' {in_state('failed')}",
        f"UPDATE attempt SET state = 'superseded' {in_state('failed')}",
    ):
        refused(sql, statement, "superseded_by_one")


def test_a_job_id_is_not_empty(rows: AttemptLedger, sql: Sql) -> None:
    """An empty job id is refused."""
    assert rows
    refused(sql, f"UPDATE attempt SET job_id = '' {in_state('submitted')}", "job_id_not_empty")


def test_a_version_is_positive(rows: AttemptLedger, sql: Sql) -> None:
    """A version below one is refused."""
    assert rows
    for version in (0, -1):
        refused(sql, f"UPDATE attempt SET version = {version} {in_state('submitted')}", "version_positive")


def test_a_job_belongs_to_one_attempt(rows: AttemptLedger, sql: Sql) -> None:
    """Two attempts of one API cannot have the same job."""
    assert rows
    statement = f"UPDATE attempt SET job_id = 'job-in-completed' {in_state('submitted')}"
    refused(sql, statement, "uq_attempt_api_job_id", "attempt.api, attempt.job_id")


def copy_of(state: str, new_state: str) -> str:
    """Return SQL that inserts a second attempt for the request of the attempt in a state."""
    picked = COLUMNS.replace("attempt_id", "'copy'", 1).replace("job_id", "NULL", 1)
    picked = picked.replace(" state,", f" '{new_state}',", 1)
    return f"INSERT INTO attempt ({COLUMNS}) SELECT {picked} FROM attempt {in_state(state)}"


def test_a_request_has_one_live_attempt(rows: AttemptLedger, sql: Sql) -> None:
    """A second live attempt for a request is refused, in whatever live state the first is."""
    assert rows
    for state in sorted(LIVE):
        refused(sql, copy_of(state, "recorded"), "uq_attempt_live_request", "attempt.request_key")


@pytest.mark.parametrize("state", ["rejected", "abandoned"])
def test_a_closed_attempt_does_not_count(rows: AttemptLedger, sql: Sql, state: str) -> None:
    """Beside a closed attempt there may be one live attempt for the request."""
    assert rows
    sql.run(copy_of(state, "recorded"))
    assert sql.run("SELECT state FROM attempt WHERE attempt_id = 'copy'") == [("recorded",)]


def test_a_closed_attempt_cannot_come_back(rows: AttemptLedger, sql: Sql) -> None:
    """A closed attempt cannot be made live again beside the live one of its request."""
    assert rows
    for state in sorted(LIVE):
        sql.run(copy_of(state, "abandoned"))
        statement = "UPDATE attempt SET state = 'recorded' WHERE attempt_id = 'copy'"
        refused(sql, statement, "uq_attempt_live_request", "attempt.request_key")
        sql.run("DELETE FROM attempt WHERE attempt_id = 'copy'")


def test_an_attempt_id_is_unique(rows: AttemptLedger, sql: Sql) -> None:
    """Two attempts cannot share their id."""
    assert rows
    statement = (
        "UPDATE attempt SET attempt_id = 'in-lost-attempt-1' WHERE attempt_id = 'in-recorded-attempt-1'"
    )
    with pytest.raises(IntegrityError):
        sql.run(statement)


def test_a_version_has_one_event(rows: AttemptLedger, sql: Sql) -> None:
    """The history has one row for each version of an attempt."""
    assert rows
    statement = (
        "INSERT INTO attempt_event (attempt_id, at, event, to_state, version, actor) "
        "SELECT attempt_id, at, event, to_state, version, actor FROM attempt_event "
        "WHERE attempt_id = 'in-recorded-attempt-1'"
    )
    refused(sql, statement, "uq_attempt_event_attempt_id_version", "attempt_event.version")


def test_nothing_points_to_nowhere(rows: AttemptLedger, sql: Sql) -> None:
    """Histories and links name attempts that exist, so no attempt with a history can be deleted."""
    assert rows
    for statement in (
        "UPDATE attempt_event SET attempt_id = 'nobody' WHERE event = 'lose'",
        "DELETE FROM attempt WHERE attempt_id = 'in-lost-attempt-1'",
        f"UPDATE attempt SET replaces = 'nobody', grounds = 'refused' {in_state('lost')}",
        f"UPDATE attempt SET superseded_by = 'nobody' {in_state('superseded')}",
    ):
        refused(sql, statement, "FOREIGN KEY", "foreign key")


def test_what_every_attempt_has_cannot_be_missing(rows: AttemptLedger, sql: Sql) -> None:
    """Columns without which an attempt means nothing cannot be emptied."""
    assert rows
    needed = (
        "item_key request_key source settings api state version twin lookups failures not_found_count "
        "batch_job_ids asked_at changed_at"
    )
    for column in needed.split():
        refused(sql, f"UPDATE attempt SET {column} = NULL {in_state('lost')}", f"attempt.{column}", column)


@pytest.fixture
def handed(ledger: AttemptLedger) -> AttemptLedger:
    """A ledger with one result that is due to a consumer."""
    bring_to(ledger, State.DELIVERED)
    assert len(ledger.due_handoffs("publisher", 10)) == 1
    return ledger


HANDOFF_COLUMNS = "delivery_key, request_key, consumer, attempt_id, state, version, tries, changed_at"


@pytest.mark.parametrize(
    ("assignment", "rule"),
    [
        ("state = 'flying'", "state"),
        ("state = 'accepted'", "accepted_has_time"),
        ("state = 'consumed', consumed_at = changed_at", "accepted_has_time"),
        ("state = 'consumed', accepted_at = changed_at", "consumed_has_time"),
        ("consumed_at = changed_at", "consumed_has_time"),
        ("attempt_id = 'nobody'", "FOREIGN KEY"),
        ("consumer = NULL", "consumer"),
    ],
)
def test_a_handoff_keeps_its_rules(handed: AttemptLedger, sql: Sql, assignment: str, rule: str) -> None:
    """A handoff has a known state, an attempt, and the instants its state implies."""
    assert handed
    refused(sql, f"UPDATE handoff SET {assignment}", rule, rule.lower())


def test_a_request_is_handed_over_once_a_consumer(handed: AttemptLedger, sql: Sql) -> None:
    """A second handoff of a request to the same consumer is refused, whatever attempt it comes from."""
    bring_to(handed, State.DELIVERED, "twin")
    values = HANDOFF_COLUMNS.replace("delivery_key", "'other'").replace("attempt_id", "'twin-attempt-1'")
    statement = f"INSERT INTO handoff ({HANDOFF_COLUMNS}) SELECT {values} FROM handoff"
    refused(sql, statement, "uq_handoff_request_key_consumer", "handoff.request_key, handoff.consumer")


def test_a_delivery_key_is_unique(handed: AttemptLedger, sql: Sql) -> None:
    """A second handoff under the same delivery key is refused."""
    assert handed
    values = HANDOFF_COLUMNS.replace("consumer", "'other'")
    statement = f"INSERT INTO handoff ({HANDOFF_COLUMNS}) SELECT {values} FROM handoff"
    refused(sql, statement, "pk_handoff", "handoff.delivery_key")
