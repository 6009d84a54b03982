"""Significance tests of a difference between two arms, and the correction for multiple comparisons.

All are two-sided. Small cases are enumerated; larger ones draw 9,999 seeded arrangements and count the
observed one among them, so that no p-value is 0 (Phipson and Smyth 2010). Samples of thousands use the limit
of these draws (:mod:`stepscore.metrics.stats.large_samples`).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.stats.bootstrap import batches
from stepscore.metrics.stats.large_samples import (
    flipped_signs_p_value,
    is_large,
    is_spread_out,
    normal_p_value,
    permutation_is_large,
)
from stepscore.types import FloatArray, IntArray

N_DRAWS = 9999
"""Arrangements to draw if there are too many to enumerate."""

_MAX_EXACT_FLIPS = 16  # 2^16 sign patterns
_MAX_EXACT_SPLITS = 20_000  # assignments of units to arms
_MANY_UNITS = 1_000  # above which two outcomes are drawn as counts
_MAX_BOSCHLOO_EPISODES = 300  # its search over the common rate takes a tenth of a second here and grows fast


@dataclass(frozen=True, slots=True)
class Significance:
    """The result of a test.

    Attributes:
        p_value: Two-sided; NaN if there is nothing to test.
        caution: Warning that the test's level may be off on this few units; else empty.
    """

    p_value: float
    test: str
    caution: str = ""


@dataclass(frozen=True)
class Stratum:
    """Units of both arms within one stratum, starting with the first arm's units.

    Attributes:
        totals: Sum of values in each unit.
        first: Number of units of the first arm.
        weight: Weight of the stratum's difference of means.
    """

    totals: FloatArray
    sizes: FloatArray
    first: int
    weight: float


def sign_flip_test(
    totals: FloatArray, *, episodes: int | None = None, seed: int = 0, draws: int = N_DRAWS
) -> Significance:
    """Test whether paired differences are symmetric about 0, so that each unit's sign could be either.

    The statistic is the absolute sum; studentising it would change no p-value, since flips keep the sum of
    squares. Skewed differences of mean 0 are rejected too often, which
    :mod:`stepscore.metrics.stats.studentised` corrects. Units are pairs, or clusters of ``episodes`` pairs
    that flip as one. A difference of 0 changes nothing.
    """
    if len(totals) == 0:
        return Significance(math.nan, "sign-flip (no pairs)")
    moving = np.sort(totals[totals != 0])
    observed = abs(float(np.sum(moving)))
    threshold = observed - 1e-12 * float(np.sum(np.abs(moving)))
    if len(moving) <= _MAX_EXACT_FLIPS + 1:
        # Flipping every sign keeps |sum|, so the first sign can stay fixed.
        free = max(len(moving) - 1, 0)
        bits = (np.arange(2**free)[:, None] >> np.arange(free)) & 1
        sums = moving[:1].sum() + (1 - 2 * bits) @ moving[1:]
        return Significance(float(np.mean(np.abs(sums) >= threshold)), "sign-flip (exact)")
    if is_large(len(totals) if episodes is None else episodes, len(moving)) and is_spread_out(moving):
        return Significance(flipped_signs_p_value(moving, 1 / (N_DRAWS + 1)), "sign-flip (limit)")
    rng = np.random.default_rng(seed)
    reached = 0
    for size in batches(draws, len(moving)):
        signs = rng.integers(0, 2, size=(size, len(moving)), dtype=np.int8) * 2 - 1
        reached += int(np.sum(np.abs(signs @ moving) >= threshold))
    return Significance((reached + 1) / (draws + 1), f"sign-flip ({draws} draws, seed {seed})")


def mcnemar_test(wins: int, losses: int) -> Significance:
    """Test paired 0/1 outcomes by McNemar's exact test: discordant pairs go either way with probability 1/2.

    This is the sign-flip test in closed form.
    """
    from scipy.special import bdtr

    n = wins + losses
    return Significance(min(1.0, 2 * float(bdtr(min(wins, losses), n, 0.5))) if n else 1.0, "McNemar exact")


def permutation_test(
    strata: list[Stratum], *, studentised: bool = True, seed: int = 0, draws: int = N_DRAWS
) -> Significance:
    """Test whether two arms share one distribution, or one mean, within every stratum.

    Units (episodes or whole clusters) are reassigned to the arms within their stratum, keeping the number in
    each arm. The statistic is the absolute weighted sum of the strata's differences of means, by default
    divided by its standard error in each arrangement. Both are exact for arms of one distribution;
    studentised, the test also keeps its level on many units when arms of one mean differ in spread (Janssen
    1997; Chung and Romano 2013). Rates do not need it: equal rates are equal distributions.
    """
    name = "studentised permutation" if studentised else "permutation"
    if not strata or any(not 0 < stratum.first < len(stratum.totals) for stratum in strata):
        return Significance(math.nan, f"{name} (nothing to compare)")
    name += " within strata" if len(strata) > 1 else ""
    prepared = [_Prepared.of(stratum) for stratum in strata]
    observed = float(
        _statistic(prepared, [np.arange(s.first)[None] for s in strata], studentised=studentised)[0]
    )
    threshold = observed * (1 - 1e-9) - 1e-9 * (1.0 if studentised else sum(s.scale for s in prepared))
    if are_enumerable(strata):
        found = _statistic(prepared, every_arrangement(strata), studentised=studentised)
        return Significance(float(np.mean(found >= threshold)), f"{name} (exact)")
    parts, sizes = [stratum.totals for stratum in prepared], [stratum.sizes for stratum in prepared]
    if permutation_is_large(parts, sizes, [stratum.first for stratum in strata], studentised=studentised):
        return Significance(normal_p_value(observed, 1 / (N_DRAWS + 1)), f"{name} (limit)")
    rng = np.random.default_rng(seed)
    reached = 0
    if not studentised and _counts_suffice(strata):
        found = _drawn_differences(strata, draws, rng)
        return Significance(
            (int(np.sum(found >= threshold)) + 1) / (draws + 1), f"{name} ({draws} draws, seed {seed})"
        )
    for size in batches(draws, sum(len(stratum.totals) for stratum in strata)):
        chosen = [drawn_arrangements(stratum, size, rng) for stratum in strata]
        reached += int(np.sum(_statistic(prepared, chosen, studentised=studentised) >= threshold))
    return Significance((reached + 1) / (draws + 1), f"{name} ({draws} draws, seed {seed})")


@dataclass(frozen=True)
class _Prepared:
    """A stratum's units: weighted sums of deviations from the stratum's mean, and numbers of episodes."""

    totals: FloatArray
    sizes: FloatArray

    @classmethod
    def of(cls, stratum: Stratum) -> _Prepared:
        mean = float(np.sum(stratum.totals) / np.sum(stratum.sizes))
        centred = stratum.totals - stratum.sizes * mean
        # Equal values have no spread; any remainder is rounding error.
        centred[np.abs(centred) <= 1e-12 * np.abs(stratum.totals)] = 0.0
        return cls(stratum.weight * centred, stratum.sizes)

    @property
    def scale(self) -> float:
        """The largest deviation, as the scale of rounding."""
        return float(np.max(np.abs(self.totals / self.sizes)))

    def arms(self, chosen: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the difference of the arms' means and its variance, for each row of first-arm units ``chosen``."""
        t, s, units = self.totals, self.sizes, chosen.shape[1]
        if np.all(s == 1):  # the usual case, which needs only two of the five sums
            total, squares = t[chosen].sum(axis=1), (t * t)[chosen].sum(axis=1)
            first = [
                total,
                np.full(len(chosen), float(units)),
                squares,
                total,
                np.full(len(chosen), float(units)),
            ]
        else:
            first = [column[chosen].sum(axis=1) for column in (t, s, t * t, t * s, s * s)]
        whole = (t.sum(), s.sum(), t @ t, t @ s, s @ s)
        rest = [float(everyone) - part for everyone, part in zip(whole, first, strict=True)]
        mean, variance = _arm(first, units)
        other, other_variance = _arm(rest, len(t) - units)
        return mean - other, variance + other_variance


