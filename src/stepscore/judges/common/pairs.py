"""Judges that compare: two frames of an episode, or two episodes.

What they return, and how the latter are used outside a run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from stepscore.episodes import Episode, SampledFrames
from stepscore.judges.base import Ask
from stepscore.models import Generate, Model, Request, media_decoder, run_blocking
from stepscore.types import FloatArray


@runtime_checkable
class FrameComparer(Protocol):
    """A judge that can be asked about exactly two frames: how much further along is the second?"""

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return the judged change of each pair (before, after): above 0 for an advance, NaN if unknown.

        Args:
            episode: The episode, with its goal images.
            sampled: Its frames; the first is the start of the task, the last the end of the recording.
            pairs: Numbers of sampled frames, in any order.
            ask: Sends requests.
            repeat: Number among several equal questions, each of which is asked.
        """


def repeated(request: Generate, repeat: int) -> Generate:
    """Return a request as the ``repeat``-th of its kind, with its own cache key and seed."""
    seed = request.seed if request.seed is None else request.seed + repeat
    return replace(request, repeat=repeat, seed=seed)


@dataclass(frozen=True, slots=True)
class PairPreference:
    """How likely the first of two episodes got further.

    Attributes:
        forward: The probability, asked with the first episode first; NaN if unknown.
        swapped: The same probability, asked with the second episode first; ``None`` if that was not asked.
    """

    forward: float
    swapped: float | None = None

    @property
    def probability(self) -> float:
        """The mean of both orders, or the one that was asked; NaN if one that was asked is unknown."""
        return self.forward if self.swapped is None else (self.forward + self.swapped) / 2

    @property
    def order_effect(self) -> float:
        """What coming first adds to the probability, 0 where order does not matter; NaN unless both were asked."""
        return math.nan if self.swapped is None else self.forward - self.swapped


@runtime_checkable
class PairJudge(Protocol):
    """Compares two episodes of one task."""

    @property
    def models(self) -> tuple[Model, ...]:
        """Every model it may ask."""

    async def prefer(self, first: Episode, second: Episode, ask: Ask) -> PairPreference:
        """Return how likely the first episode got further than the second; ``ask`` sends requests about the first."""


def prefer(judge: PairJudge, first: Episode, second: Episode) -> PairPreference:
    """Return a judge's preference between two episodes, for use outside a run; nothing is cached."""

    async def ask(request: Request, model: Model | None = None) -> Any:
        chosen = judge.models[0] if model is None else model
        return await chosen.answer(request.resolved(media_decoder(first)))

    return run_blocking(judge.prefer(first, second, ask))
