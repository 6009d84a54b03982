"""What a judge says of a film: a trained arm from what the encoder saw, and the clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.sarm.videos import Film, linear_time, stage_names
from stepscore.metrics.calibration import mae
from stepscore.metrics.order import voc
from stepscore.models.sarm.checkpoint import Decode, Procedure, SarmConfig, load_network, read_config
from stepscore.models.sarm.encoders import Float32, FrameEncoder
from stepscore.models.sarm.network import SarmNetwork
from stepscore.models.sarm.scoring import EncodedVideo, score_video
from stepscore.types import FloatArray, IntArray

LAST = 3
"""Points at the end whose mean is the success score, as the judge ``sarm`` has it."""


@dataclass(frozen=True, eq=False)
class Said:
    """What was said of one film.

    Attributes:
        times: Seconds of the points, (m,).
        progress: At each; NaN where nothing was said, (m,).
        stages: Number of the stage at each, where the judge tells stages.
        score: The success score.
    """

    times: FloatArray
    progress: FloatArray
    score: float
    stages: IntArray | None = None

    def error(self, film: Film) -> float:
        """Mean absolute error to the potential."""
        return mae(self.progress, np.interp(self.times, film.times, film.truth))

    def order(self) -> float:
        """Rank correlation with time."""
        return voc(self.progress)

    def right_stages(self, film: Film) -> float:
        """Share of the points at which the stage is right.

        Of a judge that tells no stages, the one is taken in which its progress lies: of K stages each takes 1/K.
        """
        told = self.stages
        known = ~np.isnan(self.progress)
        if told is None:
            count = len(stage_names(film.task))
            told = np.minimum((np.nan_to_num(self.progress) * count + 1e-9).astype(np.int64), count - 1)
        true = film.stages[film.at(self.times)]
        known &= true >= 0
        return float((told == true)[known].mean()) if known.any() else math.nan


@dataclass(frozen=True, eq=False)
class Trained:
    """A checkpoint in memory.

    Attributes:
        network: Its network.
        config: What it is.
        read: What the encoder read in the instructions.
    """

    network: SarmNetwork
    config: SarmConfig
    read: Mapping[str, Float32]

    @classmethod
    def load(cls, folder: Path, encoder: FrameEncoder, instructions: Sequence[str]) -> Trained:
        """The checkpoint in a folder.

        One that learned from stages alone places them by their mean durations; it is read on the potential's own
        scale, on which every stage takes the same part of the way.
        """
        texts = list(dict.fromkeys(instructions))
        config = read_config(folder)
        network = load_network(folder, config, "cpu")
        if config.progress == "stages":
            config = replace(
                config, procedures={**config.procedures, "dense": _even(config.procedures["dense"])}
            )
        return cls(network, config, dict(zip(texts, encoder.read(texts), strict=True)))

    def say(self, film: Film, decode: Decode = "argmax", head: str | None = None) -> Said:
        """Its points at every frame, as the judge ``sarm`` gives them."""
        task = self.config.task_of(film.task, film.instruction)
        encoded = EncodedVideo(film.times, np.asarray(film.features), None, self.read[film.instruction], task)
        chosen = head or self.config.head
        told = score_video(self.network, self.config, encoded, np.arange(len(film.times)), decode)[chosen]
        stages = None
        if len(told.stages) > 1:
            places = np.array([stage_names(film.task).index(name) for name in told.stages])
            stages = places[told.probabilities.argmax(axis=1)]
        return Said(film.times, told.progress, float(told.progress[-LAST:].mean()), stages)


def _even(procedures: Mapping[str, Procedure]) -> dict[str, Procedure]:
    return {
        task: Procedure(one.stages, tuple(np.linspace(0.0, 1.0, len(one.stages) + 1).tolist()))
        for task, one in procedures.items()
    }


def by_clock(film: Film) -> Said:
    """What the clock says."""
    said = linear_time(film)
    return Said(film.times, said, float(said[-LAST:].mean()))