def _arm(sums: list[FloatArray], units: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean of an arm and its variance, ``G / (G - 1) sum_u (t_u - m_u mean)^2 / n^2``.

    An arm of one unit has no spread; its distance from the stratum's mean, here 0, replaces it.
    """
    total, size, squares, products, sizes_squared = sums
    mean = total / size
    if units == 1:
        return mean, mean**2
    deviation = squares - 2 * mean * products + mean**2 * sizes_squared
    floor = 1e-12 * squares
    variance = units / (units - 1) * np.where(deviation > floor, deviation, 0.0) / size**2
    return mean, variance


def _statistic(strata: list[_Prepared], chosen: list[IntArray], *, studentised: bool) -> FloatArray:
    """Return the absolute (studentised) difference of every arrangement; infinite without spread."""
    parts = [stratum.arms(units) for stratum, units in zip(strata, chosen, strict=True)]
    size: FloatArray = np.abs(np.sum([difference for difference, _ in parts], axis=0))
    if not studentised:
        return size
    negligible = 1e-12 * sum(stratum.scale for stratum in strata)
    error = np.sqrt(np.sum([variance for _, variance in parts], axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(size <= negligible, 0.0, size / error)


def are_enumerable(strata: list[Stratum]) -> bool:
    """Return whether all joint arrangements can be enumerated."""
    splits = math.prod(math.comb(len(stratum.totals), stratum.first) for stratum in strata)
    return splits <= _MAX_EXACT_SPLITS


def every_arrangement(strata: list[Stratum]) -> list[IntArray]:
    """Return the first arm's units in all joint arrangements, one array per stratum; the observed one is first."""
    choices = [
        np.array(list(itertools.combinations(range(len(stratum.totals)), stratum.first)))
        for stratum in strata
    ]
    rows = np.indices([len(choice) for choice in choices]).reshape(len(choices), -1)
    return [choice[row] for choice, row in zip(choices, rows, strict=True)]


def drawn_arrangements(stratum: Stratum, size: int, rng: np.random.Generator) -> IntArray:
    """Draw the units of the first arm ``size`` times, a row each."""
    everyone = np.tile(np.arange(len(stratum.totals)), (size, 1))
    return rng.permuted(everyone, axis=1)[:, : stratum.first]


def _counts_suffice(strata: list[Stratum]) -> bool:
    """Return whether these are many single episodes with two outcomes, so that only successes matter."""
    single = all(np.all(stratum.sizes == 1) for stratum in strata)
    two = all(np.all(np.isin(stratum.totals, (0.0, 1.0))) for stratum in strata)
    return single and two and sum(len(stratum.totals) for stratum in strata) > _MANY_UNITS


def _drawn_differences(strata: list[Stratum], draws: int, rng: np.random.Generator) -> FloatArray:
    """Return the absolute weighted difference of rates in drawn arrangements.

    The successes in the first arm are hypergeometric, so episodes need not be permuted.
    """
    total = np.zeros(draws)
    for stratum in strata:
        n, successes = len(stratum.totals), int(stratum.totals.sum())
        first = rng.hypergeometric(successes, n - successes, stratum.first, size=draws)
        total += stratum.weight * (first / stratum.first - (successes - first) / (n - stratum.first))
    return np.abs(total)


def rates_test(successes_a: int, n_a: int, successes_b: int, n_b: int) -> Significance:
    """Test whether two independent rates are equal: Boschloo's exact test, Fisher's above 300 episodes.

    Boschloo's test (1970) keeps its level at every common rate and is uniformly more powerful than Fisher's.
    With many episodes the two agree, and Fisher's test is faster.
    """
    from scipy.stats import boschloo_exact, fisher_exact

    if not n_a or not n_b:
        return Significance(math.nan, "Boschloo exact (an arm is empty)")
    table = [[successes_a, successes_b], [n_a - successes_a, n_b - successes_b]]
    small = n_a + n_b <= _MAX_BOSCHLOO_EPISODES
    p = float((boschloo_exact if small else fisher_exact)(table).pvalue)
    return Significance(min(1.0, p), "Boschloo exact" if small else "Fisher exact")


def adjust_p_values(p_values: ArrayLike, *, method: Literal["bh", "by", "holm"] = "bh") -> FloatArray:
    """Adjust p-values for multiple comparisons; compare each with the level for the whole family.

    NaN stays NaN and is not counted. ``"bh"`` bounds the share of false discoveries for independent or
    positively dependent tests (Benjamini and Hochberg 1995), ``"by"`` for any dependence (Benjamini and
    Yekutieli 2001), ``"holm"`` the chance of even one false discovery (Holm 1979).

    >>> adjust_p_values([0.01, 0.04, float("nan")]).tolist()
    [0.02, 0.04, nan]
    """
    p = np.asarray(p_values, dtype=np.float64)
    if method not in ("bh", "by", "holm"):
        raise OptionError(f"Unknown correction {method!r}. Valid: bh, by, holm.")
    if np.any((p < 0) | (p > 1)):
        raise OptionError("P-values must be in 0..1, or be NaN where there was nothing to test.")
    adjusted = np.full(p.shape, math.nan)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    m, rank = len(order), np.arange(1, len(order) + 1)
    if method == "holm":
        stepped = np.maximum.accumulate(p[order] * (m - rank + 1))
    else:
        penalty = float(np.sum(1.0 / rank)) if method == "by" else 1.0
        stepped = np.minimum.accumulate((p[order] * penalty * m / rank)[::-1])[::-1]
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
