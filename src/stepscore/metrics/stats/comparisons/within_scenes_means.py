"""Two means on the same fixed scenes: a permutation within scenes and a bootstrap-t, each with its interval.

The p-value is the larger of the two (:mod:`stepscore.metrics.stats.studentised`), and the interval the hull
of both: a difference is outside only if both tests reject it, so interval and p-value agree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.metrics.stats.bootstrap import batches
from stepscore.metrics.stats.significance import (
    N_DRAWS,
    Significance,
    Stratum,
    are_enumerable,
    drawn_arrangements,
    every_arrangement,
)
from stepscore.types import FloatArray, IntArray

_STEPS = 14  # of the search for an end: its error is under 1e-3 standard errors


@dataclass(frozen=True)
class ShiftedPermutation:
    """The studentised permutation test of ``A - B = d`` within scenes for any ``d``, with fixed arrangements.

    The difference of the arms is linear in ``d`` and its variance quadratic, so coefficients suffice. At ``d
    = 0`` the p-value is that of :func:`stepscore.metrics.stats.permutation_test`.

    Attributes:
        differences: Coefficients of 1 and ``-d`` of the difference, shape (2, arrangements), the observed one
            first.
        variances: Coefficients of 1, ``-2 d`` and ``d^2`` of its variance, shape (3, arrangements).
        exact: Whether these are all arrangements.
    """

    differences: FloatArray
    variances: FloatArray
    exact: bool

    @classmethod
    def of(cls, scenes: Sequence[tuple[FloatArray, FloatArray]], seed: int) -> ShiftedPermutation:
        """Return it for the values of A and B in each scene, with the draws of the test of the same seed."""
        both = [np.concatenate(pair) - np.concatenate(pair).mean() for pair in scenes]
        strata = [Stratum(y, np.ones(len(y)), len(a), 1.0) for y, (a, _) in zip(both, scenes, strict=True)]
        weights = np.array([len(a) * len(b) / (len(a) + len(b)) for a, b in scenes])
        weights /= weights.sum()
        parts = [
            np.sum(
                [
                    _coefficients(weight * y, len(a), chosen, weight)
                    for y, (a, _), chosen, weight in zip(both, scenes, part, weights, strict=True)
                ],
                axis=0,
            )
            for part in _parts(strata, seed)
        ]
        found = np.concatenate(parts, axis=1)
        return cls(found[:2], found[2:], are_enumerable(strata))

    @property
    def name(self) -> str:
        """Name of the test."""
        drawn = "exact" if self.exact else f"{N_DRAWS} draws"
        return f"studentised permutation within scenes ({drawn})"

    def p_value(self, shift: float = 0.0) -> float:
        """Return the two-sided p-value of ``A - B = shift``."""
        size = np.abs(self.differences[0] - shift * self.differences[1])
        terms = self.variances * np.array([[1.0], [-2 * shift], [shift**2]])
        variance, scale = terms.sum(axis=0), np.abs(terms).sum(axis=0)
        variance = np.where(variance > 1e-12 * scale, variance, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.where(size**2 <= 1e-24 * np.max(scale), 0.0, size / np.sqrt(variance))
        return float(np.mean(found >= found[0] * (1 - 1e-9) - 1e-9))

    def interval(self, value: float, error: float, level: float) -> tuple[float, float]:
        """Return the differences around the observed ``value`` that are not rejected; infinite if none is.

        The search starts with steps of the standard ``error``.
        """
        alpha = 1 - level

        def accepted(d: float) -> bool:
            return self.p_value(d) >= alpha

        return _end(accepted, value, -error), _end(accepted, value, error)


def _parts(strata: list[Stratum], seed: int) -> Iterator[list[IntArray]]:
    """Yield arrangements in parts that fit into memory; the first row of the first is the observed one."""
    if are_enumerable(strata):
        yield every_arrangement(strata)
        return
    yield [np.arange(stratum.first)[None] for stratum in strata]
    rng = np.random.default_rng(seed)
    for size in batches(N_DRAWS, sum(len(stratum.totals) for stratum in strata)):
        yield [drawn_arrangements(stratum, size, rng) for stratum in strata]


def _coefficients(values: FloatArray, n: int, chosen: IntArray, weight: float) -> FloatArray:
    """Return the coefficients of the difference and of its variance in one scene, a column per arrangement.

    ``values`` are A's ``n``, then B's, centred and weighted; ``chosen`` are the trials in the first arm, a
    row per arrangement. A's values become ``values - weight d``.
    """
    m = len(values) - n
    mine = weight * (np.arange(n + m) < n)
    columns = np.stack([values, mine, values**2, values * mine, mine**2])
    first = columns[:, chosen].sum(axis=2)
    rest = columns.sum(axis=1)[:, None] - first
    middle = np.array([[0.0], [weight * n / (n + m)]])
    arms = [_arm(sums, size, middle) for sums, size in ((first, n), (rest, m))]
    return np.concatenate([arms[0][0] - arms[1][0], arms[0][1] + arms[1][1]])


def _arm(sums: FloatArray, size: int, middle: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the coefficients of an arm's mean and of the mean's variance.

    An arm of one trial has no spread; its distance from the scene's mean, ``middle``, replaces it.
    """
    values, mine, squares, products, shifts = sums
    mean = np.stack([values, mine]) / size
    if size == 1:
        away = mean - middle
        return mean, np.stack([away[0] ** 2, away[0] * away[1], away[1] ** 2])
    spread = np.stack([squares, products, shifts]) - size * np.stack(
        [mean[0] ** 2, mean[0] * mean[1], mean[1] ** 2]
    )
    return mean, spread / (size * (size - 1))


def _end(accepted: Callable[[float], bool], value: float, step: float) -> float:
    """Return the farthest accepted difference in the direction of ``step``.

    0 is tested explicitly if it lies on the way, so that the end agrees with the test.
    """
    inside, outside = value, value + 3 * step
    if value * step < 0:  # 0 lies in this direction
        if accepted(0.0):
            inside, outside = 0.0, 3 * step
        else:
            outside = 0.0
    for _ in range(8):
        if not accepted(outside):
            break
        inside, outside = outside, value + 2 * (outside - value)
    else:
        return math.copysign(math.inf, step)
    for _ in range(_STEPS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if accepted(middle) else (inside, middle)
    return (inside + outside) / 2 if value * outside > 0 else inside


def hull(value: float, *intervals: tuple[float, float]) -> tuple[float, float]:
    """Return the hull; an infinite end away from 0 becomes as far from ``value`` as the other end."""
    lo, hi = min(lo for lo, _ in intervals), max(hi for _, hi in intervals)
    if value > 0 and math.isinf(hi) and lo > 0:
        hi = 2 * value - lo
    if value < 0 and math.isinf(lo) and hi < 0:
        lo = 2 * value - hi
    return (lo, hi) if math.isfinite(lo) and math.isfinite(hi) else (math.nan, math.nan)


def larger(permuted: Significance, studentised: Significance) -> Significance:
    """Return the larger p-value under both names; only the permutation's if the other is NaN."""
    if math.isnan(studentised.p_value):
        return permuted
    p = max(permuted.p_value, studentised.p_value)
    return Significance(p, f"the larger of {permuted.test} and {studentised.test}")
