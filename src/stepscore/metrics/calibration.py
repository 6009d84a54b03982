"""From a judge's score to labelled progress, and how far the two agree.

A score can order moments rightly and still lie about their level. A monotone map keeps the order and repairs
the level; it is fitted on labelled episodes and believed only on others.
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
    """A map that never falls: straight lines between knots, level outside them.

    Attributes:
        x: Scores at the knots, strictly increasing.
        y: Progress at the knots, never falling.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x, dtype=np.float64), np.asarray(self.y, dtype=np.float64)
        if x.ndim != 1 or x.shape != y.shape or not len(x):
            raise OptionError(f"A monotone map has {x.size} scores and {y.size} values; it needs as many.")
        if not (np.all(np.isfinite(x)) and np.all(np.isfinite(y))):
            raise OptionError("A monotone map holds a value that is not finite.")
        if np.any(np.diff(x) <= 0) or np.any(np.diff(y) < 0):
            raise OptionError("A monotone map's scores must rise from knot to knot, its values never fall.")

    def apply(self, scores: ArrayLike) -> FloatArray:
        """Progress at each score, shape (n,). Beyond the outer knots it is theirs; NaN stays NaN."""
        return np.interp(series(scores, "scores"), self.x, self.y)


def fit_calibration(scores: ArrayLike, truth: ArrayLike, weights: ArrayLike | None = None) -> MonotoneMap:
    """The monotone map with the least squared error: isotonic regression by pooling adjacent violators.

    min over non-falling f of sum_i w_i (f(score_i) - truth_i)^2 (Barlow et al. 1972). Equal scores are first
    averaged. Knots stand at both ends of every pooled block; between two blocks the map is linear, as in
    scikit-learn's ``IsotonicRegression``.

    Args:
        scores: The judge's values, in any unit, shape (n,).
        truth: Labelled progress at the same moments, 0..1.
        weights: What each moment counts, above 0; all alike if not given.

    Raises:
        OptionError: No moment has both known, a score is infinite, or labels leave 0..1.
    """
    x, y = series(scores, "scores"), series(truth, "truth")
    w = np.ones(len(x)) if weights is None else series(weights, "weights")
    same_length(x, w, "scores", "weights")
    same_length(x, y, "scores", "truth")
    known = ~(np.isnan(x) | np.isnan(y))
    x, y, w = x[known], y[known], w[known]
    if not len(x):
        raise OptionError("There is no moment whose score and labelled progress are both known.")
    if not np.all(np.isfinite(x)):
        raise OptionError("A score is infinite; set it to NaN if it is unknown.")
    if np.any((y < 0) | (y > 1)):
        raise OptionError(f"truth spans {y.min():g}..{y.max():g}; labelled progress lies in 0..1.")
    if not (np.all(np.isfinite(w)) and np.all(w > 0)):
        raise OptionError("weights must be finite and above 0.")
    levels, place = np.unique(x, return_inverse=True)
    mass = np.bincount(place, weights=w).astype(np.float64)
    fitted = _pool(np.bincount(place, weights=w * y) / mass, mass)
    # A level inside a block lies on the line between the block's ends, so that it needs no knot.
    inner = np.zeros(len(levels), dtype=bool)
    inner[1:-1] = (fitted[1:-1] == fitted[:-2]) & (fitted[1:-1] == fitted[2:])
    return MonotoneMap(tuple(levels[~inner].tolist()), tuple(np.clip(fitted[~inner], 0, 1).tolist()))


def _pool(values: FloatArray, mass: FloatArray) -> FloatArray:
    """The non-falling series nearest to ``values``: neighbours that fall are replaced by their mean."""
    means: list[float] = []
    masses: list[float] = []
    sizes: list[int] = []
    for value, weight in zip(values.tolist(), mass.tolist(), strict=True):
        mean, total, size = value, weight, 1
        while means and means[-1] >= mean:
            before = masses.pop()
            mean = (means.pop() * before + mean * total) / (before + total)
            total += before
            size += sizes.pop()
        means.append(mean)
        masses.append(total)
        sizes.append(size)
    # A mean of means may fall short of its neighbour by one rounding; the order is what was promised.
    return np.maximum.accumulate(np.repeat(np.array(means), sizes))


@dataclass(frozen=True)
class Reliability:
    """What was said against what was true, by bins of what was said.

    Attributes:
        edges: The bins' borders from 0 to 1, shape (b + 1,); a bin holds its lower border, the last both.
        n: Moments in each, shape (b,).
        said: Mean of what was said, shape (b,); NaN in an empty bin.
        true: Mean of the labels, shape (b,); NaN in an empty bin.
    """

    edges: FloatArray
    n: IntArray
    said: FloatArray
    true: FloatArray

    @property
    def ece(self) -> float:
        """Expected calibration error: sum_b n_b / n |said_b - true_b| (Naeini et al. 2015), 0..1."""
        full = self.n > 0
        if not np.any(full):
            return math.nan
        return float(np.average(np.abs(self.said - self.true)[full], weights=self.n[full]))


def reliability(said: ArrayLike, truth: ArrayLike, *, bins: int = 10) -> Reliability:
    """Means of what was said and of the labels in bins of equal width. Unknown moments are left out.

    Args:
        said: Progress or probability, 0..1, shape (n,).
        truth: Labelled progress 0..1, or outcomes 0 and 1.
        bins: Bins between 0 and 1.
    """
    if bins < 1:
        raise OptionError(f"bins is {bins}; expected at least 1.")
    p, y = known_pairs(series(said, "said"), series(truth, "truth"), "said", "truth")
    if np.any((p < 0) | (p > 1)):
        raise OptionError(f"said spans {p.min():g}..{p.max():g}; reliability is defined on 0..1.")
    edges = np.linspace(0, 1, bins + 1)
    place = np.minimum(np.searchsorted(edges, p, side="right") - 1, bins - 1)
    n = np.bincount(place, minlength=bins).astype(np.int64)
    divisor = np.where(n > 0, n, np.nan)
    return Reliability(
        edges,
        n,
        np.bincount(place, weights=p, minlength=bins) / divisor,
        np.bincount(place, weights=y, minlength=bins) / divisor,
    )


def brier(said: ArrayLike, truth: ArrayLike) -> float:
    """Mean squared distance of what was said to the truth (Brier 1950), 0..1, lower is better.

    With outcomes 0 and 1 it is the Brier score, with labelled progress the mean squared error. NaN without a
    known moment.
    """
    p, y = known_pairs(series(said, "said"), series(truth, "truth"), "said", "truth")
    return float(np.mean((p - y) ** 2)) if len(p) else math.nan


def mae(said: ArrayLike, truth: ArrayLike) -> float:
    """Mean absolute distance of what was said to the truth; NaN without a known moment."""
    p, y = known_pairs(series(said, "said"), series(truth, "truth"), "said", "truth")
    return float(np.mean(np.abs(p - y))) if len(p) else math.nan
