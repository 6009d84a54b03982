"""The sample for resampling (episodes or clusters of episodes, within strata), and means over that sample.

Episodes of a stratum with the same cluster label (one scene tried several times, one seed given to two
policies) are not independent, so their cluster is the resampling unit. Strata are tasks. The choice of tasks
and the number of episodes of each are fixed by design and not resampled. Rows are sorted (stratum, cluster,
values), so that results do not depend on the order in which episodes finished.

Means over strata, differences between arms and shares of pairs won are ``T = sum_i c_i y_i`` with
coefficients fixed by the design. Written as ``T = value + sum_u t_u`` with contributions ``t_u`` centred
within their stratum, one variance and one bootstrap serve them all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stepscore.errors import OptionError
from stepscore.types import FloatArray, IntArray

GroupLabels = Sequence[Hashable] | NDArray[np.generic]
"""A stratum or cluster label per episode; ``None``, NaN or "" means no cluster."""


@dataclass(frozen=True)
class Sample:
    """The episodes with known values, sorted, with the unit and stratum of each.

    Attributes:
        columns: One or more values per episode, each of shape (n,).
        unit: The unit of each episode, shape (n,), non-decreasing, 0..units-1.
        stratum: The stratum of each unit, shape (units,), 0..strata-1.
        total: Number of episodes, including those with an unknown value.
    """

    columns: tuple[FloatArray, ...]
    unit: IntArray
    stratum: IntArray
    total: int

    @property
    def n(self) -> int:
        """Number of episodes with known values."""
        return len(self.unit)

    @property
    def units(self) -> int:
        """Number of independent units among these episodes."""
        return len(self.stratum)

    @cached_property
    def sizes(self) -> IntArray:
        """Number of episodes in each unit."""
        return np.bincount(self.unit, minlength=self.units).astype(np.int64)

    def totals(self, values: FloatArray) -> FloatArray:
        """Sum ``values``, one per episode, within each unit."""
        return np.bincount(self.unit, weights=values, minlength=self.units).astype(np.float64)

    @property
    def clustered(self) -> bool:
        """Whether some unit holds more than one episode."""
        return self.units < self.n

    @property
    def coverage(self) -> float:
        """Share of episodes with known values; NaN without episodes."""
        return self.n / self.total if self.total else math.nan


def draw_sample(
    *columns: ArrayLike,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
) -> Sample:
    """Build a sorted :class:`Sample` of the rows of ``columns`` without NaN.

    Raises:
        OptionError: Columns or labels differ in length, or a value is infinite.
    """
    arrays = tuple(np.asarray(column, dtype=np.float64) for column in columns)
    total = len(arrays[0]) if arrays[0].ndim == 1 else -1
    for array in arrays:
        if array.ndim != 1 or len(array) != total:
            shapes = ", ".join(str(a.shape) for a in arrays)
            raise OptionError(
                f"Values must be one number per episode, all of one length; got shapes {shapes}."
            )
        if np.any(np.isinf(array)):
            raise OptionError("Values must be finite, or NaN where unknown; got an infinite value.")
    known = np.all([~np.isnan(array) for array in arrays], axis=0)
    stratum_of_row = label_codes(strata, total, "strata")[known]
    cluster_of_row = label_codes(clusters, total, "clusters", may_be_alone=True)[known]
    arrays = tuple(array[known] for array in arrays)

    order = np.lexsort((*reversed(arrays), cluster_of_row, stratum_of_row))
    stratum_of_row, cluster_of_row = stratum_of_row[order], cluster_of_row[order]
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = (np.diff(stratum_of_row) != 0) | (np.diff(cluster_of_row) != 0) | (cluster_of_row[1:] < 0)
    _, stratum = np.unique(stratum_of_row[starts], return_inverse=True)
    return Sample(
        columns=tuple(array[order] for array in arrays),
        unit=np.cumsum(starts) - 1,
        stratum=stratum.astype(np.int64),
        total=total,
    )


def label_codes(
    labels: GroupLabels | None, length: int, name: str, *, may_be_alone: bool = False
) -> IntArray:
    """Convert labels to integers whose order depends only on the labels.

    Missing labels form the last stratum; with ``may_be_alone`` they are -1.
    """
    if labels is None:
        return np.full(length, -1 if may_be_alone else 0, dtype=np.int64)
    plain: list[Hashable] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    if len(plain) != length:
        raise OptionError(f"There are {len(plain)} {name} labels for {length} episodes; give one each.")
    known = sorted((label for label in set(plain) if not is_missing(label)), key=_fixed_order)
    codes = {label: code for code, label in enumerate(known)}
    missing = -1 if may_be_alone else len(known)
    return np.array([codes.get(label, missing) for label in plain], dtype=np.int64)


def _fixed_order(label: Hashable) -> tuple[bool, float, str]:
    # Labels of mixed types have no common order, so numbers sort among numbers and text among text.
    number = isinstance(label, (int, float))
    return not number, float(label) if number else 0.0, str(label)  # type: ignore[arg-type]


def is_missing(label: Hashable) -> bool:
    """Return whether a cluster label or key is missing: ``None``, an empty string or NaN."""
    return label is None or label == "" or (isinstance(label, float) and math.isnan(label))


def pool_lonely(stratum: IntArray) -> IntArray:
    """Pool every stratum of a single unit with others, so that each has two units or more.

    The spread within a stratum cannot be estimated from a single unit. Strata with a single unit are pooled;
    if there is only one, it joins the smallest other stratum (collapsed strata; Cochran, Sampling Techniques,
    5A.12). The variance then includes differences between the pooled strata, so intervals are conservative.
    """
    counts = np.bincount(stratum)
    lonely = np.flatnonzero(counts == 1)
    others = np.flatnonzero(counts > 1)
    pooled = stratum.copy()
    if len(lonely) == 1 and len(others):
        pooled[stratum == lonely[0]] = others[np.argmin(counts[others])]
    else:
        pooled[np.isin(stratum, lonely)] = len(counts)
    return np.unique(pooled, return_inverse=True)[1].astype(np.int64)


def stands_first(one: Sample, other: Sample) -> bool:
    """Return whether ``one`` comes before ``other`` in an order that depends only on the data.

    Draws use this order, so that A against B and B against A agree.
    """
    return _sorting_key(one) <= _sorting_key(other)


def _sorting_key(sample: Sample) -> list[list[float]]:
    columns = [sample.stratum[sample.unit], sample.unit, *sample.columns]
    return [[float(sample.n)], *(column.tolist() for column in columns)]


@dataclass(frozen=True)
class LinearStatistic:
    """A statistic that is linear in the episodes' values.

    Attributes:
        contributions: Contribution of each unit beyond its stratum's mean, shape (units,).
        coefficients: ``c_u``, the coefficient of each episode of the unit.
        stratum: Stratum of each unit; no stratum has a single unit unless it is the only one.
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
        """Cluster-robust standard error, CR2; NaN if a stratum has a single unit.

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

        Units minus strata for equal units, fewer if a few large units dominate.
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
    # Equal values have no spread; any remainder is rounding error.
    deviations[np.abs(deviations) <= 1e-12 * sizes * np.max(np.abs(values), initial=0.0)] = 0.0
    contributions = coefficients * deviations
    # Contributions already sum to 0 within a stratum, unless single-unit strata with other coefficients were
    # pooled.
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
