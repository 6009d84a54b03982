"""The part of an episode that a clip shows: around its largest drop, its longest stall, or from and to a second."""

from __future__ import annotations

import re

import numpy as np

from stepscore.analysis.findings import DROP, GAIN
from stepscore.episodes import TIME_TOLERANCE_S
from stepscore.errors import OptionError
from stepscore.report.episode_data import EpisodeData
from stepscore.types import FloatArray

MARGIN_S = 1.0
"""Seconds shown before and after a drop or a stall."""
_RANGE = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")


def clip_span(episode: EpisodeData, around: str | None) -> tuple[float, float]:
    """Return the first and last second of a clip.

    Args:
        episode: The episode; drops and stalls are those of its first judged curve.
        around: ``drop``, ``stall``, ``START-END`` in seconds, or ``None`` for the whole episode.
    """
    end = episode.duration_s
    if around is None:
        return 0.0, end
    if around in ("drop", "stall"):
        times, values = _curve(episode, around)
        first, last = (_drop if around == "drop" else _stall)(times, values, episode.id)
        return max(0.0, first - MARGIN_S), min(end, last + MARGIN_S)
    match = _RANGE.fullmatch(around.strip())
    if match is None:
        raise OptionError(
            f"--around must be drop, stall or START-END in seconds such as 1.5-4, got {around!r}."
        )
    first, last = float(match[1]), float(match[2])
    if not first < min(last, end) or last > end + TIME_TOLERANCE_S + 0.05:
        raise OptionError(
            f"--around {around} is not inside episode {episode.id}, which lasts {end:.2f} s. "
            "START must be less than END."
        )
    return first, min(last, end)


def _curve(episode: EpisodeData, around: str) -> tuple[FloatArray, FloatArray]:
    for judgement in episode.judgements:
        known = ~np.isnan(judgement.progress)
        if known.sum() >= 2:
            return judgement.times[known], judgement.progress[known]
    raise OptionError(
        f"Episode {episode.id} has no known curve, so no {around} can be found. Use --around START-END."
    )


def _drop(times: FloatArray, values: FloatArray, name: str) -> tuple[float, float]:
    falls = np.maximum.accumulate(values) - values
    lowest = int(np.argmax(falls))
    if falls[lowest] < DROP:
        raise OptionError(
            f"Episode {name} has no drop: its progress never falls {100 * DROP:.0f} points below its best. "
            "Use --around stall or START-END."
        )
    return float(times[int(np.argmax(values[: lowest + 1]))]), float(times[lowest])


def _stall(times: FloatArray, values: FloatArray, _name: str) -> tuple[float, float]:
    best = np.maximum.accumulate(values)
    ends = np.searchsorted(best, best + GAIN, side="right") - 1
    start = int(np.argmax(times[ends] - times))
    return float(times[start]), float(times[ends[start]])
