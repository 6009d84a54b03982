"""Check series and find the points at which all are known.

Metrics compare two series point by point. A point with a NaN in either is unknown and left out; `known_share`
is the share of points used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.types import FloatArray

SLACK = 1e-9
"""Tolerance for rounding at inclusive limits: 0.8 and 0.7 differ by 0.1, but not in floats."""


def series(values: ArrayLike, name: str) -> FloatArray:
    """Return ``values`` as a float64 array of shape (n,), ``None`` as NaN; OptionError if impossible."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} must be numbers, with NaN for unknown; {error}.") from error
    if array.ndim != 1:
        raise OptionError(f"{name} has shape {array.shape}; expected one dimension, (n,).")
    return array


def increasing(values: ArrayLike, name: str) -> FloatArray:
    """Return `series` of finite, strictly increasing values; OptionError names the first wrong one."""
    array = series(values, name)
    if not np.all(np.isfinite(array)):
        where = int(np.argmin(np.isfinite(array)))
        raise OptionError(f"{name}[{where}] is {array[where]}; expected finite seconds.")
    falls = np.flatnonzero(np.diff(array) <= 0)
    if len(falls):
        i = int(falls[0])
        raise OptionError(
            f"{name}[{i + 1}] is {array[i + 1]:g}, after {array[i]:g}; expected strictly increasing. "
            "Sort the points by time and drop repeated ones."
        )
    return array


def binary(values: ArrayLike, name: str, *, ndim: int = 1) -> FloatArray:
    """Return a float64 array of 1 (yes), 0 (no) and NaN (unknown); OptionError for other values or dimensions."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"{name} must be 1, 0 or NaN for unknown; {error}.") from error
    if array.ndim != ndim:
        raise OptionError(f"{name} has shape {array.shape}; expected {ndim} dimension(s).")
    wrong = array[~(np.isnan(array) | (array == 0) | (array == 1))]
    if wrong.size:
        raise OptionError(
            f"{name} holds {wrong[0]:g}; expected 1 (yes), 0 (no) or NaN (unknown). "
            "Turn scores into answers with apply_threshold first."
        )
    return array


def same_length(a: FloatArray, b: FloatArray, a_name: str, b_name: str) -> None:
    """Raise OptionError unless two series have equal lengths."""
    if len(a) != len(b):
        raise OptionError(
            f"{a_name} has {len(a)} values and {b_name} {len(b)}; expected one of each per point."
        )


def known_pairs(a: FloatArray, b: FloatArray, a_name: str, b_name: str) -> tuple[FloatArray, FloatArray]:
    """Return both series at the points where both are known."""
    same_length(a, b, a_name, b_name)
    known = ~(np.isnan(a) | np.isnan(b))
    return a[known], b[known]


def known_share(*values: ArrayLike) -> float:
    """Return the share of points known in every series, 0..1: the coverage of a metric. NaN without points."""
    arrays = [series(v, f"series {i}") for i, v in enumerate(values)]
    for i, array in enumerate(arrays):
        same_length(arrays[0], array, "series 0", f"series {i}")
    if not arrays or not len(arrays[0]):
        return float("nan")
    return float(np.mean(~np.any(np.isnan(np.stack(arrays)), axis=0)))
