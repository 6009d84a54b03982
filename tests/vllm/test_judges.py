"""Every judge that asks a model completes on vLLM: three rollouts, one view and two; a new judge joins by itself."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.episodes import Episode, perturb
from stepscore.errors import StepScoreError
from stepscore.judges import Judge, judge_registry
from stepscore.judges.published.profiles import load_profile, profile_names
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import get_model
from stepscore.runs import CallOptions
from tests.vllm.server import VllmServer

NOT_SERVED = {
    "robometer": "reads the heads of its checkpoint",
    "sarm": "asks a trained network for stages",
    "similarity": "compares the embeddings of an encoder",
}
"""Judges whose model is of another kind, which vLLM does not serve, and what they need."""
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
    "grm": [{"profile": "grm", "prompt": "own", "mode": "fused"}],
    "gvl": [{"form": "json"}],
    "hop": [{"mode": "forward"}],
    "vlac": [{"profile": "vlac", "prompt": "own", "digits": "expected", "done": "all"}],
    "stepeval": [
        {"strategy": "sequential", "layout": "interleaved"},
        {"strategy": "per-subgoal", "answer": "tokens", "words": ("yes", "no")},
        {"strategy": "per-subgoal", "answer": "statement"},
    ],
    "topreward": [{"form": "paper"}, {"form": "chat", "target": "yes", "other": "no"}],
}
"""Options under which a judge asks in another way."""


def asking() -> list[Any]:
    """Return the judges that take a model, with options: those of a published model once for each of its profiles."""
    cases = []
    for name in judge_registry.names():
        taken = inspect.signature(judge_registry.get(name)).parameters
        if "model" in taken and name not in NOT_SERVED:
            small = {key: value for key, value in SMALL.items() if key in taken}
            published = [
                {"profile": of, "prompt": "own"}
                for of in profile_names()
                if load_profile(of).judge == name and "profile" in taken
            ]
            for further in (*(published or [{}]), *FURTHER.get(name, [])):
                label = "-".join([name, *(value for value in further.values() if isinstance(value, str))])
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
    judge = stepscore.get_judge(name, model=model, **options)
    assert_it_completes(judge, episodes, tmp_path)


def assert_it_completes(judge: Judge, episodes: list[Episode], folder: Path) -> None:
    most = judge.rules.views if isinstance(judge, PublishedJudge) else None
    # A published model of fewer cameras is shown the first ones, as `--views` chooses them.
    views = list(episodes[0].views)[:most]
    run = stepscore.score(episodes, judge, out=folder, views=views, call_options=CallOptions(cache=False))
    assert run.judgements().column("error").to_pylist() == [None] * 3
    usage, calls = run.usage(), run.calls()
    assert all(number > 0 for number in usage.column("calls").to_pylist())
    assert calls.column("tokens_in").null_count == 0, "every answer has the server's count"
    print(f"\n{judge.name}: {len(calls)} calls, {sum(usage.column('tokens_in').to_pylist())} tokens")


def test_a_cascade_completes_on_a_real_server(
    tiny: VllmServer, rollouts: list[Episode], tmp_path: Path
) -> None:
    model = get_model(tiny.model, base_url=tiny.url)
    first = stepscore.get_judge("topreward", model=model, prefixes=2, size=128)
    second = stepscore.get_judge("hop", model=model, points=2, max_tokens=4)
    cascade = stepscore.get_judge("cascade", first=first, second=second, unsure_from=0.0, unsure_to=1.0)
    assert_it_completes(cascade, rollouts, tmp_path)


@pytest.mark.parametrize("name", sorted(NOT_SERVED.keys() & set(judge_registry.names())))
def test_a_judge_with_a_model_of_another_kind_is_refused_before_anything_is_asked(
    name: str, tiny: VllmServer, rollouts: list[Episode], tmp_path: Path
) -> None:
    before = tiny.answered()

    def judged() -> None:
        judge = stepscore.get_judge(name, model=get_model(tiny.model, base_url=tiny.url))
        stepscore.score(rollouts, judge, out=tmp_path, call_options=CallOptions(cache=False))

    with pytest.raises(StepScoreError) as refused:
        judged()
    print(f"\n{name} {NOT_SERVED[name]}: {refused.value}")
    assert tiny.answered() == before
