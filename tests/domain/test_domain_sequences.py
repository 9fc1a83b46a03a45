"""Whatever the world answers, in whatever order, an attempt is sent once and never forgotten."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from prefect_media_jobs.blocks.domain import outcomes as o
from prefect_media_jobs.blocks.domain.attempt import Attempt
from prefect_media_jobs.blocks.domain.decisions import (
    Change,
    decide_inspection,
    decide_lookup,
    decide_overdue,
    decide_search,
    decide_submission,
)
from prefect_media_jobs.blocks.domain.states import State, allows
from tests.support.attempts import NOW, SOURCE, an_attempt

ENDED = {"delivered"}
FOR_A_PERSON = {"rejected", "failed", "lost", "missing"}
OPEN = {"recorded", "uncertain", "submitted", "completed"}

texts = st.text(max_size=20)
pauses = st.none() | st.floats(min_value=0, max_value=3600)
could_not_ask = st.builds(o.CouldNotAsk, texts, pauses, st.booleans())
submit_outcomes = st.one_of(
    st.builds(o.Accepted, st.sampled_from(["j-1", "j-2"])),
    st.builds(o.AcceptedBatch, st.just("b-1"), st.just(("j-1", "j-2"))),
    st.builds(o.Refused, st.integers(400, 499), texts),
    st.builds(o.NotSent, texts),
    st.builds(o.Unknown, texts),
)
listed = st.builds(
    o.ListedJob,
    job_id=st.sampled_from(["j-1", "j-2", "j-3"]),
    url=st.sampled_from([SOURCE, "https://other.example.org/"]),
    status=texts,
    marker=st.sampled_from([None, "episode-42-attempt-1", "other"]),
    object_key=st.none(),
    created_at=st.sampled_from([None, NOW, NOW - timedelta(days=9)]),
)
find_outcomes = could_not_ask | st.builds(
    o.JobList, st.lists(listed, max_size=3, unique_by=lambda job: job.job_id).map(tuple), st.booleans()
)
lookup_outcomes = st.one_of(
    st.builds(o.Running, texts, st.none() | texts),
    st.builds(o.Succeeded, texts),
    st.builds(o.Unsuccessful, texts, texts),
    st.builds(o.NotFound, texts),
    could_not_ask,
    st.builds(o.Unrecognised, texts),
)
inspections = st.one_of(
    st.builds(o.Intact, st.just(o.Link(SOURCE)), st.integers(1), st.just("mp4"), st.none() | texts),
    st.builds(o.LinkExpired, texts),
    st.builds(o.FileMissing, texts),
    st.builds(o.Forbidden, texts),
    st.builds(o.Damaged, texts),
    could_not_ask,
)
owned = st.frozensets(st.sampled_from(["j-1", "j-2", "j-3"]))
times = st.sampled_from([0, 1, 30, 600, 3600, 86_400])


@dataclass
class World:
    """One attempt, how often it was sent, and how often it was proved that it had not been."""

    attempt: Attempt
    now: datetime
    sent: int = 0
    proofs: int = 0

    def begin(self) -> None:
        """Send what is recorded."""
        self.sent += 1
        self.attempt = replace(self.attempt, state=State.SENDING, changed_at=self.now, due_at=self.now)

    def write(self, change: Change) -> None:
        """Apply a decision as the ledger does."""
        assert allows(change.event, self.attempt.state, change.to)
        due_at = None if change.due_in_s is None else self.now + timedelta(seconds=change.due_in_s)
        moved: dict[str, Any] = {} if change.to is self.attempt.state else {"changed_at": self.now}
        if change.event == "not_sent":
            self.proofs += 1
        assert self.attempt.job_id in {None, change.facts.get("job_id", self.attempt.job_id)}
        self.attempt = replace(self.attempt, state=change.to, due_at=due_at, **moved, **change.facts)


def step(world: World, data: st.DataObject) -> None:
    """Let one thing happen that can happen in the attempt's state."""
    attempt, now = world.attempt, world.now
    match attempt.state:
        case State.RECORDED:
            world.begin()
        case State.SENDING:
            answer = data.draw(st.none() | submit_outcomes)
            world.write(decide_overdue() if answer is None else decide_submission(answer))
        case State.UNCERTAIN:
            late = data.draw(st.none() | st.builds(o.Accepted, st.just("j-9")))
            if late is not None:
                world.write(decide_submission(late))
            else:
                world.write(decide_search(attempt, data.draw(find_outcomes), data.draw(owned), now))
        case State.SUBMITTED if attempt.job_id is not None:
            world.write(decide_lookup(attempt, data.draw(lookup_outcomes), now))
        case State.COMPLETED:
            world.write(decide_inspection(attempt, data.draw(inspections), now))
        case _:
            pass


@given(data=st.data(), waits=st.lists(times, min_size=1, max_size=40))
@settings(max_examples=250, deadline=None)
def test_no_sequence_of_answers_buys_twice_or_forgets(data: st.DataObject, waits: list[int]) -> None:
    """Any sequence of answers leaves the attempt ended, due again, or before a person, and sends it once."""
    recorded = an_attempt(state=State.RECORDED, job_id=None, sent_at=None)
    world = World(recorded, NOW)
    for wait in waits:
        world.now += timedelta(seconds=wait)
        step(world, data)
        attempt = world.attempt
        assert world.sent <= 1 + world.proofs
        waits_for_a_person = attempt.state in FOR_A_PERSON or attempt.batch_id is not None
        is_open = attempt.state in OPEN | {"sending"} and attempt.due_at is not None
        assert attempt.state in ENDED or waits_for_a_person or is_open


@given(
    answer=submit_outcomes,
    found=find_outcomes,
    looked_up=lookup_outcomes,
    inspected=inspections,
    age_s=st.integers(0, 10**7),
)
@settings(max_examples=200, deadline=None)
def test_no_decision_leads_back_to_sending(
    answer: o.SubmitOutcome,
    found: o.FindOutcome,
    looked_up: o.LookupOutcome,
    inspected: o.InspectOutcome,
    age_s: int,
) -> None:
    """No answer to any question makes an attempt be sent, and each decision is a move of the table."""
    now = NOW + timedelta(seconds=age_s)
    in_doubt = an_attempt(state=State.UNCERTAIN, job_id=None)
    completed = an_attempt(state=State.COMPLETED)
    decisions = [
        (State.SENDING, decide_submission(answer)),
        (State.SENDING, decide_overdue()),
        (State.UNCERTAIN, decide_search(in_doubt, found, frozenset(), now)),
        (State.SUBMITTED, decide_lookup(an_attempt(), looked_up, now)),
        (State.COMPLETED, decide_inspection(completed, inspected, now)),
    ]
    for source, change in decisions:
        assert change.to is not State.SENDING
        assert allows(change.event, source, change.to)
        assert change.to is not State.RECORDED or isinstance(answer, o.NotSent)
        assert change.due_in_s is None or 0 <= change.due_in_s <= 3600
