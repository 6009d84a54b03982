"""Calibration: a monotone map from a judge's score to labelled progress, and how far the two agree.

A score can rank timestamps correctly and be wrong about their level. A monotone map keeps the ranking and
corrects the level; fit it on labelled episodes and evaluate it on others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import known_pairs, same_length, series
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class MonotoneMap:
    """A map that never falls: linear between knots (``x`` strictly increasing), constant outside them."""

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x, dtype=np.float64), np.asarray(self.y, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or not len(x):
            raise OptionError(
                f"A monotone map has {x.size} scores and {y.size} values; expected equal numbers, at least one."
            )
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
            raise OptionError("A monotone map must hold finite values.")
        if np.any(np.diff(x) <= 0) or np.any(np.diff(y) < 0):
            raise OptionError(
                "Invalid monotone map: scores must rise from knot to knot, and values must never fall."
            )

    def apply(self, scores: ArrayLike) -> FloatArray:
        """Return the progress at each score, shape (n,); constant beyond the outer knots. NaN stays NaN."""
        return np.interp(series(scores, "scores"), self.x, self.y)


def fit_calibration(scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> MonotoneMap:
    """Fit the monotone map with the least squared error: isotonic regression by pooling adjacent violators.

    min over non-falling f of sum_i w_i (f(score_i) - truth_i)^2 (Barlow et al. 1972). Equal scores are
    averaged first. Every pooled block has knots at both ends; the map is linear between blocks, as in
    scikit-learn's ``IsotonicRegression``.

    Args:
        scores: In any unit, shape (n,).
        truth: Labelled progress, 0..1.
        weights: Above 0; 1 by default.

    Raises:
        OptionError: No point has both known, a score is infinite, or labels leave 0..1.
    """
    from scipy.optimize import isotonic_regression

    x, y = series(scores, "scores"), series(truth, "truth")
    w = np.ones(len(x)) if weights is None else series(weights, "weights")
    same_length(x, w, "scores", "weights")
    same_length(x, y, "scores", "truth")
    known = ~(np.isnan(x) | np.isnan(y))
    x, y, w = x[known], y[known], w[known]
    if not len(x):
        raise OptionError("No point has both a known score and known labelled progress.")
    if not np.all(np.isfinite(x)):
        raise OptionError("A score is infinite; set it to NaN if it is unknown.")
    if np.any((y < 0) | (y > 1)):
        raise OptionError(f"truth spans {y.min():g}..{y.max():g}; labelled progress is in 0..1.")
    if not (np.all(np.isfinite(w)) and np.all(w > 0)):
        raise OptionError("weights must be finite and above 0.")
    levels, level_of = np.unique(x, return_inverse=True)
    total = np.bincount(level_of, weights=w).astype(np.float64)
    means = np.bincount(level_of, weights=w * y) / total
    fitted: FloatArray = isotonic_regression(means, weights=total).x
    # A level inside a block is on the line between the block's ends, so that it needs no knot.
    inner = np.zeros(len(levels), dtype=bool)
    inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
    return MonotoneMap(tuple(levels[~inner].tolist()), tuple(np.clip(fitted[~inner], 0, 1).tolist()))


@dataclass(frozen=True)
class Reliability:
    """Predictions against labels, in bins of the prediction; NaN in an empty bin.

    Attributes:
        edges: From 0 to 1, shape (b + 1,); a bin includes its lower edge, the last one both.
    """

    edges: FloatArray
    n: IntArray
    predicted: FloatArray
    labelled: FloatArray

    @property
    def ece(self) -> float:
        """Expected calibration error: sum_b n_b / n |predicted_b - labelled_b| (Naeini et al. 2015), 0..1."""
        full = self.n > 0
        if not np.any(full):
            return math.nan
        return float(np.average(np.abs(self.predicted - self.labelled)[full], weights=self.n[full]))


def reliability(predicted: ArrayLike, truth: ArrayLike, *, bins: int = 10) -> Reliability:
    """Return the means of predictions and labels in bins of equal width; unknown points are left out.

    Predictions and labels are in 0..1; labels may be outcomes 0 and 1.
    """
    if bins < 1:
        raise OptionError(f"bins must be at least 1, got {bins}.")
    p, y = _known(predicted, truth)
    if np.any((p < 0) | (p > 1)):
        raise OptionError(f"predicted spans {p.min():g}..{p.max():g}; reliability is defined on 0..1.")
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.minimum(np.searchsorted(edges, p, side="right") - 1, bins - 1)
    n = np.bincount(bin_of, minlength=bins).astype(np.int64)
    divisor = np.where(n > 0, n, np.nan)
    return Reliability(
        edges,
        n,
        np.bincount(bin_of, weights=p, minlength=bins) / divisor,
        np.bincount(bin_of, weights=y, minlength=bins) / divisor,
    )


def brier(predicted: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean squared distance of predictions to the truth (Brier 1950), 0..1, lower is better.

    The Brier score for outcomes 0 and 1, else the mean squared error. NaN without a known point.
    """
    p, y = _known(predicted, truth)
    return float(np.mean((p - y) ** 2)) if len(p) else math.nan


def mae(predicted: ArrayLike, truth: ArrayLike) -> float:
    """Return the mean absolute distance of predictions to the truth; NaN without a known point."""
    p, y = _known(predicted, truth)
    return float(np.mean(np.abs(p - y))) if len(p) else math.nan


def _known(predicted: ArrayLike, truth: ArrayLike) -> tuple[FloatArray, FloatArray]:
    return known_pairs(series(predicted, "predicted"), series(truth, "truth"), "predicted", "truth")
