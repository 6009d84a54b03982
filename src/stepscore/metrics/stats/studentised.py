"""The bootstrap-t test of a mean difference, and the false alarms of tests of means on few units.

A sign-flip test assumes symmetric differences, a permutation test arms of one distribution. If the mean is 0
but differences are skewed, both reject too often. The bootstrap-t (Efron 1979; Hall 1988) assumes neither: it
compares ``t = difference / SE`` with the same ratio on resamples about the observed difference, each with its
own error, and so takes the skewness of t from the data. On few units the bootstrap-t rejects symmetric data
too often. :func:`larger_p_value` therefore reports the larger of the two p-values, which never gives more
false alarms than the exact test.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from stepscore.metrics.stats.bootstrap import batches
from stepscore.metrics.stats.large_samples import bootstrap_t_p_value, linear_is_large
from stepscore.metrics.stats.sample import LinearStatistic
from stepscore.metrics.stats.significance import Significance
from stepscore.types import FloatArray

T_DRAWS = 4999
"""Resamples of the bootstrap-t."""

DECIDING, NEAR = 0.05, 0.018
MORE_DRAWS, MOST_DRAWN_UNITS = 20, 20_000_000
"""Factor and limit of the extra draws for p-values close to 0.05; see :func:`decided`."""

UNITS_OF_ITS_OWN = 3
"""Smallest number of units for which a stratum is resampled separately. With two units, half of the resamples
draw the same unit twice and have no spread, so a few such strata would hide any difference.
"""

FALSE_ALARMS = {6: 0.147, 10: 0.103, 20: 0.073}
"""Share of log-normal samples of mean 0 rejected at 5 %, by the number of units: the largest over pairs and
arms in the table of docs/methods/intervals.md (``python -m benchmarks.tables.false_alarms``)."""
ENOUGH_UNITS = 30
"""Smallest number of units for which the p-value carries no warning."""


def bootstrap_t_test(statistic: LinearStatistic, *, seed: int = 0, draws: int = T_DRAWS) -> Significance:
    """Test whether a mean or a difference of means is 0, whatever the shape of its distribution.

    The centred contributions are resampled within every stratum of n units. A stratum of two units draws from
    all units of its arm, each scaled by ``sqrt(n / (n - 1))`` to correct for the estimated mean. With ``S*``
    their sum and ``V* = sum_s n_s / (n_s - 1) sum_u (t_u* - mean_s*)^2``, ``t* = S* / sqrt(V*)`` is compared
    with the observed ``t``; the p-value is twice the smaller tail, NaN without spread. A resample without
    spread counts as the most extreme.
    """
    drawn = _draw(statistic, seed, draws)
    if drawn is None:
        return Significance(math.nan, "bootstrap-t (no variation)")
    if linear_is_large(statistic):
        p = bootstrap_t_p_value(statistic.contributions, statistic.value / drawn.error, 2 / (T_DRAWS + 1))
        return Significance(p, "bootstrap-t (limit)")
    observed = statistic.value / drawn.error
    # A resample equal to the observed arrangement may differ by rounding, because its terms are added in
    # another order.
    tolerance = 1e-9 * (1 + abs(observed))
    below = above = 0
    for ratios in drawn.ratios:
        below += int(np.sum(ratios <= observed + tolerance))
        above += int(np.sum(ratios >= observed - tolerance))
    p = min(1.0, 2 * (min(below, above) + 1) / (draws + 1))
    return Significance(p, f"bootstrap-t ({draws} draws, seed {seed})")


def bootstrap_t_interval(
    statistic: LinearStatistic, level: float, *, seed: int = 0, draws: int = T_DRAWS
) -> tuple[float, float]:
    """Return the differences that the bootstrap-t does not reject; NaN without variation, infinite if none is.

    Only for statistics whose samples are resampled, not for the asymptotic limit. Pass the seed of the test.
    """
    drawn = _draw(statistic, seed, draws)
    if drawn is None:
        return math.nan, math.nan
    ratios = np.sort(np.concatenate(list(drawn.ratios)))
    # The test rejects if fewer than k draws are in the tail; the observed value counts as one more draw.
    k = math.ceil((1 - level) * (draws + 1) / 2 - 1e-9) - 1
    return (
        statistic.value - drawn.error * float(ratios[-k]),
        statistic.value - drawn.error * float(ratios[k - 1]),
    )


@dataclass(frozen=True)
class _Drawn:
    """The standard error of a statistic, and the ratios t* of its resamples, drawn lazily in parts."""

    error: float
    ratios: Iterator[FloatArray]


def _draw(statistic: LinearStatistic, seed: int, draws: int) -> _Drawn | None:
    """Return the resamples of a statistic; ``None`` if its spread is unknown or 0."""
    groups = [
        statistic.contributions[statistic.stratum == code]
        for code in range(int(statistic.stratum.max(initial=-1)) + 1)
    ]
    spread = sum(len(t) / (len(t) - 1) * float(t @ t) if len(t) > 1 else math.nan for t in groups)
    if not spread > 0:
        return None
    sources = _sources(
        groups, [statistic.coefficients[statistic.stratum == code][0] for code in range(len(groups))]
    )
    rng = np.random.default_rng(seed)
    sizes = batches(draws, len(statistic.contributions))
    return _Drawn(
        math.sqrt(spread), (_resampled_ratios(groups, sources, size, rng, spread) for size in sizes)
    )


def _sources(groups: list[FloatArray], coefficients: list[float]) -> list[FloatArray]:
    """Return the values each stratum draws from: its own, or those of its whole arm (same coefficient sign)."""
    pools = {
        sign: np.concatenate(
            [
                t * math.sqrt(len(t) / (len(t) - 1))
                for t, c in zip(groups, coefficients, strict=True)
                if (c > 0) == sign
            ]
        )
        for sign in {c > 0 for c in coefficients}
    }
    return [
        t if len(t) >= UNITS_OF_ITS_OWN else pools[c > 0] for t, c in zip(groups, coefficients, strict=True)
    ]


def _resampled_ratios(
    groups: list[FloatArray], sources: list[FloatArray], size: int, rng: np.random.Generator, spread: float
) -> FloatArray:
    """Draw ``t* = S* / sqrt(V*)``; infinite for a resample without spread."""
    sums, variances = np.zeros(size), np.zeros(size)
    for t, source in zip(groups, sources, strict=True):
        drawn = source[rng.integers(0, len(source), size=(size, len(t)))]
        total = drawn.sum(axis=1)
        squares = np.einsum("ij,ij->i", drawn, drawn)
        sums += total
        variances += len(t) / (len(t) - 1) * (squares - total**2 / len(t))
    flat = variances <= 1e-12 * spread
    ratios: FloatArray = sums / np.sqrt(np.where(flat, 1.0, variances))
    return np.where(flat, np.copysign(np.inf, sums), ratios)


def decided(test: Callable[[int], Significance], units: int) -> Significance:
    """Return a drawn test's result, with more draws if the p-value is too close to 0.05 to decide.

    A p-value of 0.05 has a standard error of 0.0044 from 4,999 resamples and of 0.0022 from 9,999
    arrangements. Within four times that, 20 times as many are drawn (standard errors 0.001 and 0.0005), up to
    20 million drawn units. ``test`` takes the factor on the draws and keeps its seed.
    """
    first = test(1)
    times = min(MORE_DRAWS, MOST_DRAWN_UNITS // (T_DRAWS * max(units, 1)))
    return test(times) if times > 1 and abs(first.p_value - DECIDING) < NEAR else first


def larger_p_value(exact: Significance, studentised: Significance, units: int) -> Significance:
    """Return the larger of two p-values under both names, with the false alarms to expect on few units.

    The exact test is returned if the bootstrap-t has a NaN p-value.
    """
    if math.isnan(exact.p_value) or math.isnan(studentised.p_value):
        return exact
    return replace(
        exact,
        p_value=max(exact.p_value, studentised.p_value),
        test=f"the larger of {exact.test} and {studentised.test}",
        caution=false_alarm_note(units),
    )


def false_alarm_note(units: int) -> str:
    """Return the measured share of p <= 0.05 on skewed data of mean 0; empty from 30 units.

    The figure is for the next smaller measured number of units.

    >>> false_alarm_note(30)
    ''
    """
    if units >= ENOUGH_UNITS:
        return ""
    measured = FALSE_ALARMS[max((n for n in FALSE_ALARMS if n <= units), default=min(FALSE_ALARMS))]
    return f"under {ENOUGH_UNITS} units, up to {100 * measured:.0f} % false alarms at 0.05 if skewed"
