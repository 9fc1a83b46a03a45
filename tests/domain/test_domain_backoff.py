"""How long to wait before asking again."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prefect_media_jobs.blocks.domain.backoff import next_look_s, parse_retry_after

NOW = datetime(2026, 10, 21, 7, 28, tzinfo=UTC)


@pytest.mark.parametrize(
    ("expected", "age_s", "failures"),
    [
        (2.0, 0, 0),
        (2.0, 20, 0),
        (3.0, 30, 0),
        (60.0, 600, 0),
        (300.0, 3_000, 0),
        (300.0, 1e12, 0),
        (4.0, 0, 1),
        (16.0, 0, 3),
        (12.0, 30, 2),
        (300.0, 0, 8),
        (300.0, 0, 10**9),
    ],
)
def test_pauses_grow_with_age_and_failures(expected: float, age_s: float, failures: int) -> None:
    """A young job is asked about every few seconds, an old or silent one every few minutes."""
    assert expected == next_look_s(age_s, failures)


@given(st.floats(min_value=0, max_value=1e18), st.integers(0, 10**12))
def test_a_pause_is_always_bounded(age_s: float, failures: int) -> None:
    """No age and no number of failures makes the pause shorter than 2 or longer than 300 seconds."""
    assert 2.0 <= next_look_s(age_s, failures) <= 300.0


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (None, None),
        (None, ""),
        (None, "  "),
        (None, "soon"),
        (None, "nan"),
        (None, "inf"),
        (None, "-inf"),
        (None, "-5"),
        (None, "1e400"),
        (None, "\x00"),
        (0.0, "0"),
        (0.0, "-0"),
        (1.5, "1.5"),
        (120.0, "120"),
        (120.0, " 120 "),
        (3600.0, "3600"),
        (3600.0, "3601"),
        (3600.0, "1e300"),
        (90.0, "Wed, 21 Oct 2026 07:29:30 GMT"),
        (90.0, "Wed, 21 Oct 2026 09:29:30 +0200"),
        (90.0, "Wed, 21 Oct 2026 07:29:30 -0000"),
        (90.0, "Wednesday, 21-Oct-26 07:29:30 GMT"),
        (90.0, "Wed Oct 21 07:29:30 2026"),
        (0.0, "Wed, 21 Oct 2026 07:28:00 GMT"),
        (0.0, "Wed, 21 Oct 2015 07:28:00 GMT"),
        (0.0, "Mon, 01 Jan 0001 00:00:00 GMT"),
        (3600.0, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (None, "Wed, 21 Oct 99999 07:28:00 GMT"),
        (None, "Wed, 32 Oct 2026 07:28:00 GMT"),
        (None, f"Wed, 21 Oct 2026 07:28:00 +{'9' * 40}"),
    ],
)
def test_retry_after_is_seconds_or_a_date(expected: float | None, value: str | None) -> None:
    """A ``Retry-After`` header is read as seconds or as a date, bounded; what makes no sense is ignored."""
    assert expected == parse_retry_after(value, NOW)


dates = st.builds(
    "{}, {} {} {} {}:{}:{} {}".format,
    st.sampled_from(["Wed", "Xyz"]),
    st.integers(0, 99),
    st.sampled_from(["Oct", "Feb", "Foo"]),
    st.integers(0, 10**6),
    st.integers(0, 99),
    st.integers(0, 99),
    st.integers(0, 99),
    st.sampled_from(["GMT", "+0000", "-9999", "+99999", "", "UTC", "\x00"]),
)


@given(st.text(max_size=40) | dates | st.floats().map(str) | st.integers().map(str))
def test_no_header_breaks_the_loop(value: str) -> None:
    """Whatever text the header holds, the answer is nothing or between 0 and an hour."""
    seconds = parse_retry_after(value, NOW)
    assert seconds is None or 0 <= seconds <= 3600


def test_a_date_counts_from_the_instant_it_is_given() -> None:
    """A date is measured against the caller's clock, which may be the API's own."""
    date = "Wed, 21 Oct 2026 07:29:30 GMT"
    assert parse_retry_after(date, NOW + timedelta(seconds=60)) == 30.0
