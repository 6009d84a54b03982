"""How fine a judge's answers are: their levels, neighbours that are equal, and the noise of asking again."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.validation import series
from stepscore.types import FloatArray

HOP_BINS = ((0.03, 0.05), (0.05, 0.10), (0.10, 0.20), (0.20, 0.30), (0.30, 0.50), (0.50, math.inf))
"""Ranges [lo, hi) of the absolute true hop by which sign accuracy is reported."""

_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Levels:
    """Which values a judge returns.

    Attributes:
        n: Known values.
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
