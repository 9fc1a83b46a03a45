"""The exceptions of the package, and the drawing of their tree."""

import pickle
import re

import pytest

from prefect_media_jobs.blocks import errors


def all_errors() -> list[type[Exception]]:
    """Return every exception the module defines."""
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__ == errors.__name__
    ]


def drawn() -> dict[str, str]:
    """Return each exception the docstring draws, with the one it hangs from."""
    parents: dict[str, str] = {}
    branch: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        found = re.fullmatch(r"    ((?:[│├└─ ] *)*)(\w+Error)\b.*", line)
        if found is None:
            continue
        depth = len(found.group(1)) // 4
        branch = [*branch[:depth], found.group(2)]
        parents[found.group(2)] = branch[-2] if depth else "Exception"
    return parents


def test_the_drawn_tree_is_the_real_one() -> None:
    """The tree in the module's docstring has every exception, each at its real place."""
    expected = {kind.__name__: kind.__bases__[0].__name__ for kind in all_errors()}
    assert expected == drawn()


@pytest.mark.parametrize("kind", all_errors())
def test_an_error_survives_pickling(kind: type[Exception]) -> None:
    """Prefect pickles exceptions, so kind, text and arguments come through unchanged."""
    error = kind("The ledger cannot be used; check the server.", 7)
    copy = pickle.loads(pickle.dumps(error))
    assert (kind, error.args, str(error)) == (type(copy), copy.args, str(copy))


@pytest.mark.parametrize("kind", all_errors())
def test_an_error_says_what_it_means(kind: type[Exception]) -> None:
    """Every exception has a docstring of its own, and the common base."""
    assert kind.__doc__
    assert issubclass(kind, errors.MediaJobsError)


def test_bad_input_is_a_value_error() -> None:
    """Callers who know only Python's own exceptions can catch bad input."""
    assert issubclass(errors.InvalidInputError, ValueError)
