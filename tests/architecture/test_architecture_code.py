"""What the shape of the product's code promises, read from its source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("blocks", "flows", "deployments")
PRODUCT = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
MIGRATIONS = "blocks/ledger/migrations/versions/"
"""Tables written out as they were at the time; a list of columns is not made clearer by cutting it up."""
FLOWS = sorted((ROOT / "flows").glob("*.py"))
LONGEST_LINES = 45


def named(path: Path) -> str:
    """Return a file as it is told in a failure."""
    return str(path.relative_to(ROOT))


def nodes(path: Path) -> Iterator[ast.AST]:
    """Return everything in a file's source."""
    return ast.walk(ast.parse(path.read_text()))


def imported(path: Path) -> set[str]:
    """Return the modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return how many lines a function's body has, its docstring not counted."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_there_is_code_to_look_at() -> None:
    """The folders that these tests read are the product's."""
    assert {"blocks/errors.py", "flows/submission.py"} <= {named(path) for path in PRODUCT}


@pytest.mark.parametrize("path", PRODUCT, ids=named)
def test_imports_are_absolute(path: Path) -> None:
    """A relative import deploys without complaint and crashes at run time."""
    assert [node.module for node in nodes(path) if isinstance(node, ast.ImportFrom) and node.level] == []


@pytest.mark.parametrize(
    "path", [path for path in PRODUCT if not named(path).startswith(MIGRATIONS)], ids=named
)
def test_functions_are_short(path: Path) -> None:
    """A function that can be read at a glance has at most 45 lines."""
    functions = [node for node in nodes(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    assert [function.name for function in functions if body_lines(function) > LONGEST_LINES] == []


@pytest.mark.parametrize("path", FLOWS, ids=named)
def test_annotations_are_not_postponed(path: Path) -> None:
    """A served flow loses the names in annotations that are text, and every run of it fails."""
    assert "__future__" not in imported(path)


@pytest.mark.parametrize("path", FLOWS, ids=named)
def test_flows_speak_to_no_database_and_no_network(path: Path) -> None:
    """Flows reach the ledger and the API through blocks alone."""
    roots = {module.partition(".")[0] for module in imported(path)}
    assert roots & {"sqlalchemy", "sqlmodel", "sqlite3", "httpx", "requests", "urllib", "socket"} == set()


@pytest.mark.parametrize("path", FLOWS, ids=named)
def test_nothing_can_stop_a_submission_between_the_answer_and_its_commit(path: Path) -> None:
    """Flows have no time-outs and no concurrency slots, which inject exceptions into running code."""
    keywords = {node.arg for node in nodes(path) if isinstance(node, ast.keyword)}
    names = {node.id for node in nodes(path) if isinstance(node, ast.Name)}
    assert keywords & {"timeout_seconds", "strict_concurrency", "concurrency_limit"} == set()
    assert names & {"concurrency", "rate_limit", "transaction"} == set()
    assert [module for module in imported(path) if module.startswith("prefect.concurrency")] == []


def test_steps_do_not_know_prefect() -> None:
    """Nothing of Prefect can come between the API's answer and the commit: the steps do not import it."""
    roots = {module.partition(".")[0] for module in imported(ROOT / "flows" / "steps.py")}
    assert roots & {"prefect", "prefect_media_jobs"} == {"prefect_media_jobs"}
