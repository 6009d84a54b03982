"""Whether a judge ranks policies as labels do, and how certain that is.

Rates are over the episodes with both an answer and a label. Scenes are resampled within tasks (the bootknife
of :mod:`stepscore.metrics.stats.bootstrap`), all policies of a scene together, and both rankings are
recomputed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.metrics.stats.bootstrap import RESAMPLES, batches, resample_units
from stepscore.metrics.stats.intervals import MAX_UNDEFINED, too_small
from stepscore.metrics.stats.large_samples import is_large
from stepscore.metrics.stats.sample import GroupLabels, Sample, draw_sample, pool_lonely
from stepscore.metrics.validation import same_length, series
from stepscore.types import Estimate, FloatArray, IntArray


@dataclass(frozen=True)
class PolicyRanking:
    """The ranking of policies by a judge and by labels.

    Attributes:
        by_judge: Success rate, or mean, of each policy by judge, shape (p,).
        tau: Kendall's tau-b of the two rankings, -1..1; its interval holds the middle 95 % of the resamples.
        same_best: Share of resamples in which the judge's best policy is the best by label; if several are
            best by
        judge, the share of these that are.
        same_order: Share of resamples in which both rank every pair of policies alike.
    """

    policies: tuple[str, ...]
    by_judge: FloatArray
    by_label: FloatArray
    tau: Estimate
    same_best: Estimate
    same_order: Estimate

    def order(self, by: FloatArray) -> list[list[str]]:
        """Return the policies from best to worst by these rates, ties together."""
        return [
            [name for name, value in zip(self.policies, by, strict=True) if value == rate]
            for rate in sorted(set(by.tolist()), reverse=True)
        ]

    @property
    def equal(self) -> bool:
        """Whether judge and labels rank every pair alike."""
        return self.order(self.by_judge) == self.order(self.by_label)


def rank_policies(
    policies: Sequence[str],
    answers: ArrayLike,
    labels: ArrayLike,
    *,
    clusters: GroupLabels | None = None,
    strata: GroupLabels | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PolicyRanking | None:
    """Compare the ranking of policies by answers with that by labels; ``None`` with fewer than two policies.

    Answers are 1 or 0 for success, or progress; NaN where unknown.
    """
    given, truth = series(answers, "answers"), series(labels, "labels")
    same_length(given, truth, "answers", "labels")
    if len(policies) != len(given):
        raise OptionError(f"There are {len(policies)} policies for {len(given)} episodes; give one each.")
    known = ~np.isnan(given + truth)
    names = tuple(sorted({name for name, one in zip(policies, known, strict=True) if one}))
    if len(names) < 2:
        return None
    code = {name: float(number) for number, name in enumerate(names)}
    coded = np.array([code.get(name, math.nan) for name in policies])
    sample = draw_sample(coded, given, truth, clusters=clusters, strata=strata)
    counts, judged, labelled = _by_unit(sample, len(names))
    whole = [totals.sum(axis=0) / counts.sum(axis=0) for totals in (judged, labelled)]
    note = too_small(sample)
    drawn = [] if note else _replicates(sample, (counts, judged, labelled), resamples, seed)
    rates = [np.concatenate(parts) for parts in zip(*drawn, strict=True)] if drawn else []
    defined = ~np.isnan(rates[0] + rates[1]).any(axis=1) if drawn else np.zeros(0, dtype=bool)

    def share(values: FloatArray) -> Estimate:
        value = float(values[defined].mean()) if defined.any() else math.nan
        return _estimate(sample, value, math.nan, math.nan, note or f"share of {defined.sum()} resamples")

    tau = float(_tau(*(one[None] for one in whole))[0])
    best, order = (_same_best(*rates), _same_order(*rates)) if drawn else (np.zeros(0), np.zeros(0))
    return PolicyRanking(
        names, whole[0], whole[1], _interval(sample, tau, rates, note), share(best), share(order)
    )


def _by_unit(sample: Sample, n_policies: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return episodes, sum by judge and sum by label of every unit and policy, shape (units, p)."""
    policy, given, truth = sample.columns
    cell = sample.unit * n_policies + policy.astype(np.int64)
    size = sample.units * n_policies
    counts, judged, labelled = (
        np.bincount(cell, weights=weights, minlength=size).astype(np.float64).reshape(-1, n_policies)
        for weights in (np.ones(sample.n), given, truth)
    )
    return counts, judged, labelled


