"""Means and differences of means as a sum of the units' contributions, with their variance.

A mean over strata, a difference between two arms and a share of pairs won are all of the form
``T = sum_i c_i y_i`` with coefficients fixed by the design. Written as ``T = value + sum_u t_u`` with the
contributions ``t_u`` centred within their stratum, one variance and one bootstrap serve them all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from stepscore.metrics.stats.sample import Sample, pool_lonely
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True)
class LinearStatistic:
    """A statistic that is linear in the episodes' values.

    Attributes:
        value: The estimate.
        contributions: Contribution of each unit beyond its stratum's mean, shape (units,).
        coefficients: ``c_u``, the coefficient of each episode of the unit.
        sizes: Episodes in each unit.
        stratum: Stratum of each unit; no unit is alone in its stratum unless it is the only one.
    """

    value: float
    contributions: FloatArray
    coefficients: FloatArray
    sizes: FloatArray
    stratum: IntArray

    @property
    def leverage(self) -> FloatArray:
        """Each unit's share of its stratum's episodes."""
        return self.sizes / np.bincount(self.stratum, weights=self.sizes)[self.stratum]

    @property
    def standard_error(self) -> float:
        """Cluster-robust standard error, CR2; NaN where a stratum holds a single unit.

        ``V = sum_u t_u^2 / (1 - h_u)`` with ``h_u`` the unit's share of its stratum's episodes (Bell and
        McCaffrey 2002, for a model of stratum means). With equal units this is the usual ``G / (G - 1)``.
        """
        spare = 1.0 - self.leverage
        if len(spare) == 0 or np.any(spare <= 0):
            return math.nan
        return math.sqrt(float(np.sum(self.contributions**2 / spare)))

    @property
    def degrees_of_freedom(self) -> float:
        """Satterthwaite degrees of freedom of the variance when episodes are alike (Bell and McCaffrey 2002).

        Units minus strata when units are equal, fewer when a few large units carry the estimate.
        """
        if len(self.sizes) == 0 or np.any(self.leverage >= 1):
            return math.nan
        c2, m, spare = self.coefficients**2, self.sizes, 1.0 - self.leverage
        cross = c2 * m * self.leverage / spare
        by_stratum = np.bincount(self.stratum, weights=cross)
        spread = np.sum(c2**2 * m**2) + np.sum(by_stratum**2) - np.sum(cross**2)
        return float(np.sum(c2 * m) ** 2 / spread)


def mean_of(sample: Sample, values: FloatArray | None = None) -> LinearStatistic:
    """Return the mean of ``values`` (by default the sample's first column) over all its episodes."""
    column = sample.columns[0] if values is None else values
    if not sample.n:
        return weighted_sum(sample, column, np.empty(0))
    mean = weighted_sum(sample, column, np.full(sample.units, 1.0 / sample.n))
    return replace(mean, value=math.fsum(column) / sample.n)


def weighted_sum(sample: Sample, values: FloatArray, coefficients: FloatArray) -> LinearStatistic:
    """Return ``sum_i c_i y_i`` over the sample, where all episodes of a unit share its coefficient ``c_u``."""
    stratum = pool_lonely(sample.stratum)
    sizes = sample.sizes.astype(np.float64)
    totals = sample.totals(values)
    means = np.bincount(stratum, weights=totals) / np.bincount(stratum, weights=sizes)
    deviations = totals - sizes * means[stratum]
    # Equal values must show no spread at all: what is left of them after rounding is not data.
    deviations[np.abs(deviations) <= 1e-12 * sizes * np.max(np.abs(values), initial=0.0)] = 0.0
    contributions = coefficients * deviations
    # They sum to 0 within a stratum already, unless lonely strata with other coefficients were pooled in it.
    contributions -= (np.bincount(stratum, weights=contributions) / np.bincount(stratum))[stratum]
    return LinearStatistic(
        value=math.fsum(coefficients * totals) if sample.n else math.nan,
        contributions=contributions,
        coefficients=coefficients,
        sizes=sizes,
        stratum=stratum,
    )


def difference_of(a: LinearStatistic, b: LinearStatistic) -> LinearStatistic:
    """Return ``a - b`` for two independent samples; their strata stay separate."""
    return LinearStatistic(
        value=a.value - b.value,
        contributions=np.concatenate([a.contributions, -b.contributions]),
        coefficients=np.concatenate([a.coefficients, -b.coefficients]),
        sizes=np.concatenate([a.sizes, b.sizes]),
        stratum=np.concatenate([a.stratum, b.stratum + (a.stratum.max(initial=-1) + 1)]),
    )
