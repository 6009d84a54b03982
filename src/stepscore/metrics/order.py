"""Does a curve rise with the task? Rank correlation, agreement of level, and resolution.

Rank metrics accept any channel (also log-probabilities) and ignore its level: a curve that ends at 0.3 can
have a VOC of 1. `ccc` compares levels, `epr` counts how many a curve uses. Points with a NaN in either series
are dropped; `stepscore.metrics.known_share` is the coverage.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import SLACK, known_pairs, series
from stepscore.types import FloatArray, IntArray

_SCALES_AT_ONCE = 64
_MOST_COMPARED = 256
_BEFORE = np.triu(np.ones((_MOST_COMPARED, _MOST_COMPARED), dtype=bool), 1)  # i < j


def voc(values: ArrayLike, order: ArrayLike | None = None, *, tolerance: float = 0.0) -> float:
    """Return the value-order correlation: Spearman's rank correlation of values with their order in time.

    VOC = Pearson(rank(values), rank(order)), ranks of ties averaged (GVL, arXiv 2411.04549; as computed by
    TOPReward and OpenGVL). -1..1, higher is better; NaN with fewer than two known points or if either side is
    constant.

    Args:
        order: Times, frame numbers or true progress of the same points; their position by default.
        tolerance: Largest difference of tied values. Ranks magnify meaningless drift: a frozen video whose
            score creeps up
        by hundredths has a VOC of 1 at 0.0. See `average_ranks`.
    """
    known = series(values, "values")
    times = np.arange(len(known), dtype=np.float64) if order is None else series(order, "order")
    known, times = known_pairs(known, times, "values", "order")
    return _pearson(average_ranks(known, tolerance=tolerance), average_ranks(times))


def average_ranks(values: ArrayLike, *, tolerance: float = 0.0) -> FloatArray:
    """Return ranks from 1, ties averaged; NaN values have NaN ranks and do not count in the others'.

    rank_i = 1/2 + #{j: v_j below v_i} + 1/2 #{j: v_j tied with v_i, including i}, tied meaning |v_i - v_j| <=
    tolerance. Above tolerance 0, being tied is not transitive, so values are compared pair by pair and never
    grouped: a slow drift cannot chain its ends together, and negating the values reverses the ranks exactly.
    """
    if not 0 <= tolerance < math.inf:
        raise OptionError(
            f"tolerance must be a number of at least 0, in the values' own unit, got {tolerance}."
        )
    array = series(values, "values")
    ranks = np.full(len(array), np.nan)
    known = array[~np.isnan(array)]
    ordered = np.sort(known)
    reach = tolerance * (1 + SLACK)
    below = np.searchsorted(ordered, known - reach, side="left")
    not_above = np.searchsorted(ordered, known + reach, side="right")
    ranks[~np.isnan(array)] = (below + not_above + 1) / 2
    return ranks


def kendall_tau(a: ArrayLike, b: ArrayLike, variant: Literal["a", "b"] = "b") -> float:
    """Return Kendall's rank correlation, of C concordant and D discordant of n0 = n(n-1)/2 pairs, in O(n log n).

    tau-a = (C - D) / n0: a tied pair adds nothing, so a constant scores 0 and a coarse curve cannot reach 1.
    tau-b = (C - D) / sqrt((n0 - ties in a) (n0 - ties in b)) excludes ties, so a coarse curve can. -1..1,
    higher is better. NaN with fewer than two known points; tau-b also if either is constant. (Kendall 1938
    and 1945; counted by inversions after sorting, Knight 1966. ProcVLM and Robometer report tau-a, Robometer
    under the name of tau-b.)
    """
    if variant not in ("a", "b"):
        raise OptionError(f"variant must be 'a' or 'b', got {variant!r}.")
    left, right = known_pairs(series(a, "a"), series(b, "b"), "a", "b")
    n = len(left)
    if n < 2:
        return math.nan
    x = np.unique(left, return_inverse=True)[1].astype(np.int64)
    y = np.unique(right, return_inverse=True)[1].astype(np.int64)
    pairs = n * (n - 1) // 2
    ties_x, ties_y = _tied_pairs(x), _tied_pairs(y)
    ties_both = _tied_pairs(x * (int(y.max()) + 1) + y)
    # Sorted by x and then y, a pair tied in x is never an inversion of y.
    discordant = _inversions(y[np.lexsort((y, x))])
    balance = pairs - ties_x - ties_y + ties_both - 2 * discordant
    if variant == "a":
        return balance / pairs
    untied = (pairs - ties_x) * (pairs - ties_y)
    return balance / math.sqrt(untied) if untied else math.nan


def ccc(a: ArrayLike, b: ArrayLike) -> float:
    """Return the concordance correlation: agreement of two series in level and scale, not only in order.

    CCC = 2 cov(a, b) / (var a + var b + (mean a - mean b)^2), without Bessel's correction (Lin 1989; reported
    per episode by ProcVLM, whose code adds 1e-8 on the percent scale to the denominator). -1..1; 1 only if
    the series are equal, 0 if one is constant and the other is not it. NaN with fewer than two known points,
    with infinite values, or if both are the same constant.
    """
    left, right = known_pairs(series(a, "a"), series(b, "b"), "a", "b")
    if len(left) < 2 or not (np.all(np.isfinite(left)) and np.all(np.isfinite(right))):
        return math.nan
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        # Decided on the values themselves: the variance of a constant is not always 0 in floats.
        return math.nan if np.array_equal(left, right) else 0.0
    left_mean, right_mean = left.mean(), right.mean()
    covariance = np.mean((left - left_mean) * (right - right_mean))
    spread = np.var(left) + np.var(right) + (left_mean - right_mean) ** 2
    return float(2 * covariance / spread)


def epr(progress: ArrayLike, *, threshold: float = 0.5, finest: int = 1000) -> float:
    """Return the effective progress resolution: how fine a scale the curve really uses, in bits.

    EPR = -log2 min{delta = 1/k, k = 1..finest : delta * #{distinct floor(p / delta)} >= threshold} (ProcVLM,
    evqa/eval/compute_metrics.py, reported as EPR@50). It exposes a judge that answers in a few round numbers,
    which VOC rewards. 0..log2(finest), higher is finer. A constant has 1 bit at the default threshold, and n
    points at most log2(n / threshold), so compare curves with equally many points. NaN with fewer than two
    known points.
    """
    if not 0 < threshold <= 1:
        raise OptionError(f"threshold must be above 0 and up to 1, got {threshold}.")
    if finest < 1:
        raise OptionError(f"finest must be an integer of at least 1, got {finest}.")
    values = series(progress, "progress")
    known = np.sort(values[~np.isnan(values)])
    if len(known) < 2:
        return math.nan
    if known[0] < 0 or known[-1] > 1:
        raise OptionError(
            f"progress spans {known[0]:g}..{known[-1]:g}; the resolution is defined on 0..1. "
            "Set values outside it to NaN, or clip them if that is intended."
        )

    # n values fill at most n bins; one bin of width 1 is always filled, so some k is found.
    start = min(finest, math.floor(len(known) / threshold) + 1)
    while True:
        tried = np.arange(start, max(0, start - _SCALES_AT_ONCE), -1)
        delta = 1.0 / tried
        # Sorted values have sorted bins, so distinct bins are counted where the bin changes.
        bins = np.floor(known / delta[:, None])
        in_use = delta * (1 + np.count_nonzero(bins[:, 1:] != bins[:, :-1], axis=1))
        fine_enough = np.flatnonzero(in_use >= threshold)
        if len(fine_enough):
            return math.log2(tried[fine_enough[0]])
        start -= _SCALES_AT_ONCE


def _pearson(x: FloatArray, y: FloatArray) -> float:
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return math.nan
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip(x @ y / math.sqrt((x @ x) * (y @ y)), -1, 1))


def _tied_pairs(codes: IntArray) -> int:
    ordered = np.sort(codes)
    edges = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1], [True])))
    counts = np.diff(edges)
    return int(np.sum(counts * (counts - 1) // 2))


def _inversions(codes: IntArray) -> int:
    """Count the pairs i < j with codes[i] > codes[j], for codes of at least 0.

    Two codes differ first at one bit, which the larger has set. So for each bit, among codes equal in all
    higher bits and in their original order, every set bit before an unset one is an inversion. For few codes,
    comparing all pairs is faster.
    """
    if len(codes) <= _MOST_COMPARED:
        return int(np.count_nonzero((codes[:, None] > codes) & _BEFORE[: len(codes), : len(codes)]))
    total = 0
    for bit in range(int(codes.max()).bit_length()):
        higher = codes >> (bit + 1)
        order = np.argsort(higher, kind="stable")
        group, bit_set = higher[order], (codes[order] >> bit) & 1
        ones_before = np.cumsum(bit_set) - bit_set
        starts = np.flatnonzero(np.diff(group, prepend=-1))
        sizes = np.diff(starts, append=len(codes))
        ones_in_group = ones_before - np.repeat(ones_before[starts], sizes)
        total += int(ones_in_group[bit_set == 0].sum())
    return total
