"""Judges that compare two episodes: what they return, and how they are used outside a run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from stepscore.episodes import Episode
from stepscore.judges.base import Ask
from stepscore.models import Model, Request, Response, media_decoder, resolve, run_blocking


@dataclass(frozen=True, slots=True)
class PairPreference:
    """How likely the first of two episodes got further.

    Attributes:
        forward: The probability, asked with the first episode first; NaN where unknown.
        swapped: The same probability, asked with the second episode first; ``None`` where that was not asked.
    """

    forward: float
    swapped: float | None = None

    @property
    def probability(self) -> float:
        """The mean of both orders, or the one that was asked; NaN where one that was asked is unknown."""
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

    async def ask(request: Request, model: Model | None = None) -> Response:
        chosen = judge.models[0] if model is None else model
        return await chosen.answer(resolve(request, media_decoder(first)))

    return run_blocking(judge.prefer(first, second, ask))
