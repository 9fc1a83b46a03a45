"""Signed links are secrets wherever an outcome goes."""

import copy
import pickle
from collections.abc import Callable

import pytest

from prefect_media_jobs.blocks.domain.outcomes import Delivery, Intact, Link, ListedJob, Succeeded
from tests.support.attempts import SOURCE, an_attempt

URL = "https://user:canary@bucket.example.org/42.mp4?X-Amz-Signature=canary#canary"
LINK = Link(URL)


def test_a_link_is_revealed_byte_for_byte() -> None:
    """Whoever fetches the file gets the link exactly as the API gave it."""
    assert LINK.reveal() == URL


SHOWN: list[Callable[[object], str]] = [str, repr, "{}".format, "{!r}".format, lambda value: f"{value!s:>10}"]


@pytest.mark.parametrize("show", SHOWN)
@pytest.mark.parametrize(
    "value",
    [
        LINK,
        [LINK],
        {"link": LINK},
        Succeeded("Completed", LINK, 1, "key"),
        Intact(LINK, 1, "mp4"),
        Delivery("d", "episode-42", "episode-42-attempt-1", "j-1", LINK, {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_way_of_showing_reveals_a_link(value: object, show: Callable[[object], str]) -> None:
    """A link, and any value that holds one, is shown without query, fragment and user part."""
    assert "canary" not in show(value)
    assert "https://bucket.example.org/42.mp4" in show(value)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_link_is_not_pickled(protocol: int) -> None:
    """Pickling a link, or what holds one, fails, so that no result storage ever keeps it."""
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(LINK, protocol)
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(Succeeded("Completed", LINK), protocol)


def test_a_link_is_not_copied_by_accident() -> None:
    """A deep copy goes through the pickling rules, so it fails as well."""
    with pytest.raises(TypeError, match="not pickled"):
        copy.deepcopy(LINK)


def test_a_link_has_no_attributes_to_dump() -> None:
    """Tools that show ``vars()`` of a value find nothing in a link."""
    assert not hasattr(LINK, "__dict__")


def test_an_attempt_does_not_show_its_source() -> None:
    """The repr of an attempt leaves the source out, and ``shown_source`` has lost its query."""
    attempt = an_attempt()
    assert "canary" in SOURCE
    assert "canary" not in repr(attempt)
    assert attempt.shown_source == "https://media.example.org/raw/42.mov"


def test_a_listed_job_does_not_show_its_source() -> None:
    """The repr of an entry of the job list leaves its source out."""
    assert "canary" not in repr(ListedJob("j-1", SOURCE, "Completed", None, None, None))
