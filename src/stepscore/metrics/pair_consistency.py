"""Do a judge's comparisons of two frames fit together, and how fine are its answers? Measured without labels.

The hop from potential p to q is the share of what was left that got done, (q - p) / (1 - p), or of what was
done that came undone, (q - p) / p (Robo-Dopamine). Hops are not additive but multiplicative: for two advances
(1 - H_pr) = (1 - H_pq) (1 - H_qr), and for two losses (1 + H_pr) = (1 + H_pq) (1 + H_qr). Differences of a
scalar curve are consistent by construction, so these numbers say nothing about a judge that scores frames one
by one.
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
"""Least remainder 1 - |H| in a logarithm, so that a hop of 1 is not infinitely far from 0.999."""

_SAME_TIME_S = 1e-6


def hop_between(before: ArrayLike, after: ArrayLike) -> FloatArray:
    """Return the hop between two potentials in 0..1; 0 without a change, NaN if either is unknown."""
    p, q = np.broadcast_arrays(np.asarray(before, np.float64), np.asarray(after, np.float64))
    change = q - p
    whole = np.where(change > 0, 1 - p, p)
    return np.asarray(np.where(change == 0, 0.0, change / np.where(whole == 0, 1.0, whole)))


def triple_residual(pq: ArrayLike, qr: ArrayLike, pr: ArrayLike) -> FloatArray:
    """Return how far each triple of hops is from the multiplicative law of its direction, in nats (M1).

    ``|log(1 - |H_pr|) - log(1 - |H_pq|) - log(1 - |H_qr|)|``, each remainder at least ``MIN_REMAINDER``; 0
    for a perfect judge. NaN if a hop is unknown or the signs differ (0 has either): then there is no law
    without the potential; see :func:`confirmed_order`.
    """
    hops = _columns(pq, qr, pr)
    signs = np.sign(hops)
    one_sign = np.all(signs >= 0, axis=0) | np.all(signs <= 0, axis=0)
    first, second, both = np.log(np.maximum(1 - np.abs(hops), MIN_REMAINDER))
    return np.asarray(np.where(one_sign, np.abs(both - first - second), np.nan))


def confirmed_order(pq: ArrayLike, qr: ArrayLike, pr: ArrayLike) -> FloatArray:
    """Return 1 if the hop over two hops of one sign confirms it, 0 if it has the other sign, 0.5 if it is 0.

    NaN if a hop is unknown or the two short ones differ in sign.
    """
    first, second, both = np.sign(_columns(pq, qr, pr))
    result = np.where(both == 0, 0.5, (both == first).astype(np.float64))
    known = (first == second) & (first != 0) & ~np.isnan(both)
    return np.asarray(np.where(known, result, np.nan))


def opposite_signs(forward: ArrayLike, swapped: ArrayLike) -> FloatArray:
    """Return 1 if the answers about (p, q) and (q, p) have opposite signs or are both 0, else 0 (M4).

    Only signs are compared, since hops there and back are shares of different wholes. NaN if unknown.
    """
    there, back = _columns(forward, swapped)
    agree = (np.sign(there) == -np.sign(back)).astype(np.float64)
    return np.asarray(np.where(np.isnan(there) | np.isnan(back), np.nan, agree))


def curve_gap(first: ArrayLike, second: ArrayLike) -> float:
    """Return the mean absolute difference of two curves where both are known (M3); NaN if nowhere."""
    one, other = _columns(first, second)
    gaps = np.abs(one - other)
    known = gaps[~np.isnan(gaps)]
    return float(known.mean()) if len(known) else float("nan")


def partition_gap(
    coarse_times: ArrayLike, coarse: ArrayLike, fine_times: ArrayLike, fine: ArrayLike
) -> tuple[float, float]:
    """Return the mean gap of two curves at shared times, and the gap of their last points (M2); NaN if unknown."""
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
    """The values that a judge returns.

    Attributes:
        distinct: Number of different values after rounding to 1e-9.
        step: Smallest difference between two of them; NaN with only one.
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
    """Return the share of neighbouring points of a curve that are equal (R3); NaN if none is known."""
    steps = np.diff(series(progress, "progress"))
    known = steps[~np.isnan(steps)]
    return float(np.mean(known == 0)) if len(known) else math.nan


def repeat_variance(answers: ArrayLike) -> FloatArray:
    """Return the unbiased variance of the repeated answers to each question (R4), shape (n,).

    The judge's noise is the root of their mean. ``answers`` has shape (n, repeats); NaN with fewer than two
    known ones.
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