def _replicates(
    sample: Sample, totals: tuple[FloatArray, FloatArray, FloatArray], resamples: int, seed: int
) -> list[tuple[FloatArray, FloatArray]]:
    """Return the means by judge and by label on every resample, shape (resamples, p); NaN for a policy not drawn."""
    rng, stratum = np.random.default_rng(seed), pool_lonely(sample.stratum)
    found = []
    for size in batches(resamples, sample.units * totals[0].shape[1]):
        units = resample_units(stratum, size, rng)
        counts, judged, labelled = _drawn_totals(totals, units, large=is_large(sample.n, sample.units))
        n = np.where(counts > 0, counts, np.nan)
        found.append((judged / n, labelled / n))
    return found


def _drawn_totals(
    totals: tuple[FloatArray, FloatArray, FloatArray], units: IntArray, *, large: bool
) -> tuple[FloatArray, ...]:
    """Return the totals over the units drawn, shape (resamples, p) each.

    For a large sample, draws are counted per unit and multiplied by its total: the same sums but for the
    order of additions, in a tenth of the time.
    """
    if not large:
        return tuple(each[units].sum(axis=1) for each in totals)
    times = np.array([np.bincount(row, minlength=len(totals[0])) for row in units], dtype=np.float64)
    return tuple(times @ each for each in totals)


def _signs(rates: FloatArray) -> FloatArray:
    first, second = np.triu_indices(rates.shape[1], 1)
    return np.asarray(np.sign(rates[:, first] - rates[:, second]))


def _tau(judged: FloatArray, labelled: FloatArray) -> FloatArray:
    """Return tau-b of each row; NaN where one of the two ties every pair (Kendall 1945)."""
    a, b = _signs(judged), _signs(labelled)
    pairs = np.sqrt(np.sum(a != 0, axis=1) * np.sum(b != 0, axis=1))
    return np.asarray(np.sum(a * b, axis=1) / np.where(pairs > 0, pairs, np.nan))


def _same_best(judged: FloatArray, labelled: FloatArray) -> FloatArray:
    by_judge, by_label = (each == each.max(axis=1, keepdims=True) for each in (judged, labelled))
    return np.asarray(np.sum(by_judge & by_label, axis=1) / np.maximum(np.sum(by_judge, axis=1), 1))


def _same_order(judged: FloatArray, labelled: FloatArray) -> FloatArray:
    return np.asarray(np.all(_signs(judged) == _signs(labelled), axis=1), dtype=np.float64)


def _interval(sample: Sample, tau: float, rates: Sequence[FloatArray], note: str) -> Estimate:
    if math.isnan(tau) or note:
        why = "undefined: one of the two ranks no policy above another" if math.isnan(tau) else note
        return _estimate(sample, tau, math.nan, math.nan, why)
    drawn = _tau(rates[0], rates[1])
    found = drawn[~np.isnan(drawn)]
    undefined = len(drawn) - len(found)
    if undefined > MAX_UNDEFINED * len(drawn):
        return _estimate(
            sample, tau, math.nan, math.nan, f"undefined on {undefined} of {len(drawn)} resamples"
        )
    if np.ptp(found) == 0:
        return _estimate(sample, tau, math.nan, math.nan, "no variation")
    lo, hi = np.quantile(found, [0.025, 0.975])
    return _estimate(
        sample, tau, float(lo), float(hi), f"percentile bootstrap 95 % ({len(drawn)} resamples, seed 0)"
    )


def _estimate(sample: Sample, value: float, lo: float, hi: float, method: str) -> Estimate:
    return Estimate(value, lo, hi, sample.n, sample.units, sample.coverage, method)
