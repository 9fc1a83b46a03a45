"""What every flow and task promises, as Prefect sees them and as they are written."""

import ast
import importlib
import inspect
import typing
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from prefect import Flow, Task
from prefect.blocks.core import Block
from prefect.cache_policies import NO_CACHE
from pydantic import BaseModel, SecretBytes, SecretStr

ROOT = Path(__file__).parents[2]
MODULES = [path for path in sorted((ROOT / "flows").glob("*.py")) if path.stem != "__init__"]
LOOK_UP = "look-up-page"
"""The one task that Prefect may retry: it only asks."""
PLAIN = (str, int, float, bool, type(None), Enum)


def _defined() -> Iterator[Any]:
    for path in MODULES:
        module = importlib.import_module(f"prefect_media_jobs.flows.{path.stem}")
        for found in vars(module).values():
            if isinstance(found, Flow | Task) and found.fn.__module__ == module.__name__:
                yield found


def _decorated() -> Iterator[tuple[str, ast.Call | ast.expr]]:
    """Return each function that is decorated as a flow or task, and the decorator."""
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                for decorator in node.decorator_list:
                    name = decorator.func if isinstance(decorator, ast.Call) else decorator
                    if isinstance(name, ast.Name) and name.id in {"flow", "task"}:
                        yield node.name, decorator


DEFINED = list(_defined())
DECORATED = dict(_decorated())
TASKS = [each for each in DEFINED if isinstance(each, Task)]
WRITTEN = {
    name: {keyword.arg: ast.unparse(keyword.value) for keyword in decorator.keywords}
    for name, decorator in DECORATED.items()
    if isinstance(decorator, ast.Call)
}


def _id(each: Any) -> str:
    return str(each.name)


def test_no_flow_or_task_escapes_these_tests() -> None:
    """What is written as a flow or task is what Prefect sees, and there is no other."""
    assert sorted(DECORATED) == sorted(each.fn.__name__ for each in DEFINED)
    assert sorted(WRITTEN) == sorted(DECORATED)
    assert {"submit-media", "recover-media", "hand-off-media", "process-media", LOOK_UP} <= set(
        map(_id, DEFINED)
    )


@pytest.mark.parametrize("each", DEFINED, ids=_id)
def test_only_look_ups_are_retried(each: Any) -> None:
    """Every flow and task says how often it is retried, which is never, but for the questions."""
    assert "retries" in WRITTEN[each.fn.__name__]
    assert (each.retries > 0) == (each.name == LOOK_UP)


@pytest.mark.parametrize("each", DEFINED, ids=_id)
def test_no_result_is_persisted(each: Any) -> None:
    """A persisted result would stand in for the ledger, whatever the settings outside say."""
    assert WRITTEN[each.fn.__name__].get("persist_result") == "False"
    assert each.persist_result is False


@pytest.mark.parametrize("each", TASKS, ids=_id)
def test_no_task_is_cached(each: Any) -> None:
    """A cached answer is yesterday's answer."""
    assert WRITTEN[each.fn.__name__].get("cache_policy") == "NO_CACHE"
    assert each.cache_policy == NO_CACHE


@pytest.mark.parametrize("each", DEFINED, ids=_id)
def test_nothing_has_a_time_out(each: Any) -> None:
    """A time-out of Prefect can strike between the API's answer and the commit."""
    assert each.timeout_seconds is None


@pytest.mark.parametrize("each", TASKS, ids=_id)
def test_one_task_run_covers_a_page(each: Any) -> None:
    """A task run costs far more than an attempt, so each task takes a page of them."""
    assert "page" in inspect.signature(each.fn).parameters


def _types(annotation: Any) -> Iterator[Any]:
    """Return the types that an annotation is made of, those of a model's fields included."""
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) is typing.Annotated:
        arguments = arguments[:1]
    if typing.get_origin(annotation) is typing.Literal:
        yield from (type(value) for value in arguments)
        return
    if arguments:
        for argument in arguments:
            yield from _types(argument)
        return
    yield annotation
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        for field in annotation.model_fields.values():
            yield from _types(field.annotation)


@pytest.mark.parametrize("each", [each for each in DEFINED if isinstance(each, Flow)], ids=_id)
def test_flow_parameters_are_names_numbers_and_plain_models(each: Any) -> None:
    """Parameters are stored in clear, so that none can be a block or a secret."""
    hints = typing.get_type_hints(each.fn, include_extras=True)
    hints.pop("return")
    types = {kind for hint in hints.values() for kind in _types(hint)}
    assert [kind for kind in types if not issubclass(kind, (*PLAIN, BaseModel))] == []
    assert [kind for kind in types if issubclass(kind, Block | SecretStr | SecretBytes)] == []
