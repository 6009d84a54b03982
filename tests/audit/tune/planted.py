"""A model whose accuracy depends on frames, cameras and template in a known way, and labelled episodes for it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from stepscore.audit.tune import TuneOptions
from stepscore.episodes import Episode
from stepscore.episodes.labels import Label, Labels, Subgoal
from stepscore.judges import Judge, StepEval
from stepscore.models import Answer, Request
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from tests.fakes import FakeView, episode
from tests.judges.asked import images_of, text_of

GOALS = ("grasp", "place")
STRICT = "near miss"
"""Words of the template strict alone."""


def uniform(*parts: object) -> float:
    """A number in 0..1 that depends on the parts alone."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") / 2**64


def truth(number: int, goal: str) -> bool:
    return uniform("truth", number, goal) < 0.5


def labelled(number: int) -> Episode:
    """Episode of one of two tasks; two episodes share a scene."""
    task = ("open", "close")[number // 2 % 2]
    rows = [Label("subgoal", goal, value=float(truth(number, goal))) for goal in GOALS]
    return episode(
        f"e{number:03d}",
        instruction=f"{task} {number}",
        task=task,
        views={"top": FakeView(20, mark=f"t{number}"), "wrist": FakeView(20, mark=f"w{number}")},
        subgoals=tuple(Subgoal(goal) for goal in GOALS),
        labels=Labels((*rows, Label("success", "holds", value=float(number % 3 == 0)))),
        pair=f"scene {number // 2}",
    )


EPISODES = [labelled(number) for number in range(48)]


def accuracy(images: int, prompt: str) -> float:
    """The share right: few frames cost 25 points, the template strict gains 20, a second camera nothing."""
    return 0.6 + 0.2 * (STRICT in prompt) + 0.15 - 0.25 * (images < 8)


class PlantedModel(MockModel):
    """Answers a share of the subgoals right; a better configuration is right wherever a worse one is."""

    def __init__(
        self,
        right: Callable[[int, int, str], float] = lambda number, images, prompt: accuracy(images, prompt),
        rewordings: object = None,
    ) -> None:
        super().__init__("planted", script=self._answer)
        object.__setattr__(self, "right", right)
        object.__setattr__(self, "rewordings", rewordings)

    right: Callable[[int, int, str], float]
    rewordings: object

    def _answer(self, request: Request) -> object:
        prompt = text_of(request)
        if "rewordings of the text" in prompt:
            return Answer(json.dumps({"rewordings": self.rewordings}), tokens_in=200, tokens_out=100)
        number = int(prompt.split('told: "')[1].split('"')[0].split()[1])
        share = self.right(number, len(images_of(request)), prompt)
        entries = [
            {
                "number": place,
                "answer": "yes" if truth(number, goal) == (uniform(number, goal) < share) else "no",
            }
            for place, goal in enumerate(GOALS, start=1)
        ]
        tokens = 40 + len(prompt.split()) + 100 * len(images_of(request))
        return Answer(json.dumps({"subgoals": entries}), tokens_in=tokens, tokens_out=20)


def maker(model: MockModel, **fixed: object) -> Callable[[Mapping[str, object]], Judge]:
    return lambda options: StepEval(model, **{**fixed, **options})  # type: ignore[arg-type]


def call_options(folder: Path, **given: object) -> CallOptions:
    return CallOptions(price_in=1.0, price_out=2.0, cache_path=folder / "cache.sqlite", **given)  # type: ignore[arg-type]


def options(folder: Path, *, calls: Mapping[str, object] | None = None, **given: object) -> TuneOptions:
    return TuneOptions(call_options=call_options(folder, **(calls or {})), **given)  # type: ignore[arg-type]
