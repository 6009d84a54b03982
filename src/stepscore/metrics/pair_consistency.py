"""Do a judge's comparisons of two frames fit together? Measured without labels, on hops between -1 and 1.

The hop from potential p to q is the share of what was left that got done, (q - p) / (1 - p), or of what was done
that came undone, (q - p) / p (Robo-Dopamine). It is not additive: 0 to 0.5 to 1 has the hops 0.5 and 1, and 0 to 1
has 1. Its laws are multiplicative: what is left after two advances is the product of what each leaves,
(1 - H_pr) = (1 - H_pq) (1 - H_qr), and what is kept after two losses is (1 + H_pr) = (1 + H_pq) (1 + H_qr).

Differences of a scalar curve obey every law of their own kind by construction, so these numbers say nothing about
a judge that scores frames one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import increasing, same_length, series
from stepscore.types import FloatArray

MIN_REMAINDER = 1e-3
"""Least remainder 1 - |H| whose logarithm is taken, so that a hop of 1 is not infinitely far from one of 0.999."""

_SAME_TIME_S = 1e-6


def hop_between(before: ArrayLike, after: ArrayLike) -> FloatArray:
    """Return the hop between two potentials in 0..1: a share of what was left, or of what was done.

    Where nothing changes it is 0; NaN where either is unknown.
    """
    p, q = np.broadcast_arrays(np.asarray(before, np.float64), np.asarray(after, np.float64))
    change = q - p
    whole = np.where(change > 0, 1 - p, p)
    return np.asarray(np.where(change == 0, 0.0, change / np.where(whole == 0, 1.0, whole)))


def triple_residual(pq: ArrayLike, qr: ArrayLike, pr: ArrayLike) -> FloatArray:
    """Return how far each triple of hops is from the multiplicative law of its direction, in nats (M1).

    ``|log(1 - |H_pr|) - log(1 - |H_pq|) - log(1 - |H_qr|)|``, each remainder at least ``MIN_REMAINDER``. A perfect
    judge has 0. NaN where a hop is unknown, and where the three do not have one sign (0 has either): for those
    there is no law without knowing the potential; see :func:`confirmed_order`.

    Args:
        pq: Hop from the first point to the second, shape (n,).
    """
    hops = _columns(pq, qr, pr)
    signs = np.sign(hops)
    one_sign = np.all(signs >= 0, axis=0) | np.all(signs <= 0, axis=0)
    first, second, both = np.log(np.maximum(1 - np.abs(hops), MIN_REMAINDER))
    return np.asarray(np.where(one_sign, np.abs(both - first - second), np.nan))


def confirmed_order(pq: ArrayLike, qr: ArrayLike, pr: ArrayLike) -> FloatArray:
    """Return 1 where two hops of one sign are confirmed by the hop over both, 0 where it has the other sign.

    0.5 where the long hop is 0. NaN where a hop is unknown, or the two short ones do not have one sign.
    """
    first, second, both = np.sign(_columns(pq, qr, pr))
    result = np.where(both == 0, 0.5, (both == first).astype(np.float64))
    known = (first == second) & (first != 0) & ~np.isnan(both)
    return np.asarray(np.where(known, result, np.nan))


def opposite_signs(forward: ArrayLike, swapped: ArrayLike) -> FloatArray:
    """Return 1 where the answers about (p, q) and (q, p) have opposite signs, or are both 0, else 0 (M4).

    Only signs are compared: the hops there and back are shares of different wholes. NaN where either is unknown.
    """
    there, back = _columns(forward, swapped)
    agree = (np.sign(there) == -np.sign(back)).astype(np.float64)
    return np.asarray(np.where(np.isnan(there) | np.isnan(back), np.nan, agree))


def curve_gap(first: ArrayLike, second: ArrayLike) -> float:
    """Return the mean absolute difference of two curves at the same points, where both are known (M3); else NaN."""
    one, other = _columns(first, second)
    gaps = np.abs(one - other)
    known = gaps[~np.isnan(gaps)]
    return float(known.mean()) if len(known) else float("nan")


def partition_gap(
    coarse_times: ArrayLike, coarse: ArrayLike, fine_times: ArrayLike, fine: ArrayLike
) -> tuple[float, float]:
    """Return how far a curve moves when it is judged at other points: the mean gap, and the gap at the end (M2).

    Args:
        coarse_times: Seconds of the points of one curve, increasing.
        fine_times: Seconds of the other, of which some are shared.

    Returns:
        The mean absolute difference at the times that both have, and the absolute difference at the last point of
        each; NaN where nothing is shared or known.
    """
    at, fine_at = increasing(coarse_times, "coarse_times"), increasing(fine_times, "fine_times")
    values, fine_values = series(coarse, "coarse"), series(fine, "fine")
    same_length(at, values, "coarse_times", "coarse")
    same_length(fine_at, fine_values, "fine_times", "fine")
    if not len(at) or not len(fine_at):
        return float("nan"), float("nan")
    nearest = np.abs(fine_at[None, :] - at[:, None]).argmin(axis=1)
    shared = np.abs(fine_at[nearest] - at) <= _SAME_TIME_S
    mean = curve_gap(values[shared], fine_values[nearest][shared])
    return mean, float(abs(values[-1] - fine_values[-1]))


def _columns(*values: ArrayLike) -> FloatArray:
    arrays = [series(value, "hops") for value in values]
    for other in arrays[1:]:
        same_length(arrays[0], other, "hops", "hops")
    return np.stack(arrays)


HOP_BINS = ((0.03, 0.05), (0.05, 0.10), (0.10, 0.20), (0.20, 0.30), (0.30, 0.50), (0.50, math.inf))
"""Ranges [lo, hi) of the absolute true hop by which sign accuracy is reported."""

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Levels:
    """Which values a judge returns.

    Attributes:
        distinct: Different values among them, after rounding to 1e-9.
        step: Smallest difference between two of them; NaN where there is only one.
    """

    n: int
    distinct: int
    step: float


def value_levels(values: ArrayLike) -> Levels:
    """Return how many different values a judge returned, and their smallest difference (R3)."""
    known = series(values, "values")
    known = known[~np.isnan(known)]
    distinct = np.unique(np.round(known, _DIGITS))
    step = float(np.diff(distinct).min()) if len(distinct) > 1 else math.nan
    return Levels(len(known), len(distinct), step)


def equal_neighbours(progress: ArrayLike) -> float:
    """Return the share of neighbouring points of a curve with exactly one value (R3); NaN where none is known."""
    steps = np.diff(series(progress, "progress"))
    known = steps[~np.isnan(steps)]
    return float(np.mean(known == 0)) if len(known) else math.nan


def repeat_variance(answers: ArrayLike) -> FloatArray:
    """Return the variance of the answers to each question that was asked several times (R4), shape (n,).

    The noise of the judge is the root of their mean. Unbiased over the known answers; NaN where fewer than two are.

    Args:
        answers: A row for each question, a column for each time it was asked, shape (n, repeats).
    """
    table = np.asarray(answers, dtype=np.float64)
    if table.ndim != 2:
        raise OptionError(f"answers have {table.ndim} dimensions; expected a row for each question.")
    known = ~np.isnan(table)
    count = known.sum(axis=1)
    total = np.where(known, table, 0.0).sum(axis=1)
    mean = total / np.maximum(count, 1)
    squares = np.where(known, (table - mean[:, None]) ** 2, 0.0).sum(axis=1)
    return np.asarray(np.where(count > 1, squares / np.maximum(count - 1, 1), np.nan))
