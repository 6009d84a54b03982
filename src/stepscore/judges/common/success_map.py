"""A fitted success map applied to a judge's curve: the probability of success after every prefix.

The score is that of the last prefix, because a mean over several depends on how long the video continues after the
end; if success counts at some time (mode ``ever``), it is the highest of all prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.episodes import Episode
from stepscore.errors import OptionError
from stepscore.metrics import SuccessMap
from stepscore.types import Curve, FloatArray, SuccessMode

PROBABILITY_CHANNEL = "success_probability"
"""Channel of a calibrated curve: the probability that the task is done, after each prefix."""


@dataclass(frozen=True)
class FittedSuccess:
    """A success map and the data it was fitted on.

    Attributes:
        map: The map itself.
        channel: Series of the curve that it takes: ``margin``, ``progress`` ...
        mode: When success counts.
        fit: Its training data: episodes by task, weights, shrinkage.
        figures: Its verdicts on scenes it was not fitted on.
    """

    map: SuccessMap
    channel: str
    mode: SuccessMode
    fit: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, object]:
        """Return what can change a number."""
        return {
            "mode": self.mode,
            "channel": self.channel,
            "intercept": self.map.intercept,
            "slope": self.map.slope,
            "tasks": dict(sorted(self.map.task_terms.items())),
        }

    def holds_for(self, episode: Episode) -> bool:
        """Return whether the episode's success mode is the map's; an episode without a mode counts as yes."""
        return episode.success_mode in (None, self.mode)

    def probabilities(self, curve: Curve, episode: Episode) -> FloatArray:
        """Return the probability of success after each prefix, shape (n,); NaN if the score is unknown."""
        return self.map.apply(channel_values(curve, self.channel), self.task_of(episode))

    def task_of(self, episode: Episode) -> str | None:
        """Return the name by which the map has a term for the episode's task; ``None`` if it has none."""
        names = (episode.task, episode.instruction)
        return next((name for name in names if name is not None and name in self.map.task_terms), None)


def final_score(values: FloatArray, mode: SuccessMode) -> float:
    """Return the score of an episode: the last prefix's, or the highest for mode ``ever``; NaN if unknown."""
    if not len(values):
        return float("nan")
    return float(np.max(values) if mode == "ever" else values[-1])


def channel_values(curve: Curve, channel: str) -> FloatArray:
    """Return a series of a curve by its name; OptionError if the curve does not have it."""
    if channel == "progress":
        return curve.progress
    if channel not in curve.channels:
        has = ", ".join(["progress", *sorted(curve.channels)])
        raise OptionError(f"The calibration map takes the channel {channel!r}; this judge gives {has}.")
    return curve.channels[channel]
