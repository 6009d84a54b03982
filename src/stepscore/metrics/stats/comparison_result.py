"""The result of a comparison of two arms: difference, interval, test, and smallest detectable difference."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from stepscore.metrics.stats.intervals import linear_bca_interval, robust_score_interval, robust_t_interval
from stepscore.metrics.stats.rate_intervals import NO_INTERVAL, percent_of, score_interval
from stepscore.metrics.stats.sample import LinearStatistic, Sample
from stepscore.metrics.stats.significance import Significance
from stepscore.types import Estimate

POWER = 0.8
"""Probability of a significant result at the smallest detectable difference."""

Interval = tuple[tuple[float, float], str]
"""The ends of an interval, and the method used or the reason the ends are NaN."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Arm A against arm B.

    Attributes:
        p_value: Two-sided p-value; NaN if there is nothing to test.
        caution: Warning that the test rejects too often on this few units, with the measured rate; else empty.
        probability_of_improvement: P(A > B) + P(A = B) / 2, for a pair, or for two episodes of the same stratum.
        smallest_detectable_difference: The true difference that a sample like this detects with probability
            0.8 at ``alpha = 1 - level``; NaN without spread, or if no outcome of this sample size is
            significant.
        n_a: Number of A's episodes with known values, or of pairs if paired.
        scenes: Number of fixed scenes the result is limited to; 0 if the result generalises to similar scenes.
        least_p_value: Smallest p-value possible with this sample size; NaN if unknown.
    """

    difference: Estimate
    p_value: float
    test: str
    probability_of_improvement: Estimate
    smallest_detectable_difference: float
    n_a: int
    n_b: int
    paired: bool
    caution: str = ""
    scenes: int = 0
    least_p_value: float = math.nan

    def swapped(self) -> Comparison:
        """Return the comparison of B with A."""
        d, p = self.difference, self.probability_of_improvement
        return replace(
            self,
            difference=replace(d, value=-d.value, lo=-d.hi, hi=-d.lo),
            probability_of_improvement=replace(p, value=1 - p.value, lo=1 - p.hi, hi=1 - p.lo),
            n_a=self.n_b,
            n_b=self.n_a,
        )


def build_comparison(
    samples: tuple[Sample, ...],
    difference: float,
    interval: Interval,
    *,
    significance: Significance,
    improvement: LinearStatistic | tuple[float, Interval],
    detectable: float,
    withheld: str,
    level: float,
    scenes: int = 0,
    least_p_value: float = math.nan,
) -> Comparison:
    """Build a :class:`Comparison` from its parts.

    Args:
        samples: One sample of pairs, or the samples of arm A and arm B.
        improvement: The probability of improvement as a mean over the units, or its value and interval.
        withheld: Why the sample is too small for the interval of an improvement; else empty.
    """
    n, total = sum(sample.n for sample in samples), sum(sample.total for sample in samples)
    clusters, coverage = sum(sample.units for sample in samples), n / total if total else math.nan
    if isinstance(improvement, tuple):
        chance, (ends, note) = improvement
    else:
        chance, least = improvement.value, min(sample.units for sample in samples)
        ends = NO_INTERVAL if withheld else robust_score_interval(improvement, least, level)
        note = withheld or f"robust t {percent_of(level)} (wilson score)"
    return Comparison(
        difference=Estimate(difference, *interval[0], n, clusters, coverage, interval[1]),
        p_value=significance.p_value,
        test=significance.test,
        probability_of_improvement=Estimate(chance, *ends, n, clusters, coverage, note),
        # If no outcome can reach the level, no difference is detectable, however large.
        smallest_detectable_difference=math.nan if least_p_value >= round(1 - level, 12) else detectable,
        n_a=samples[0].n,
        n_b=samples[-1].n,
        paired=len(samples) == 1,
        caution=significance.caution,
        scenes=scenes,
        least_p_value=least_p_value,
    )


def bonett_price_interval(won: int, lost: int, pairs: int, level: float) -> Interval:
    """Return the interval of a difference of paired rates (Bonett and Price 2012).

    ``d +- z SE`` after adding one pair won and one pair lost; see :func:`paired_rates_error`. The interval
    has a positive width even if no pair differs.
    """
    from scipy.special import ndtri

    centre = (won - lost) / (pairs + 2)
    half = float(ndtri((1 + level) / 2)) * paired_rates_error(won, lost, pairs)
    return (max(-1.0, centre - half), min(1.0, centre + half)), f"Bonett-Price {percent_of(level)}"


def paired_rates_error(won: int, lost: int, pairs: int) -> float:
    """Return ``sqrt((w + v - (w - v)^2) / (n + 2))``, ``w = (won + 1)/(n + 2)``, ``v = (lost + 1)/(n + 2)``."""
    w, v = (won + 1) / (pairs + 2), (lost + 1) / (pairs + 2)
    return math.sqrt((w + v - (w - v) ** 2) / (pairs + 2))


def newcombe_interval(rate_a: float, n_a: float, rate_b: float, n_b: float, level: float) -> Interval:
    """Return the interval of a difference of independent rates (Newcombe 1998, method 10).

    From the Wilson intervals of both, ``lo = d - sqrt((p_a - lo_a)^2 + (hi_b - p_b)^2)`` and ``hi = d +
    sqrt((hi_a - p_a)^2 + (p_b - lo_b)^2)``. Effective sample sizes are allowed.
    """
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    (lo_a, hi_a), (lo_b, hi_b) = score_interval(rate_a, n_a, z), score_interval(rate_b, n_b, z)
    difference = rate_a - rate_b
    lo = difference - math.hypot(rate_a - lo_a, hi_b - rate_b)
    hi = difference + math.hypot(hi_a - rate_a, rate_b - lo_b)
    return (lo, hi), f"newcombe {percent_of(level)}"


def difference_interval(
    statistic: LinearStatistic, withheld: str, *, clustered: bool, level: float, seed: int
) -> Interval:
    """Return the interval of a mean difference: cluster-robust t with clusters, else BCa bootstrap.

    Without an interval, ``withheld`` gives the reason that the sample is too small.
    """
    if withheld:
        return NO_INTERVAL, withheld
    if not statistic.standard_error > 0:
        return NO_INTERVAL, "no variation"
    if clustered:
        return robust_t_interval(statistic, level), f"cluster-robust t {percent_of(level)}"
    return linear_bca_interval(statistic, level, None, seed)


def detectable_difference(error: float, df: float, level: float) -> float:
    """Return ``(t_(1 - alpha/2) + t_power) SE``, the difference detected with probability 0.8.

    The test's level is ``alpha = 1 - level``. NaN if the error is unknown or 0, because a sample without
    spread gives no estimate.
    """
    from scipy.special import stdtrit

    if not error > 0:
        return math.nan
    return float(stdtrit(df, (1 + level) / 2) + stdtrit(df, POWER)) * error


def detectable_rate_difference(error: float, level: float) -> float:
    """Return the detectable difference of rates, by normal quantiles; NaN if it would be above 1."""
    detectable = detectable_difference(error, math.inf, level)
    return detectable if detectable <= 1 else math.nan
