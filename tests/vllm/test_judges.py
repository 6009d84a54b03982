"""Every judge that asks a model completes on vLLM: three rollouts, one view and two; a new judge joins by itself."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.episodes import Episode, perturb
from stepscore.judges import judge_registry
from stepscore.models import get_model
from stepscore.runs import CallOptions
from tests.vllm.server import VllmServer

NOT_SERVED = {
    "sarm": "asks a trained network for stages, which no server has",
}
"""Judges with a model of another kind, and why vLLM is not asked."""
SMALL: dict[str, Any] = {
    "frames": 4,
    "points": 3,
    "prefixes": 3,
    "window": 3,
    "max_points": 3,
    "max_tokens": 16,
}
"""Options that make a judge short, where it has them: what a random model answers says nothing, however long."""
FURTHER: dict[str, list[dict[str, Any]]] = {
    "gvl": [{"form": "json"}],
    "hop": [{"mode": "forward"}],
    "stepeval": [
        {"strategy": "sequential", "layout": "interleaved"},
        {"strategy": "per-subgoal", "answer": "tokens", "words": ("yes", "no")},
        {"strategy": "per-subgoal", "answer": "statement"},
    ],
    "topreward": [{"form": "paper"}, {"form": "chat", "target": "yes", "other": "no"}],
}
"""Options under which a judge asks in another way."""


def asking() -> list[Any]:
    """Return the judges that take a model, with options."""
    cases = []
    for name in judge_registry.names():
        taken = inspect.signature(judge_registry.get(name)).parameters
        if "model" in taken and name not in NOT_SERVED:
            small = {key: value for key, value in SMALL.items() if key in taken}
            for further in ({}, *FURTHER.get(name, [])):
                label = "-".join(
                    [name, *(str(value) for value in further.values() if isinstance(value, str))]
                )
                cases.append(pytest.param(name, small | further, id=label))
    return cases


def with_views(episodes: list[Episode], number: int) -> list[Episode]:
    """Return episodes with so many views: the second is the first zoomed in, shown as a wrist's."""
    if number == 1:
        return episodes
    zoomed = [perturb(episode, "zoomed") for episode in episodes]
    return [
        replace(
            one,
            views={**one.views, "wrist": near.views[near.main_view]},
            goals={**one.goals, "wrist": one.goals[one.main_view]},
        )
        for one, near in zip(episodes, zoomed, strict=True)
    ]


@pytest.mark.parametrize("views", [1, 2])
@pytest.mark.parametrize(("name", "options"), asking())
def test_a_judge_completes_on_a_real_server(
    name: str, options: dict[str, Any], views: int, tiny: VllmServer, rollouts: list[Episode], tmp_path: Path
) -> None:
    model = get_model(tiny.model, base_url=tiny.url)
    episodes = with_views(rollouts, views)
    assert {len(episode.views) for episode in episodes} == {views}
    run = stepscore.score(
        episodes,
        stepscore.get_judge(name, model=model, **options),
        out=tmp_path,
        call_options=CallOptions(cache=False),
    )
    assert run.judgements().column("error").to_pylist() == [None] * 3
    usage = run.usage()
    assert all(calls > 0 for calls in usage.column("calls").to_pylist())
    assert all(tokens > 0 for tokens in usage.column("tokens_in").to_pylist())
    calls = run.calls()
    assert calls.column("tokens_in").null_count == 0, "every answer has the server's count"
    print(f"\n{name}: {len(calls)} calls, {sum(usage.column('tokens_in').to_pylist())} tokens")
