"""Every judge that asks a model asks it through a server as it does in this process, and hears the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Episode, Subgoal
from stepscore.models import (
    DecodedMedia,
    Generate,
    Model,
    PrefixScores,
    Prompt,
    Request,
    Response,
    Score,
    ScorePrefixes,
    Turn,
    get_model,
)
from tests.fakes import FakeView, episode
from tests.judges.asked import run_judge
from tests.models.api.servers import Digest, Running, serving

CUE = "The answer is:"
GOALS = (Subgoal("grasp the handle"), Subgoal("the drawer is open", mode="holds"))
BY_WORDS: list[tuple[str, dict[str, Any]]] = [
    ("gvl", {"frames": 5}),
    ("gvl", {"frames": 5, "form": "json"}),
    ("hop", {"points": 3}),
    ("procvlm", {"points": 3, "window": 2}),
    ("stepeval", {"frames": 3}),
    ("stepeval", {"frames": 3, "strategy": "sequential", "layout": "interleaved"}),
]
BY_TOKENS: list[tuple[str, dict[str, Any]]] = [
    ("stepeval", {"frames": 3, "strategy": "per-subgoal", "answer": "tokens", "words": ("yes", "no")}),
    ("topreward", {"prefixes": 3, "form": "upstream"}),
    ("topreward", {"prefixes": 3, "form": "paper"}),
    ("topreward", {"prefixes": 3, "form": "chat"}),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def subject() -> list[Episode]:
    views = {"top": FakeView(mark="a"), "wrist": FakeView(mark="b")}
    return [episode(name, views=views, subgoals=GOALS) for name in ("one", "two")]


def spelled(parts: tuple[Any, ...]) -> Iterator[Any]:
    """A video as a server is sent it: its frames as images, each after its time."""
    for part in parts:
        if isinstance(part, DecodedMedia) and part.video:
            for number, seconds in enumerate(part.clip.timestamps):
                yield f"<{seconds:.1f} seconds>"
                yield DecodedMedia(
                    type(part.clip)(*(a[number : number + 1] for a in vars(part.clip).values()))
                )
        else:
            yield part


@dataclass
class Here(Digest):
    """The tests' model in this process, shown what a server would be shown."""

    async def answer(self, request: Request) -> Response:
        if isinstance(request, ScorePrefixes):
            return await self._prefixes(request)
        assert isinstance(request, Generate | Score)
        turns = tuple(Turn(turn.role, tuple(spelled(turn.parts))) for turn in request.prompt.turns)
        prompt = replace(request.prompt, turns=turns)
        if isinstance(request, Generate):
            return await super().answer(Generate(prompt, json=request.json))
        return await super().answer(Score(prompt, request.candidates))

    async def _prefixes(self, request: ScorePrefixes) -> PrefixScores:
        (asked,), video = request.prompts, request.video
        assert isinstance(video, DecodedMedia)
        text = asked.turns[0].parts[1]
        rows = []
        for length in request.lengths:
            clip = type(video.clip)(*(array[:length] for array in vars(video.clip).values()))
            seen = tuple(spelled((DecodedMedia(clip, video=True),)))
            prompt = Prompt((Turn("user", (*seen, text)),), prefill="" if asked.template == "chat" else CUE)
            rows.append(self.score_now(prompt, request.candidates))
        return PrefixScores(np.array([rows]), tokens_in=100)

    def score_now(self, prompt: Prompt, candidates: tuple[str, ...]) -> tuple[float, ...]:
        return Digest().score(prompt, candidates).logprobs


def assert_the_same(name: str, options: dict[str, Any], model: Model, tmp_path: Path) -> None:
    there = run_judge(stepscore.get_judge(name, model=model, **options), subject(), tmp_path / "there")
    here = run_judge(stepscore.get_judge(name, model=Here(), **options), subject(), tmp_path / "here")
    assert there.judgements().column("error").to_pylist() == [None, None]
    assert there.curves().equals(here.curves())
    assert there.verdicts().equals(here.verdicts())
    scores = [run.judgements().column("success_score") for run in (there, here)]
    assert scores[0].equals(scores[1])
    known = [*there.curves().column("progress").to_pylist(), *there.verdicts().column("why").to_pylist()]
    assert any(value is not None for value in known), "nothing was learnt"


@pytest.mark.parametrize("backend", ["openai-api", "vllm", "sglang"])
@pytest.mark.parametrize(("name", "options"), BY_WORDS, ids=lambda value: str(value)[:40])
def test_words_are_the_same_through_a_server(
    name: str, options: dict[str, Any], backend: str, server: Running, tmp_path: Path
) -> None:
    assert_the_same(name, options, get_model(f"{backend}/tiny", base_url=server.url), tmp_path)


@pytest.mark.parametrize(("name", "options"), BY_TOKENS, ids=lambda value: str(value)[:60])
def test_token_scores_are_the_same_through_a_server(
    name: str, options: dict[str, Any], server: Running, tmp_path: Path
) -> None:
    assert_the_same(name, options, get_model("vllm/tiny", base_url=server.url), tmp_path)


@pytest.mark.parametrize(("name", "options"), BY_TOKENS, ids=lambda value: str(value)[:60])
def test_a_server_that_tells_the_likeliest_tokens_alone_leaves_the_rest_unknown(
    name: str, options: dict[str, Any], server: Running, tmp_path: Path
) -> None:
    model = get_model("openai-api/tiny", base_url=server.url, top_logprobs=2)
    run = run_judge(stepscore.get_judge(name, model=model, **options), subject(), tmp_path)
    assert run.judgements().column("error").to_pylist() == [None, None]
    values = run.curves().column("progress").to_pylist() + run.verdicts().column("answer").to_pylist()
    assert any(value in (None, "unknown") for value in values)


def test_on_sglang_prefixes_are_scored_after_the_tokens_as_they_are(server: Running, tmp_path: Path) -> None:
    model = get_model("sglang/tiny", base_url=server.url, question="frames")
    run = run_judge(stepscore.get_judge("topreward", model=model, prefixes=3), subject(), tmp_path)
    assert run.judgements().column("error").to_pylist() == [None, None]
    assert run.curves().column("progress").null_count == 0
    assert server.stats()["last"]["body"]["text"].startswith("<|im_start|>user\n<0.0 seconds>")
