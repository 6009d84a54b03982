"""Predictions for a test video: by a trained checkpoint from its encoded frames, and by linear time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.sarm.videos import Video, linear_time, stage_names
from stepscore.metrics.calibration import mae
from stepscore.metrics.order import voc
from stepscore.models.sarm.checkpoint import load_network, read_config
from stepscore.models.sarm.config import Decode, Procedure, SarmConfig
from stepscore.models.sarm.encoders import FrameEncoder
from stepscore.models.sarm.network import SarmNetwork
from stepscore.models.sarm.scoring import EncodedVideo, score_video
from stepscore.models.vision_encoder import Float32
from stepscore.types import FloatArray, IntArray

LAST_POINTS = 3
"""Points at the end whose mean is the success score, as in the judge ``sarm``."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """A judge's prediction for one video.

    Attributes:
        times: Timestamps of the points, (m,).
        progress: Progress at each, NaN where unknown, (m,).
        score: The success score.
        stages: Index of the stage at each, (m,), where the judge predicts stages.
    """

    times: FloatArray
    progress: FloatArray
    score: float
    stages: IntArray | None = None

    def error(self, video: Video) -> float:
        """Return the mean absolute error to the potential."""
        return mae(self.progress, np.interp(self.times, video.times, video.truth))

    def voc(self) -> float:
        """Return the rank correlation with time."""
        return voc(self.progress)

    def stage_accuracy(self, video: Video) -> float:
        """Return the share of the points whose stage is right.

        A judge without stages counts as being in the stage of its progress: each of K stages has 1/K of it.
        """
        predicted = self.stages
        known = ~np.isnan(self.progress)
        if predicted is None:
            count = len(stage_names(video.task))
            predicted = np.minimum((np.nan_to_num(self.progress) * count + 1e-9).astype(np.int64), count - 1)
        true = video.stages[video.at(self.times)]
        known &= true >= 0
        return float((predicted == true)[known].mean()) if known.any() else math.nan


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A checkpoint in memory.

    Attributes:
        network: The two networks, in evaluation.
        config: The checkpoint's config.
        text_features: The encoder's features of the instructions, by text.
    """

    network: SarmNetwork
    config: SarmConfig
    text_features: Mapping[str, Float32]

    @classmethod
    def load(cls, folder: Path, encoder: FrameEncoder, instructions: Sequence[str]) -> TrainedModel:
        """Load the checkpoint in a folder.

        One trained on stages alone has breakpoints from their mean durations; they are replaced by the potential's
        own, by which every stage has the same share.
        """
        texts = list(dict.fromkeys(instructions))
        config = read_config(folder)
        network = load_network(folder, config, "cpu")
        if config.progress == "stages":
            config = replace(
                config, procedures={**config.procedures, "dense": _even(config.procedures["dense"])}
            )
        return cls(network, config, dict(zip(texts, encoder.encode_text(texts), strict=True)))

    def predict(self, video: Video, decode: Decode = "argmax", head: str | None = None) -> Prediction:
        """Return its points at every frame, as the judge ``sarm`` does."""
        task = self.config.task_of(video.task, video.instruction)
        text = self.text_features[video.instruction]
        encoded = EncodedVideo(video.times, np.asarray(video.features), None, text, task)
        chosen = head or self.config.head
        predicted = score_video(self.network, self.config, encoded, np.arange(len(video.times)), decode)[
            chosen
        ]
        stages = None
        if len(predicted.stages) > 1:
            places = np.array([stage_names(video.task).index(name) for name in predicted.stages])
            stages = places[predicted.probabilities.argmax(axis=1)]
        return Prediction(
            video.times, predicted.progress, float(predicted.progress[-LAST_POINTS:].mean()), stages
        )


def _even(procedures: Mapping[str, Procedure]) -> dict[str, Procedure]:
    return {
        task: Procedure(p.stages, tuple(np.linspace(0.0, 1.0, len(p.stages) + 1).tolist()))
        for task, p in procedures.items()
    }


def linear_time_prediction(video: Video) -> Prediction:
    """Return time over duration as a prediction."""
    progress = linear_time(video)
    return Prediction(video.times, progress, float(progress[-LAST_POINTS:].mean()))
