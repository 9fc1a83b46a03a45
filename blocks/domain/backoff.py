"""How long to wait before asking again, in seconds."""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

FIRST_LOOK_S = 2.0
SLOWEST_LOOK_S = 300.0
RETRY_AFTER_CAP_S = 3600.0


def next_look_s(age_s: float, failures: int = 0) -> float:
    """Return the pause before the next look at a job.

    A young job is asked about every few seconds, an old one every few minutes; failed questions double the
    pause.

    Args:
        age_s: How long the attempt has been in its state, in seconds.
        failures: Questions in a row that got no usable answer.
    """
    pause = max(FIRST_LOOK_S, age_s / 10) * 2.0 ** min(failures, 8)
    return min(pause, SLOWEST_LOOK_S)


def parse_retry_after(value: str | None, now: datetime) -> float | None:
    """Read a ``Retry-After`` header: seconds or an HTTP date, as seconds from now.

    Returns:
        Between 0 and ``RETRY_AFTER_CAP_S``; None when absent or not readable (NaN, infinite and negative
        numbers are not readable).
    Source: RFC 9110, section 10.2.3.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, OverflowError):
            return None
        seconds = max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds())
    if not math.isfinite(seconds) or seconds < 0:
        return None
    return min(seconds, RETRY_AFTER_CAP_S)
