"""A judge's curve, known at a few timestamps, interpolated to every frame; unknown stays unknown."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

FRAME_TOLERANCE = 0.1
"""Frames within which a point of the curve counts as on the frame, since stored timestamps are rounded."""

_DEVIATION_PER_MAD = 1.4826
"""Standard deviation of a normal distribution over its median absolute deviation."""


def at_frames(times: FloatArray, values: FloatArray, n_frames: int, fps: float) -> FloatArray:
    """Interpolate the curve linearly at frames 0..n_frames-1, frame i at i / fps seconds.

    A frame on a point has that point's value. A frame before the first point, after the last, or next to an
    unknown one (NaN) is NaN: nothing is extrapolated, and no gap is bridged.
    """
    frames, points = _frame_axis(times, n_frames, fps)
    curve = np.full(n_frames, np.nan)
    if not len(points):
        return curve
    right = np.searchsorted(points, frames)
    inside = (right > 0) & (right < len(points))
    low, high = right[inside] - 1, right[inside]
    share = (frames[inside] - points[low]) / (points[high] - points[low])
    curve[inside] = values[low] + share * (values[high] - values[low])
    nearest, on = _on_points(points, frames)
    curve[on] = values[nearest[on]]
    return curve


def step_changes(times: FloatArray, values: FloatArray, n_frames: int, fps: float) -> FloatArray:
    """Return, for every frame, the change of the curve from the point at or before it to the next point.

    The frame of the last point has the change up to it, so that an episode's end is not lost. NaN before the first
    point, after the last, and between points of which one is unknown.
    """
    frames, points = _frame_axis(times, n_frames, fps)
    changes = np.full(n_frames, np.nan)
    if len(points) < 2:
        return changes
    nearest, on = _on_points(points, frames)
    before = np.where(on, nearest, np.searchsorted(points, frames) - 1)
    inside = (before >= 0) & ((before < len(points) - 1) | on)
    changes[inside] = np.diff(values)[np.minimum(before[inside], len(points) - 2)]
    return changes


def curve_noise(curves: Iterable[tuple[FloatArray, FloatArray]]) -> float:
    """Estimate the standard deviation of the noise on one point; NaN unless three known points are adjacent.

    Each point is compared with the straight line through its neighbours. If the truth is straight there and the noise
    independent, the distance has the variance sigma^2 (1 + a^2 + b^2), a and b the shares of the two neighbours;
    sigma is 1.4826 times the median of the distances so scaled. Noise that neighbouring points share is not detected.
    """
    scaled = []
    for times, values in curves:
        if len(times) < 3:
            continue
        a = (times[2:] - times[1:-1]) / (times[2:] - times[:-2])
        b = 1.0 - a
        off = values[1:-1] - (a * values[:-2] + b * values[2:])
        scaled.append(off / np.sqrt(1.0 + a**2 + b**2))
    distances = np.abs(np.concatenate(scaled)) if scaled else np.empty(0)
    distances = distances[~np.isnan(distances)]
    return _DEVIATION_PER_MAD * float(np.median(distances)) if len(distances) else float("nan")


def _frame_axis(times: FloatArray, n_frames: int, fps: float) -> tuple[FloatArray, FloatArray]:
    """Return frames and points on one axis, counted in frames."""
    if n_frames < 0 or not (fps > 0 and np.isfinite(fps)):
        raise OptionError(f"Cannot time {n_frames} frames at {fps} fps: both must be known and above 0.")
    return np.arange(n_frames, dtype=np.float64), np.asarray(times, dtype=np.float64) * fps


def _on_points(
    points: FloatArray, frames: FloatArray
) -> tuple[IntArray, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return the nearest point of every frame, and whether the frame is on it."""
    right = np.clip(np.searchsorted(points, frames), 0, len(points) - 1)
    left = np.maximum(right - 1, 0)
    nearest = np.where(np.abs(points[left] - frames) < np.abs(points[right] - frames), left, right)
    return nearest, np.abs(points[nearest] - frames) <= FRAME_TOLERANCE
