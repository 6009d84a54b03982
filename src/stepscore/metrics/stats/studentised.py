"""The bootstrap-t test of a mean difference, and how often the tests of means raise a false alarm on few units.

A sign-flip test assumes differences symmetric about 0, a permutation test arms of one distribution. Where the
mean is 0 but the differences are skewed, both reject too often. The bootstrap-t (Efron 1979; Hall 1988) assumes
neither: it compares ``t = difference / SE`` with the same ratio recomputed on resamples about the observed
difference, each with its own error, and so takes the skewness of t from the data. On few units it errs the other
way on symmetric data. :func:`larger_p_value` therefore reports the larger p-value of the two: no more false alarms
than the exact test where that one is exact, and fewer where it is not.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from stepscore.metrics.stats.bootstrap import batches
from stepscore.metrics.stats.large_samples import bootstrap_t_p_value, linear_is_large
from stepscore.metrics.stats.linear_statistic import LinearStatistic
from stepscore.metrics.stats.significance import Significance
from stepscore.types import FloatArray

T_DRAWS = 4999
"""Resamples of the bootstrap-t."""

UNITS_OF_ITS_OWN = 3
"""Units from which on a stratum is resampled by itself. Of two units every second resample is one of them twice,
without spread; with a few such strata no difference, however large, could show."""

FALSE_ALARMS = {6: 0.147, 10: 0.103, 20: 0.073}
"""Share of log-normal samples of mean 0 rejected at 5 %, by the number of units: the largest over pairs and
arms in the table of docs/methods/intervals.md (``python -m benchmarks.tables.false_alarms``)."""
ENOUGH_UNITS = 30
"""Number of units from which no note stands beside the p-value."""


def bootstrap_t_test(statistic: LinearStatistic, *, seed: int = 0) -> Significance:
    """Test whether a mean or a difference of means is 0, whatever the shape of its distribution.

    Within every stratum of n units the centred contributions are resampled; a stratum of two draws from all units of
    its arm, each scaled by ``sqrt(n / (n - 1))`` for its own mean. With ``S*`` their sum and
    ``V* = sum_s n_s / (n_s - 1) sum_u (t_u* - mean_s*)^2``, ``t* = S* / sqrt(V*)`` is compared with the
    observed ``t``; the p-value is twice the smaller tail. A resample without spread counts as the most extreme.

    Args:
        statistic: The difference; NaN p-value where its spread is unknown or 0.
        seed: Seed of the resampling.
    """
    groups = [
        statistic.contributions[statistic.stratum == code]
        for code in range(int(statistic.stratum.max(initial=-1)) + 1)
    ]
    spread = sum(len(t) / (len(t) - 1) * float(t @ t) if len(t) > 1 else math.nan for t in groups)
    if not spread > 0:
        return Significance(math.nan, "bootstrap-t (no variation)")
    if linear_is_large(statistic):
        p = bootstrap_t_p_value(
            statistic.contributions, statistic.value / math.sqrt(spread), 2 / (T_DRAWS + 1)
        )
        return Significance(p, "bootstrap-t (limit)")
    sources = _sources(
        groups, [statistic.coefficients[statistic.stratum == code][0] for code in range(len(groups))]
    )
    observed = statistic.value / math.sqrt(spread)
    # Resamples that equal the observed arrangement reach it by another order of additions.
    tolerance = 1e-9 * (1 + abs(observed))
    rng = np.random.default_rng(seed)
    below = above = 0
    for size in batches(T_DRAWS, len(statistic.contributions)):
        ratios = _resampled_ratios(groups, sources, size, rng, spread)
        below += int(np.sum(ratios <= observed + tolerance))
        above += int(np.sum(ratios >= observed - tolerance))
    p = min(1.0, 2 * (min(below, above) + 1) / (T_DRAWS + 1))
    return Significance(p, f"bootstrap-t ({T_DRAWS} draws, seed {seed})")


def _sources(groups: list[FloatArray], coefficients: list[float]) -> list[FloatArray]:
    """Return what each stratum is drawn from: itself, or all strata of its arm, whose coefficients have one sign."""
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
    """Draw ``t* = S* / sqrt(V*)``; infinite where a resample has no spread."""
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


def larger_p_value(exact: Significance, studentised: Significance, units: int) -> Significance:
    """Return the larger of two p-values under both names, with the false alarms to expect on few units.

    Args:
        exact: The sign-flip or permutation test.
        studentised: The bootstrap-t; left out where its p-value is NaN.
        units: Independent units of the smaller arm, or pairs.
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
    """Return how often p <= 0.05 on skewed data of mean 0, as measured; empty from 30 units on.

    The figure is that of the next smaller number of units measured.

    >>> false_alarm_note(30)
    ''
    """
    if units >= ENOUGH_UNITS:
        return ""
    measured = FALSE_ALARMS[max((n for n in FALSE_ALARMS if n <= units), default=min(FALSE_ALARMS))]
    return f"under {ENOUGH_UNITS} units, up to {100 * measured:.0f} % false alarms at 0.05 if skewed"
