"""What a judge is: something that looks at an episode and says how far it got.

``await ask(request)`` may be called any number of times, each answer shaping the next. A request names its
frames symbolically; the engine decodes, batches and sends, so that a judge never knows on how many machines
it runs. A judge is a picklable value that loads what it needs on first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from stepscore.episodes import Episode
from stepscore.models import Model, Request, Response
from stepscore.types import Judgement


class Ask(Protocol):
    """Puts a request to the judge's model, or to another one, and gives its answer."""

    async def __call__(self, request: Request, model: Model | None = None) -> Response:
        """The model's answer; asked once, whatever happens to the run."""


class Judge(Protocol):
    """Looks at an episode and says how far it got. ``version`` rises when the same input may score anew."""

    name: str
    version: int

    def options(self) -> Mapping[str, object]:
        """All that can change a number, as JSON values; it enters the protocol."""

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """The judgement of one episode. Raises EpisodeError when this episode cannot be judged."""


@runtime_checkable
class AsksSeveral(Protocol):
    """A judge that asks other models than one of its own, for example through other judges."""

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model it may ask."""


def models_of(judge: Judge) -> tuple[Model, ...]:
    """The models a judge may ask: its ``models`` where it has them, else its ``model``; empty for neither."""
    if isinstance(judge, AsksSeveral):
        return tuple(judge.models)
    model: Model | None = getattr(judge, "model", None)
    return () if model is None else (model,)


def episode_rng(episode: Episode, *salt: object) -> np.random.Generator:
    """A random generator that depends on the episode's id and ``salt`` alone, not on the order of judging."""
    text = "\0".join([episode.id, *map(str, salt)])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))
