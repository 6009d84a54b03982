"""The same judge asked again: with the same requests, or with the video sampled more densely.

Answers that change without a reason in the video bound what the judge's numbers can mean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from stepscore.episodes import Episode
from stepscore.errors import OptionError, StepScoreError
from stepscore.judges import Ask, Judge
from stepscore.models import Model, Request
from stepscore.types import Judgement

SAMPLING_OPTIONS = ("fps", "prefixes", "points", "frames")
"""Options that set how densely a video is sampled; the first that a judge has is changed."""

AGAIN_COST = 3.0
"""Cost of asking again about an episode, once with twice the frames."""


@dataclass(frozen=True)
class RepeatedJudge:
    """A judge whose requests are sent again, cached separately for each ``repeat`` (from 1)."""

    inner: Judge
    name: str
    version: int
    repeat: int = 1

    @property
    def models(self) -> tuple[Model, ...]:
        """The judge's models."""
        return self.inner.models

    def options(self) -> Mapping[str, object]:
        """Return the judge's options and the number of the repetition."""
        return {**self.inner.options(), "repeat": self.repeat}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the judgement on the answers of this repetition."""

        async def again(request: Request, model: Model | None = None) -> Any:
            if any(one.name == "repeat" for one in dataclasses.fields(request)):
                request = cast(Request, dataclasses.replace(cast(Any, request), repeat=self.repeat))
            return await ask(request, model)

        return await self.inner.judge(episode, again)


def repeated(judge: Judge) -> Judge:
    """Return the judge that asks everything once more."""
    # Protocol members are plain attributes, which a frozen dataclass is not to the type checker.
    return cast(Judge, RepeatedJudge(judge, judge.name, judge.version))


def resampled(judge: Judge) -> tuple[Judge, str]:
    """Return the judge with the video sampled twice as densely, and the changed option.

    Raises:
        OptionError: It has no such option, or its calibration map only fits its own sampling.
    """
    if not dataclasses.is_dataclass(judge):
        raise OptionError(f"Judge {judge.name!r} has no option of sampling.")
    for name in SAMPLING_OPTIONS:
        value = getattr(judge, name, None)
        if isinstance(value, int | float) and not isinstance(value, bool):
            changed = {name: value * 2}
            try:
                return cast(Judge, dataclasses.replace(cast(Any, judge), **changed)), f"{name}={value * 2:g}"
            except StepScoreError as error:
                raise OptionError(f"{name}={value * 2:g} cannot be tried: {error}") from error
    raise OptionError(f"Judge {judge.name!r} has no option of sampling ({', '.join(SAMPLING_OPTIONS)}).")


def again_cost(judge: Judge) -> float:
    """Return the cost of asking a judge again about an episode, and more densely if possible."""
    try:
        resampled(judge)
    except StepScoreError:
        return 1.0
    return AGAIN_COST
