"""The way of a request is short, and nobody on it asks what kind of request it is."""

from __future__ import annotations

import ast
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.models import Request, Response, requests, responses
from stepscore.runs import CallOptions
from tests.paths import ROOT
from tests.runs.engines.judges import Asking, Brightness, many

SOURCE = ROOT / "src" / "stepscore"
MOST_HOPS, MOST_ON_REQUESTS, MOST_ON_RESPONSES = 8, 20, 10


def below(kind: type[Any]) -> set[str]:
    """Names of a class and of all classes that inherit from it."""
    return {kind.__name__}.union(*map(below, kind.__subclasses__()))


REQUESTS = {"Request"} | below(requests.TypedRequest)
RESPONSES = below(responses.Response)


@dataclass
class Watched(Brightness):
    """A model that notes which coroutines stand between the judge's ``ask`` and itself, innermost first."""

    name: str = "mock/watched"
    hops: tuple[str, ...] = ()

    async def answer(self, request: Request) -> Response:
        frame, hops = sys._getframe(1), []
        while frame is not None and frame.f_code.co_name != "ask":
            if frame.f_code.co_flags & inspect.CO_COROUTINE:
                hops.append(frame.f_code.co_qualname)
            frame = frame.f_back  # type: ignore[assignment]
        self.hops = tuple(hops)
        return await super().answer(request)


def test_between_a_judge_and_its_model_are_the_layers_of_the_call_chain(tmp_path: Path) -> None:
    model = Watched()
    calls = CallOptions(cache_path=tmp_path / "c.sqlite")
    stepscore.score(many(1), Asking(model), tmp_path / "run", call_options=calls)
    layers = ("ModelLayer", "Batching", "Attempt", "Retrying", "Decoding", "Sharing", "Cache", "Split")
    assert model.hops == tuple(f"{layer}.answer" for layer in layers)
    assert len(model.hops) <= MOST_HOPS


def _named(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def checked_types(tree: ast.AST) -> Iterator[set[str]]:
    """Yield the names that each check of a type compares with: isinstance, class patterns, ``type(x) is``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                yield _named(node.args[1])
        elif isinstance(node, ast.MatchClass):
            yield _named(node.cls)
        elif isinstance(node, ast.Compare) and "type" in _named(node.left):
            yield set.union(*map(_named, node.comparators))


def table_keys(path: Path, tree: ast.AST) -> Iterator[str]:
    """Yield each type that a table outside of the models has as a key."""
    if path.is_relative_to(SOURCE / "models") and path.parent.name != "calls":
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            yield from (key.id for key in node.keys if isinstance(key, ast.Name))


def test_requests_and_responses_know_themselves() -> None:
    found: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for names in [*checked_types(tree), *({key} for key in table_keys(path, tree))]:
            found["requests"] += bool(names & (REQUESTS | {"BATCHED", "HEADS"}))
            found["responses"] += bool(names & RESPONSES)
    assert found["requests"] <= MOST_ON_REQUESTS, found
    assert found["responses"] <= MOST_ON_RESPONSES, found
    print(dict(found))


@pytest.mark.parametrize("gone", ["Elsewhere", "Here", "_InGroup", "ask_elsewhere", "on_same"])
def test_no_second_way_is_left(gone: str) -> None:
    names = [
        path
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if gone
        in (
            getattr(node, "id", ""),
            getattr(node, "name", ""),
            getattr(node, "arg", ""),
            getattr(node, "attr", ""),
        )
    ]
    assert not names
