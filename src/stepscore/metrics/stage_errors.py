"""A curve against true progress and annotated stages: its error, and its rise at stage boundaries.

Times are seconds from the episode's first frame. Points with NaN progress are unknown: they are neither
guessed nor interpolated across.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.order import ccc
from stepscore.metrics.stages import StageSpan, span_edges, stage_shares, truth_trace
from stepscore.metrics.validation import SLACK, increasing, same_length, series
from stepscore.types import FloatArray


@dataclass(frozen=True, slots=True)
class TraceError:
    """Distance of a curve to the truth over the points at which both are known; NaN with too few.

    ``mae`` and ``rmse`` are in 0..1, lower is better; ``ccc`` in -1..1, higher is better.
    """

    mae: float
    rmse: float
    ccc: float
    n: int
    coverage: float


@dataclass(frozen=True)
class BoundaryRise:
    """The part of a curve's rise close to stage boundaries.

    Attributes:
        boundaries: Times, shape (m,).
        rise: Rise of the curve across each boundary; NaN if unknown.
        truth_rise: Rise of the truth trace across the same window.
        share: Share of the curve's whole rise inside the windows, overlaps counted once; NaN if a part is
            unknown or the
        curve does not rise.
        truth_share: The share of a perfect curve.
    """

    boundaries: FloatArray
    rise: FloatArray
    truth_rise: FloatArray
    share: float
    truth_share: float


@dataclass(frozen=True)
class PlateauError:
    """Movement of a curve while the task makes no progress.

    Attributes:
        error: Mean absolute deviation from the value at the plateau's start, over all known plateau points.
        coverage: n over all plateau points.
        plateaus: Start and end of each plateau that holds a point, shape (p, 2); ``errors`` has the error of
            each.
    """

    error: float
    n: int
    coverage: float
    plateaus: FloatArray
    errors: FloatArray


@dataclass(frozen=True, slots=True)
class BoundaryF1:
    """Agreement of found with annotated boundaries; a ratio is NaN where its denominator is 0."""

    f1: float
    precision: float
    recall: float
    matched: int
    n_true: int
    n_found: int


def trace_error(
    times: ArrayLike, progress: ArrayLike, spans: Sequence[StageSpan], weights: ArrayLike | None = None
) -> TraceError:
    """Return MAE, RMSE and CCC of a curve to `truth_trace`; every point counts once."""
    at, curve = _curve(times, progress)
    return truth_error(curve, truth_trace(spans, at, weights))


def truth_error(progress: ArrayLike, truth: ArrayLike) -> TraceError:
    """Return MAE, RMSE and CCC of a curve to true progress over the points where both are known."""
    curve, truth = series(progress, "progress"), series(truth, "truth")
    same_length(curve, truth, "progress", "truth")
    known = ~np.isnan(curve + truth)
    if not known.any():
        return TraceError(math.nan, math.nan, math.nan, 0, 0.0 if len(curve) else math.nan)
    distance = curve[known] - truth[known]
    return TraceError(
        mae=float(np.mean(np.abs(distance))),
        rmse=float(np.sqrt(np.mean(distance**2))),
        ccc=ccc(curve, truth),
        n=int(known.sum()),
        coverage=float(known.mean()),
    )


def stage_boundaries(spans: Sequence[StageSpan]) -> FloatArray:
    """Return the times at which a stage starts or ends, ascending and distinct."""
    return np.unique(np.concatenate(span_edges(spans)))


def boundary_rise(
    times: ArrayLike,
    progress: ArrayLike,
    spans: Sequence[StageSpan],
    window_s: float = 0.5,
    weights: ArrayLike | None = None,
) -> BoundaryRise:
    """Return the rise of a curve at each stage boundary b: value(b + window_s) - value(b - window_s).

    Values between points are interpolated linearly; windows are cut to the curve's time, and a boundary
    outside it has a NaN rise. A judge that jumps when it assigns another stage has a ``share`` far above
    ``truth_share``; one that does not notice the ends of stages, one far below.
    """
    if not 0 < window_s < math.inf:
        raise OptionError(f"window_s must be above 0 seconds, got {window_s}.")
    at, curve = _curve(times, progress)
    edges = stage_boundaries(spans)
    if len(at) < 2:
        unknown = np.full(len(edges), np.nan)
        return BoundaryRise(edges, unknown, unknown.copy(), math.nan, math.nan)
    low, high = np.maximum(edges - window_s, at[0]), np.minimum(edges + window_s, at[-1])
    low, high = np.where(low < high, low, np.nan), np.where(low < high, high, np.nan)
    rise = _value(at, curve, high) - _value(at, curve, low)
    truth_rise = truth_trace(spans, high, weights) - truth_trace(spans, low, weights)
    first, last = _merged(low[~np.isnan(low)], high[~np.isnan(high)])
    ends = at[[0, -1]]
    inside = float(np.sum(_value(at, curve, last) - _value(at, curve, first)))
    truth_inside = float(np.sum(truth_trace(spans, last, weights) - truth_trace(spans, first, weights)))
    return BoundaryRise(
        edges,
        rise,
        truth_rise,
        share=_share(inside, curve[-1] - curve[0]),
        truth_share=_share(truth_inside, float(np.diff(truth_trace(spans, ends, weights))[0])),
    )


def plateau_error(
    times: ArrayLike, progress: ArrayLike, spans: Sequence[StageSpan], weights: ArrayLike | None = None
) -> PlateauError:
    """Return how far a curve moves while the truth trace is flat: outside stages, or in stages of weight 0.

    The reference of a plateau is the curve's interpolated value at its start; if that is unknown, so are all
    its points.
    """
    at, curve = _curve(times, progress)
    starts, ends = span_edges(spans)
    moving = stage_shares(weights, len(starts)) > 0
    if not len(at):
        return PlateauError(math.nan, 0, math.nan, np.empty((0, 2)), np.empty(0))
    flat_start = np.maximum(np.append(-np.inf, ends[moving]), at[0])
    flat_end = np.minimum(np.append(starts[moving], np.inf), at[-1])
    inside = (at > flat_start[:, None]) & (at <= flat_end[:, None])
    held = inside.any(axis=1)
    flat_start, flat_end, inside = flat_start[held], flat_end[held], inside[held]
    moved = np.where(inside, np.abs(curve - _value(at, curve, flat_start)[:, None]), np.nan)
    counts = np.sum(~np.isnan(moved), axis=1)
    sums = np.nansum(moved, axis=1)
    n, points = int(counts.sum()), int(inside.sum())
    return PlateauError(
        error=float(sums.sum() / n) if n else math.nan,
        n=n,
        coverage=n / points if points else math.nan,
        plateaus=np.column_stack([flat_start, flat_end]),
        errors=sums / np.where(counts, counts, np.nan),
    )


def boundary_f1(true_times: ArrayLike, found_times: ArrayLike, tolerance_s: float = 0.5) -> BoundaryF1:
    """Return the F1 of found boundaries, each matching at most one true one within ``tolerance_s``.

    F1 = 2 matched / (n_true + n_found), with as many matches as possible: in time order, the earlier of two
    unmatched boundaries is matched now or never. (ProcVLM's BF1@5 uses 5 % of the length as tolerance and
    thresholds the assignment of least distance, which can lose a possible match.) NaN times are ignored.
    """
    if not 0 <= tolerance_s < math.inf:
        raise OptionError(f"tolerance_s must be at least 0 seconds, got {tolerance_s}.")
    true, found = (
        np.sort(x[~np.isnan(x)]) for x in (series(true_times, "true"), series(found_times, "found"))
    )
    matched = i = j = 0
    while i < len(true) and j < len(found):
        if abs(true[i] - found[j]) <= tolerance_s + SLACK:
            matched, i, j = matched + 1, i + 1, j + 1
        elif true[i] < found[j]:
            i += 1
        else:
            j += 1
    n_true, n_found = len(true), len(found)
    return BoundaryF1(
        f1=2 * matched / (n_true + n_found) if n_true + n_found else math.nan,
        precision=matched / n_found if n_found else math.nan,
        recall=matched / n_true if n_true else math.nan,
        matched=matched,
        n_true=n_true,
        n_found=n_found,
    )


def _curve(times: ArrayLike, progress: ArrayLike) -> tuple[FloatArray, FloatArray]:
    at, curve = increasing(times, "times"), series(progress, "progress")
    same_length(at, curve, "times", "progress")
    return at, curve


def _value(at: FloatArray, curve: FloatArray, where: FloatArray) -> FloatArray:
    """Interpolate the curve linearly at times within it; NaN next to unknown points."""
    return np.asarray(np.interp(where, at, curve))


def _merged(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join overlapping intervals, which are sorted and of equal width."""
    first = np.append(True, low[1:] > high[:-1]) if len(low) else np.zeros(0, dtype=np.bool_)
    last = np.append(first[1:], True) if len(low) else first
    return low[first], high[last]


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else math.nan
