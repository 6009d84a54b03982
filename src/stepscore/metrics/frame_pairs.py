"""Which of two timestamps is further along? Agreement in sign of judged and true changes.

The larger the true change between two timestamps of an episode, the easier the pair, so every number is for a
bin of true changes (after RoboPulse's small, medium and large hops, PRM-as-a-Judge).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.success import roc_auc
from stepscore.metrics.validation import SLACK, increasing, same_length, series
from stepscore.types import FloatArray, IntArray

TRUE_CHANGE_BINS = ((0.03, 0.10), (0.10, 0.30), (0.30, math.inf))
"""Ranges [lo, hi) of the absolute true change: small, medium, large."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of points of one episode, the earlier one first, shape (m,) each; a change is NaN if unknown."""

    first: IntArray
    second: IntArray
    true_delta: FloatArray
    judged_delta: FloatArray


@dataclass(frozen=True, slots=True)
class PairScores:
    """Sign agreement on the pairs with an absolute true change in [lo, hi).

    Attributes:
        coverage: n over all pairs of the bin; NaN in an empty bin.
        accuracy: Share with the right sign, a tie counting one half; NaN if n is 0.
        balanced_accuracy: Mean of the accuracy on rising and on falling pairs; NaN if either is absent.
        falling_f1: F1 of calling a pair falling, a tie being half a call; NaN without falling pairs.
        auroc: How often a rising pair is judged to rise more than a falling one; NaN if either is absent.
    """

    lo: float
    hi: float
    n: int
    rising: int
    falling: int
    coverage: float
    accuracy: float
    balanced_accuracy: float
    falling_f1: float
    auroc: float
    tie_share: float


def make_pairs(
    times: ArrayLike,
    truth: ArrayLike,
    progress: ArrayLike,
    *,
    min_gap_s: float = 0.0,
    max_pairs: int | None = None,
    seed: int = 0,
) -> Pairs:
    """Return pairs of an episode's points, each once and forward in time.

    Pairs with an unknown point have a NaN change, so they count against coverage. Mirrored pairs would add
    nothing: an absolute curve judges them with the opposite sign.

    Args:
        times: Seconds, strictly increasing, shape (n,).
        max_pairs: Most pairs, drawn uniformly without replacement; all by default.
        seed: Derive it from the episode id, so that the pairs do not depend on other episodes.
    """
    at, true, judged = increasing(times, "times"), series(truth, "truth"), series(progress, "progress")
    same_length(at, true, "times", "truth")
    same_length(at, judged, "times", "progress")
    if not 0 <= min_gap_s < math.inf:
        raise OptionError(f"min_gap_s must be at least 0 seconds, got {min_gap_s}.")
    if max_pairs is not None and max_pairs < 1:
        raise OptionError(f"max_pairs must be an integer of at least 1, or None for all, got {max_pairs}.")
    position = np.arange(len(at), dtype=np.int64)
    # Point i pairs with nearest[i] and all after it, so pairs are numbered without being listed.
    nearest = np.maximum(np.searchsorted(at, at + min_gap_s - SLACK, side="left"), position + 1)
    numbered = np.concatenate([[0], np.cumsum(len(at) - nearest)]).astype(np.int64)
    chosen = np.arange(numbered[-1], dtype=np.int64)
    if max_pairs is not None and max_pairs < numbered[-1]:
        draw = np.random.default_rng(seed).choice(int(numbered[-1]), size=max_pairs, replace=False)
        chosen = np.sort(draw).astype(np.int64)
    first = np.searchsorted(numbered, chosen, side="right") - 1
    second = nearest[first] + chosen - numbered[first]
    return Pairs(first, second, true[second] - true[first], judged[second] - judged[first])


def pair_scores(
    true_delta: ArrayLike,
    judged_delta: ArrayLike,
    bins: Sequence[tuple[float, float]] = TRUE_CHANGE_BINS,
    *,
    tie: float = 0.0,
) -> tuple[PairScores, ...]:
    """Score the signs of judged changes (accuracy, falling-F1, AUROC) in each bin of absolute true change.

    A judge that calls everything rising has an accuracy near 1 on successes and a balanced accuracy of 0.5. A
    tie is half right and half a call of falling, so a constant judge scores 0.5.

    Args:
        true_delta: True changes, shape (m,); NaN and 0 belong to no bin.
        judged_delta: Judged changes, shape (m,); NaN counts against coverage.
        bins: Half-open ranges [lo, hi), compared after rounding to 1e-9.
        tie: Largest absolute judged change that is a tie.
    """
    true, judged = series(true_delta, "true_delta"), series(judged_delta, "judged_delta")
    same_length(true, judged, "true_delta", "judged_delta")
    if not 0 <= tie < math.inf:
        raise OptionError(f"tie must be at least 0, got {tie}.")
    size = np.round(np.abs(true), 9)
    rows = []
    for lo, hi in bins:
        if not 0 <= lo < hi:
            raise OptionError(f"Invalid bin ({lo}, {hi}) of absolute change; expected 0 <= lo < hi.")
        inside = (size >= lo) & (size < hi) & (size > 0)
        rows.append(_row(lo, hi, true[inside], judged[inside], tie))
    return tuple(rows)


def _row(lo: float, hi: float, true: FloatArray, judged: FloatArray, tie: float) -> PairScores:
    eligible = len(true)
    known = ~np.isnan(judged)
    rises, judged = true[known] > 0, judged[known]
    tied = np.abs(judged) <= tie * (1 + SLACK)
    falls_called = np.where(tied, 0.5, judged < 0)
    right = np.where(rises, 1 - falls_called, falls_called)
    n, rising = len(judged), int(rises.sum())
    falling = n - rising
    both = rising > 0 and falling > 0
    calls = float(falls_called.sum())
    hits = float(falls_called[~rises].sum())
    return PairScores(
        lo=lo,
        hi=hi,
        n=n,
        rising=rising,
        falling=falling,
        coverage=n / eligible if eligible else math.nan,
        accuracy=float(right.mean()) if n else math.nan,
        balanced_accuracy=float((right[rises].mean() + right[~rises].mean()) / 2) if both else math.nan,
        falling_f1=2 * hits / (calls + falling) if falling else math.nan,
        auroc=roc_auc(judged, rises),
        tie_share=float(tied.mean()) if n else math.nan,
    )
