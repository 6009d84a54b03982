"""Significance tests of a difference between two arms, and the correction for multiple comparisons.

All are two-sided. Small cases are enumerated exactly; larger ones draw 9,999 arrangements with a seed and
count the observed one among them, so that no p-value is ever 0 (Phipson and Smyth 2010).
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
from stepscore.types import FloatArray

N_DRAWS = 9999
"""Random arrangements drawn where there are too many to enumerate."""

_MAX_EXACT_FLIPS = 16  # 2^16 sign patterns
_MAX_EXACT_SPLITS = 20_000  # assignments of units to arms
_MAX_BOSCHLOO_EPISODES = 300  # its search over the common rate takes a tenth of a second here and grows fast


@dataclass(frozen=True, slots=True)
class Significance:
    """A two-sided p-value (NaN where there is nothing to test) and the name of its test."""

    p_value: float
    test: str


@dataclass(frozen=True)
class Stratum:
    """Units of both arms within one stratum, first arm first.

    Attributes:
        totals: Sum of values in each unit.
        sizes: Number of episodes in each unit.
        first: Number of units that belong to the first arm.
        weight: Weight of the stratum's difference of means.
    """

    totals: FloatArray
    sizes: FloatArray
    first: int
    weight: float


def sign_flip_test(totals: FloatArray, *, seed: int = 0) -> Significance:
    """Test whether paired differences centre on 0: under the null each unit's sign is as likely either way.

    The statistic is the absolute sum of differences. Units are pairs, or clusters of pairs whose summed
    difference flips as one. A difference of 0 has no sign and changes nothing.
    """
    if len(totals) == 0:
        return Significance(math.nan, "sign-flip (no pairs)")
    moving = np.sort(totals[totals != 0])
    observed = abs(float(np.sum(moving)))
    threshold = observed - 1e-12 * float(np.sum(np.abs(moving)))
    if len(moving) <= _MAX_EXACT_FLIPS + 1:
        # The two arrangements that differ in every sign have one |sum|: the first sign may stay.
        free = max(len(moving) - 1, 0)
        bits = (np.arange(2**free)[:, None] >> np.arange(free)) & 1
        sums = moving[:1].sum() + (1 - 2 * bits) @ moving[1:]
        return Significance(float(np.mean(np.abs(sums) >= threshold)), "sign-flip (exact)")
    rng = np.random.default_rng(seed)
    reached = 0
    for size in batches(N_DRAWS, len(moving)):
        signs = rng.integers(0, 2, size=(size, len(moving)), dtype=np.int8) * 2 - 1
        reached += int(np.sum(np.abs(signs @ moving) >= threshold))
    return Significance((reached + 1) / (N_DRAWS + 1), f"sign-flip ({N_DRAWS} draws, seed {seed})")


def mcnemar_test(wins: int, losses: int) -> Significance:
    """Test paired 0/1 outcomes by McNemar's exact test: discordant pairs go either way with probability 1/2.

    It is the sign-flip test of the differences, summed in closed form.
    """
    from scipy.special import bdtr

    n = wins + losses
    return Significance(min(1.0, 2 * float(bdtr(min(wins, losses), n, 0.5))) if n else 1.0, "McNemar exact")


def permutation_test(strata: list[Stratum], *, seed: int = 0) -> Significance:
    """Test whether two arms share one distribution within every stratum.

    The statistic is the absolute weighted sum of the strata's differences of means. Units (episodes, or
    clusters as a whole) are reassigned to the arms within their stratum, keeping the number in each arm.
    """
    within = " within strata" if len(strata) > 1 else ""
    if not strata or any(not 0 < stratum.first < len(stratum.totals) for stratum in strata):
        return Significance(math.nan, "permutation (nothing to compare)")
    splits = math.prod(math.comb(len(stratum.totals), stratum.first) for stratum in strata)
    observed = sum(float(_differences(stratum, np.arange(stratum.first)[None])[0]) for stratum in strata)
    scale = sum(stratum.weight * float(np.max(np.abs(stratum.totals / stratum.sizes))) for stratum in strata)
    threshold = abs(observed) - 1e-12 * scale
    if splits <= _MAX_EXACT_SPLITS:
        sums = np.zeros(1)
        for stratum in strata:
            chosen = np.array(list(itertools.combinations(range(len(stratum.totals)), stratum.first)))
            sums = np.add.outer(sums, _differences(stratum, chosen)).ravel()
        return Significance(float(np.mean(np.abs(sums) >= threshold)), f"permutation{within} (exact)")
    reached = _reached_by_chance(strata, threshold, seed)
    return Significance(
        (reached + 1) / (N_DRAWS + 1),
        f"permutation{within} ({N_DRAWS} draws, seed {seed})",
    )


def _differences(stratum: Stratum, chosen: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> FloatArray:
    """Return the weighted difference of means when the first arm holds the units ``chosen``, one per row."""
    total, size = stratum.totals[chosen].sum(axis=1), stratum.sizes[chosen].sum(axis=1)
    rest = (stratum.totals.sum() - total) / (stratum.sizes.sum() - size)
    difference: FloatArray = stratum.weight * (total / size - rest)
    return difference


def _reached_by_chance(strata: list[Stratum], threshold: float, seed: int) -> int:
    """Count the drawn arrangements that reach the threshold."""
    rng = np.random.default_rng(seed)
    reached = 0
    for size in batches(N_DRAWS, sum(len(stratum.totals) for stratum in strata)):
        sums = np.zeros(size)
        for stratum in strata:
            everyone = np.tile(np.arange(len(stratum.totals)), (size, 1))
            sums += _differences(stratum, rng.permuted(everyone, axis=1)[:, : stratum.first])
        reached += int(np.sum(np.abs(sums) >= threshold))
    return reached


def rates_test(successes_a: int, n_a: int, successes_b: int, n_b: int) -> Significance:
    """Test whether two independent rates are equal: Boschloo's exact test, Fisher's above 300 episodes.

    Boschloo's (1970) holds its level at every common rate and is uniformly more powerful than Fisher's;
    with many episodes the two agree and Fisher's is quick.
    """
    from scipy.stats import boschloo_exact, fisher_exact

    if not n_a or not n_b:
        return Significance(math.nan, "Boschloo exact (an arm is empty)")
    table = [[successes_a, successes_b], [n_a - successes_a, n_b - successes_b]]
    small = n_a + n_b <= _MAX_BOSCHLOO_EPISODES
    p = float((boschloo_exact if small else fisher_exact)(table).pvalue)
    return Significance(min(1.0, p), "Boschloo exact" if small else "Fisher exact")


def adjust_p_values(p_values: ArrayLike, *, method: Literal["bh", "by", "holm"] = "bh") -> FloatArray:
    """Adjust p-values for multiple comparisons; compare each with the level wanted for the whole family.

    Args:
        p_values: One per comparison; NaN stays NaN and is not counted.
        method: ``"bh"`` bounds the share of false discoveries among the discoveries for independent or
            positively dependent tests (Benjamini and Hochberg 1995), ``"by"`` for any dependence
            (Benjamini and Yekutieli 2001), ``"holm"`` the chance of even one false discovery (Holm 1979).

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
