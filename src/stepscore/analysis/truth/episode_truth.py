"""What labels state of one episode's true progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.metrics import StageSpan, stage_truth
from stepscore.types import FloatArray

TruthSource = Literal["progress labels", "stages"]
"""Where true progress is from."""


@dataclass(frozen=True)
class EpisodeTruth:
    """The true progress of one episode: labelled progress where there is any, else what its stages imply.

    Attributes:
        labelled: Times and values of labelled progress; ``None`` where there is none.
        stages: Its annotated stages by time.
        procedure: The stages of its task in order; empty where unknown.
        done: Whether the task was done when the episode ended.
        potential: Name of the labelled progress.
    """

    labelled: tuple[FloatArray, FloatArray] | None = None
    stages: tuple[StageSpan, ...] = ()
    procedure: tuple[str, ...] = ()
    done: bool = False
    potential: str | None = None

    @property
    def source(self) -> TruthSource | None:
        """Where the truth is from; ``None`` where nothing is known."""
        if self.labelled is not None:
            return "progress labels"
        return "stages" if self.stages and self.procedure else None

    def at(self, times: FloatArray) -> FloatArray:
        """Return the true progress at ``times``, shape (n,), 0..1; NaN where it is unknown.

        Labelled progress is linear between two labelled times, and unknown before the first, after the last, and
        next to a label of unknown value.
        """
        if self.labelled is not None:
            return _interpolated(times, *self.labelled)
        if self.source is None:
            return np.full(len(times), np.nan)
        return stage_truth(self.stages, self.procedure, times, done=self.done)


def _interpolated(times: FloatArray, at: FloatArray, values: FloatArray) -> FloatArray:
    # Tables of labels may keep rounded seconds: the last frame is not after the last label for that.
    near = np.where(np.abs(times - at[0]) < LABEL_TOLERANCE_S, at[0], times)
    near = np.where(np.abs(times - at[-1]) < LABEL_TOLERANCE_S, at[-1], near)
    return np.asarray(np.interp(near, at, values, left=math.nan, right=math.nan))
