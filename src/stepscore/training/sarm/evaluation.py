"""Evaluation of SARM against the labels of episodes it was not trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stepscore.metrics import roc_auc, voc
from stepscore.models.sarm import Decode, EncodedVideo, Float32, SarmConfig, SarmNetwork, score_video
from stepscore.training.sarm.dataset import TrainingEpisode


def evaluate(
    network: SarmNetwork,
    config: SarmConfig,
    episodes: Sequence[TrainingEpisode],
    text_features: Mapping[str, Float32],
    decode: Decode = "argmax",
) -> dict[str, float]:
    """Return metrics over labelled episodes, every frame scored, each episode counting the same.

    Args:
        network: The two networks; left in evaluation.
        config: The checkpoint's config.
        episodes: Encoded episodes with targets.
        text_features: The encoder's features of their instructions, by text.
        decode: How stages become progress; see ``score_video``.

    Returns:
        ``mae``: mean absolute error of progress to its label; ``mae_linear``: the same of time over duration;
        ``stage_accuracy`` (NaN for a single stage); ``voc``: rank correlation of progress with time over
        successes; ``auc``: how well the last point separates success from failure; ``episodes``.
    """
    head = config.head
    network.eval()
    errors, linear_errors, accuracy, order, ends, success = [], [], [], [], [], []
    for episode in episodes:
        state = episode.state if config.state else None
        features = np.asarray(episode.features[0])
        text = text_features[episode.instruction]
        encoded = EncodedVideo(episode.times, features, state, text, episode.labelled.task)
        predicted = score_video(network, config, encoded, np.arange(len(episode.times)), decode)[head]
        target = episode.targets[head]
        known = ~np.isnan(target.progress)
        if known.any():
            errors.append(float(np.abs(predicted.progress - target.progress)[known].mean()))
            last = episode.times[-1]
            linear = episode.times / last if last > 0 else np.zeros(len(episode.times))
            linear_errors.append(float(np.abs(linear - target.progress)[known].mean()))
        staged = target.stage >= 0
        if staged.any() and len(predicted.stages) > 1:
            accuracy.append(float((predicted.probabilities.argmax(1) == target.stage)[staged].mean()))
        if episode.labelled.done:
            order.append(voc(predicted.progress))
        if episode.labelled.done is not None:
            ends.append(float(predicted.progress[-3:].mean()))
            success.append(float(episode.labelled.done))
    return {
        "mae": _mean(errors),
        "mae_linear": _mean(linear_errors),
        "stage_accuracy": _mean(accuracy),
        "voc": _mean(order),
        "auc": float(roc_auc(ends, success)) if len(set(success)) == 2 else math.nan,
        "episodes": float(len(episodes)),
    }


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return round(float(np.mean(known)), 5) if known else math.nan
