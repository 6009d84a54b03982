"""SARM against the labels of episodes it was not trained on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stepscore.metrics import roc_auc, voc
from stepscore.models.sarm import Decode, EncodedVideo, Float32, SarmConfig, SarmNetwork, score_video
from stepscore.training.sarm.dataset import SarmFilm


def check(
    network: SarmNetwork,
    config: SarmConfig,
    films: Sequence[SarmFilm],
    read: Mapping[str, Float32],
    decode: Decode = "argmax",
) -> dict[str, float]:
    """Figures over labelled films, every frame scored, each film counting the same.

    Args:
        network: The network.
        config: What it is.
        films: The films.
        read: What the encoder read in their instructions.
        decode: See ``score_video``.

    Returns:
        ``mae``: mean absolute error of progress to its label; ``mae_linear``: the same of time over duration;
        ``stage_accuracy`` (NaN for a single stage); ``voc``: rank correlation of progress with time over
        successes; ``auc``: how well the last point tells success from failure; ``films``.
    """
    head = config.head
    network.eval()
    errors, clock, right, order, ends, success = [], [], [], [], [], []
    for film in films:
        state = film.state if config.state else None
        seen = np.asarray(film.features[0])
        encoded = EncodedVideo(film.times, seen, state, read[film.instruction], film.labelled.task)
        told = score_video(network, config, encoded, np.arange(len(film.times)), decode)[head]
        wanted = film.targets[head]
        known = ~np.isnan(wanted.progress)
        if known.any():
            errors.append(float(np.abs(told.progress - wanted.progress)[known].mean()))
            linear = film.times / film.times[-1] if film.times[-1] > 0 else np.zeros(len(film.times))
            clock.append(float(np.abs(linear - wanted.progress)[known].mean()))
        staged = wanted.stage >= 0
        if staged.any() and len(told.stages) > 1:
            right.append(float((told.probabilities.argmax(1) == wanted.stage)[staged].mean()))
        if film.labelled.done:
            order.append(voc(told.progress))
        if film.labelled.done is not None:
            ends.append(float(told.progress[-3:].mean()))
            success.append(float(film.labelled.done))
    return {
        "mae": _mean(errors),
        "mae_linear": _mean(clock),
        "stage_accuracy": _mean(right),
        "voc": _mean(order),
        "auc": float(roc_auc(ends, success)) if len(set(success)) == 2 else math.nan,
        "films": float(len(films)),
    }


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return round(float(np.mean(known)), 5) if known else math.nan
