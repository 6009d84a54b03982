"""The same judge asked again: the same requests once more, or the same video sampled otherwise.

What a judge answers differently without a reason in the video bounds what its numbers can mean.
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
"""Options of judges that say how densely a video is sampled; the first that a judge has is changed."""

AGAIN_COST = 3.0
"""What it costs to ask again about an episode, once with twice the frames."""


@dataclass(frozen=True)
class RepeatedJudge:
    """A judge whose requests are asked for another time, each cached on its own.

    Attributes:
        repeat: Number of the repetition, from 1.
    """

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
        """Return the judge's judgement on answers of this repetition."""

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
    """Return the judge with the video sampled twice as densely, and the option that was changed."""
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
    """Return what it costs to ask a judge again about an episode, and more densely if it can be."""
    try:
        resampled(judge)
    except StepScoreError:
        return 1.0
    return AGAIN_COST
