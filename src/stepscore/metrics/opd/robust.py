"""OPD of time rather than of samples: the ``robust`` revision.

The published metrics are sums over samples. Sampled twice as densely, the same rollout has a longer path, a
lower PPL and another STR; noise of .01 in the judge changes STR by a fifth. Here the curve is the linear
interpolation of its samples over its own duration, and every metric is a mean over that time. Nothing is
prepended; the curve starts at its first sample. All lengths of time are shares of the duration, so the unit
of ``times`` does not matter.

On 101 instants x_0..x_100 evenly spaced over the duration, with q_j the mean progress within 2 % of the
duration of x_j (a window of 4 %, cut at the ends) and c_k the mean progress of the k-th hundredth:

PPL = e^2 / (e + 2 F), e = q_100.
    v1.0's p_T^2 / L, as L = p_T + 2 (sum of all falls) for a path from 0. F counts falls as the truncated
    variation does (Lochowski 2008): the total fall of the curve within .03 of q that moves least, so a fall
    below .06 counts nothing and a larger one counts its excess.
CRA = mean_k max(0, M_k - c_k - .01), M_k = max_(i<=k) min(c_i, m_i + .04).
    m_i is the mean over the 10 % of the duration that end with hundredth i: a spike raises the peak by no
    more than .04 over what was sustained, and a drop that lasts counts in full but for .01.
STR = mean over the hundredths of (s4 + s8) / 2.
    s4 is the stillness of the stillest window of 4 % of the duration that holds the hundredth, s8 that of
    8 %: 1 - r / .02 and 2 - r / .01, clipped to 0..1, r the range of q in the window. So a short pause counts
    half, one of 8 % or more in full, and a window in which q moves by .02 is not a pause.
MP, MC25..MC75: the highest sample, as in v1.0.
MC100 = MC75 and done at some sample; reaching the goal in the last frame still counts.

CRA and STR are those of the curve cut at its completion time (:mod:`stepscore.metrics.opd.completion`): what follows
is neither regret nor stagnation. A curve that is not done at its end is not cut.

A prefix is measured as if it were the whole rollout. One sample has no duration: its PPL, CRA and STR are
NaN, and so are CRA and STR of a curve that is done from its first sample on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.opd.completion import find_completion, milestones
from stepscore.metrics.validation import increasing
from stepscore.types import FloatArray, IntArray

# Chosen on recorded curves; benchmarks/tables/opd_robust.py shows their effect there and elsewhere.
_GRID = 100  # parts of the duration; lengths of time below are in these
_REACH = 2  # half of the window whose mean is the level
_MIN_FALL = 0.06  # a smaller fall adds nothing to the path
_SUSTAIN = 10  # length of the window that a peak is compared with
_MAX_SPIKE = 0.04  # how far a peak may rise above that window's mean
_MIN_DRAWDOWN = 0.01  # a smaller drawdown does not count as regret
_PAUSES = {4: 0.0, 8: 0.01}  # length of a window, and the range up to which it is fully still
_MOVING = 0.02  # the range from which a window is not still
_MAX_PREFIXES_PER_BATCH = 1024  # bounds the memory of a long curve


@dataclass(frozen=True)
class CurveProfile:
    """A curve as ``robust`` smooths it, on an even grid over its duration.

    Attributes:
        instants: The 101 instants, as shares of the duration.
        level: Mean progress around each instant, q, shape (101,).
        peak: Highest sustained progress up to the end of each hundredth, M, shape (100,).
        drawdown: Distance of each hundredth below it, minus the tolerance of .01, shape (100,).
        stillness: 0..1 for each hundredth, shape (100,).
        fall: F, the total of the falls of q beyond .06.
    """

    instants: FloatArray
    level: FloatArray
    peak: FloatArray
    drawdown: FloatArray
    stillness: FloatArray
    fall: float


def curve_profile(progress: ArrayLike, times: ArrayLike | None = None) -> CurveProfile:
    """Compute the profile of a curve of two or more known samples in 0..1, evenly spaced by default."""
    curve = _in_range(np.asarray(progress, dtype=np.float64))
    if curve.ndim != 1 or len(curve) < 2 or np.isnan(curve).any():
        raise OptionError(f"A profile needs one curve of two or more known samples, not shape {curve.shape}.")
    clock = np.arange(float(len(curve))) if times is None else checked_times(times, len(curve))
    integral = _integral(curve, clock, np.array([len(curve) - 1]))
    level = _level(integral)
    peak, drawdown = _drawdown(integral)
    return CurveProfile(
        instants=np.linspace(0.0, 1.0, _GRID + 1),
        level=level[0],
        peak=peak[0],
        drawdown=drawdown[0],
        stillness=_stillness(level)[0],
        fall=float(_fall(level)[0]),
    )


def checked_times(times: ArrayLike, samples: int) -> FloatArray:
    """Return the times as an array; raise OptionError unless finite, strictly increasing, one per sample."""
    clock = increasing(times, "times")
    if len(clock) != samples:
        raise OptionError(f"times has {len(clock)} values for {samples} samples; give one per sample.")
    return clock


def robust_prefixes(
    curve: FloatArray,
    times: FloatArray | None,
    *,
    success_probability: FloatArray | None = None,
    done_at: float | None = None,
    last_only: bool = False,
) -> dict[str, FloatArray]:
    """Compute MC.., MP, PPL, CRA and STR of every prefix of finite curves (..., T), linear in T.

    With ``last_only``, measure only the whole curves; the last axis is then 1.
    """
    _in_range(curve)
    length = curve.shape[-1]
    clock = np.arange(float(length)) if times is None else times
    ends = np.arange(length)[-1 if last_only else 0 :]
    completion = find_completion(curve, success_probability, done_at)
    values = milestones(np.maximum.accumulate(curve, axis=-1)[..., ends], completion.reached[..., ends])
    timed = {name: np.full(values["MP"].shape, math.nan) for name in ("PPL", "CRA", "STR")}
    for row in np.ndindex(curve.shape[:-1]):
        cut = completion.end[row][ends]
        measured = _measured_prefixes(curve[row], clock, np.union1d(ends, cut))
        for name, metric in timed.items():
            metric[row] = measured[name][ends if name == "PPL" else cut]
    values |= timed
    for name in ("MC", "MC100", "CRA", "STR"):
        values[name] = np.where(completion.unknown[..., ends], math.nan, values[name])
    return values


def _measured_prefixes(curve: FloatArray, times: FloatArray, ends: IntArray) -> dict[str, FloatArray]:
    """Return PPL, CRA and STR of the prefixes with these last samples, uncut; NaN elsewhere."""
    values = {name: np.full(len(curve), math.nan) for name in ("PPL", "CRA", "STR")}
    ends = ends[ends > 0]
    for first in range(0, len(ends), _MAX_PREFIXES_PER_BATCH):
        chunk = ends[first : first + _MAX_PREFIXES_PER_BATCH]
        for name, metric in _timed_metrics(curve, times, chunk).items():
            values[name][chunk] = metric
    return values


def _in_range(curve: FloatArray) -> FloatArray:
    wrong = np.argwhere((curve < 0) | (curve > 1))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        raise OptionError(
            f"Progress {curve[at]:g} at sample {at[-1]} is outside 0..1, where revision 'robust' is defined. "
            "Clip the curve, mark the sample unknown (NaN), or measure raw values with --revision v1.0."
        )
    return curve


def _timed_metrics(curve: FloatArray, times: FloatArray, ends: IntArray) -> dict[str, FloatArray]:
    integral = _integral(curve, times, ends)
    level = _level(integral)
    final = level[:, -1]
    path = final + 2 * _fall(level)
    return {
        "PPL": final**2 / np.where(path > 0, path, 1.0),
        "CRA": _drawdown(integral)[1].mean(axis=-1),
        "STR": _stillness(level).mean(axis=-1),
    }


def _integral(curve: FloatArray, times: FloatArray, ends: IntArray) -> FloatArray:
    """Return the integral of the curve from its start to each instant of each prefix, shape (prefixes, 101).

    Time is in hundredths of the prefix's duration: a difference of neighbours is the mean of a hundredth.
    """
    gaps = np.diff(times)
    slopes = np.diff(curve) / gaps
    area = np.concatenate([[0.0], np.cumsum((curve[1:] + curve[:-1]) / 2 * gaps)])
    durations = (times[ends] - times[0])[:, None]
    instants = times[0] + durations * np.arange(_GRID + 1) / _GRID
    # A prefix must not use anything beyond its last sample, not even by rounding.
    segment = np.minimum(np.searchsorted(times, instants, side="right") - 1, ends[:, None] - 1)
    into = instants - times[segment]
    integral = area[segment] + into * (curve[segment] + slopes[segment] * into / 2)
    return np.asarray(integral * (_GRID / durations))


def _window_means(integral: FloatArray, first: IntArray, last: IntArray) -> FloatArray:
    first, last = np.maximum(first, 0), np.minimum(last, _GRID)
    means: FloatArray = (integral[:, last] - integral[:, first]) / (last - first)
    return means


def _level(integral: FloatArray) -> FloatArray:
    instants = np.arange(_GRID + 1)
    return _window_means(integral, instants - _REACH, instants + _REACH)


def _fall(level: FloatArray) -> FloatArray:
    """Sum the falls of the play operator y_j = clamp(y_(j-1), q_j - .03, q_j + .03), started at its lower edge.

    It is the downward truncated variation of q. A composition of clamps is a clamp, so all y come from
    doubling: after the pass with stride s every (low, high) composes the 2 s clamps up to it.
    """
    low, high = level - _MIN_FALL / 2, level + _MIN_FALL / 2
    stride = 1
    while stride <= _GRID:
        before_low, before_high = low[:, :-stride], high[:, :-stride]
        now_low, now_high = low[:, stride:], high[:, stride:]
        low, high = low.copy(), high.copy()
        low[:, stride:] = np.clip(before_low, now_low, now_high)
        high[:, stride:] = np.clip(before_high, now_low, now_high)
        stride *= 2
    falls: FloatArray = np.maximum(low[:, :-1] - low[:, 1:], 0.0).sum(axis=-1)
    return falls


def _drawdown(integral: FloatArray) -> tuple[FloatArray, FloatArray]:
    hundredths = np.diff(integral, axis=-1)
    ends = np.arange(1, _GRID + 1)
    sustained = _window_means(integral, ends - _SUSTAIN, ends)
    peak = np.maximum.accumulate(np.minimum(hundredths, sustained + _MAX_SPIKE), axis=-1)
    return peak, np.maximum(peak - hundredths - _MIN_DRAWDOWN, 0.0)


def _stillness(level: FloatArray) -> FloatArray:
    total = np.zeros((len(level), _GRID))
    for length, fully in _PAUSES.items():
        windows = sliding_window_view(level, length + 1, axis=-1)
        moved = windows.max(axis=-1) - windows.min(axis=-1)
        still = np.clip((_MOVING - moved) / (_MOVING - fully), 0.0, 1.0)
        around = np.pad(still, ((0, 0), (length - 1, length - 1)))
        total += sliding_window_view(around, length, axis=-1).max(axis=-1)
    return total / len(_PAUSES)
