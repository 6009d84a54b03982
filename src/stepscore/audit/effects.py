"""The effect of a probe over episodes: its mean, an interval and the outcome.

Episodes of one scene are not independent, so a scene counts once. With ``m_s`` known effects in scene ``s``,
the effective number of scenes (Kish 1965) is ``n_eff = (sum m_s)^2 / sum m_s^2``. It does not depend on the
answers, so another wrong answer never narrows an interval.

- Shares get Wilson's interval for ``n_eff`` answers. With ties, which count one half, it is the mean of the
  intervals of the share won and of the share not lost.
- Effects on a scale get ``mean +- t SD / sqrt(n_eff)`` with outliers cut: otherwise one answer far beyond the
  bound would widen the interval until it contains the bound again. Without variation, the common value
  decides.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stepscore.analysis import PolicyAgreement
from stepscore.audit.judge_answers import Judged
from stepscore.audit.planning import AuditPlan, scene_of
from stepscore.audit.probe import LEVEL, MIN_SCENES, Bound, Case, Outcome, Probe
from stepscore.audit.results import ProbeResult, WorstCase
from stepscore.metrics.stats import wilson_interval
from stepscore.types import Estimate, FloatArray

WORST_EPISODES = 6
"""Episodes that the result of a probe names, at most, where it is not passed."""

_STEPS = 40  # of the search for a cut

FAVOUR_BOUND = Bound(0.1, "below")
"""Difference of a judge's errors on two policies up to which it is fair to both."""


def effect_estimate(effects: FloatArray, scenes: Sequence[Hashable], *, rate: bool) -> Estimate:
    """Estimate the mean effect of a probe.

    The ends are NaN below :data:`MIN_SCENES` scenes, and on a scale without variation.

    Args:
        effects: One per episode, NaN where unknown.
        rate: Whether effects are answers: 0, 1, or one half for a tie.
    """
    known = ~np.isnan(effects)
    values, sizes = effects[known], Counter(s for s, one in zip(scenes, known, strict=True) if one)
    n, units = len(values), len(sizes)
    coverage = n / len(effects) if len(effects) else math.nan
    if not n:
        return Estimate(math.nan, math.nan, math.nan, 0, 0, coverage, "no known values")
    value, ends = float(np.mean(values)), (math.nan, math.nan)
    effective = n**2 / sum(size**2 for size in sizes.values())
    if units < MIN_SCENES:
        method = f"too few scenes ({units} < {MIN_SCENES})"
    elif rate:
        ends, method = _share_interval(values, effective), "wilson"
    elif np.ptp(values) == 0:
        value, method = float(values[0]), "no variation"
    else:
        ends, method = (_lower_end(values, effective), -_lower_end(-values, effective)), "t"
    if not math.isnan(ends[0]):
        method += f" {100 * LEVEL:g}% ({effective:.3g} effective scenes)"
    return Estimate(value, *ends, n, units, coverage, method)


def _share_interval(values: FloatArray, effective: float) -> tuple[float, float]:
    """Return the mean of Wilson's intervals of the share that is 1 and of the share that is above 0."""
    parts = [
        wilson_interval(float(np.mean(share)) * effective, effective, LEVEL)
        for share in (values == 1, values > 0)
    ]
    lo, hi = (float(np.mean(ends)) for ends in zip(*parts, strict=True))
    return lo, hi


def _lower_end(values: FloatArray, effective: float) -> float:
    """Return ``mean - t SD / sqrt(n_eff)`` of the effects, cut at the value that makes it highest.

    Raising an effect lowers this end once it is more than ``(n - 1) sqrt(n_eff) / (n t)`` standard deviations
    above the mean. Cutting there makes the end rise with every effect, and only lowers the mean. Effects must
    not be all equal.
    """
    from scipy.special import stdtrit

    n, t = len(values), float(stdtrit(effective - 1, (1 + LEVEL) / 2))
    most = (n - 1) * math.sqrt(effective) / (n * t)

    def reaches(cut: float) -> bool:
        """Return whether effects that are cut there lie no further than that from the mean."""
        kept = np.minimum(values, cut)
        return bool(cut - np.mean(kept) <= most * np.std(kept, ddof=1))

    cut = float(np.max(values))
    if not reaches(cut):
        inside = float(np.min(values))
        for _ in range(_STEPS):
            middle = (inside + cut) / 2
            inside, cut = (middle, cut) if reaches(middle) else (inside, middle)
        cut = inside
    kept = np.minimum(values, cut)
    spread = float(np.std(kept, ddof=1))
    return float(np.mean(kept)) - (t * spread / math.sqrt(effective) if spread > 0 else 0.0)


def probe_result(
    probe: Probe, judge: str, plan: AuditPlan, judged: Mapping[str, Judged], *, causal: bool = False
) -> ProbeResult:
    """Return the result of one probe.

    Args:
        judged: The judge's answers by id of recorded and changed episodes.
        causal: Whether answers on truncated videos are read off the curve.
    """
    if probe.name in plan.not_applicable:
        why = plan.not_applicable[probe.name]
        return ProbeResult.missing(probe.name, probe.family, judge, probe.bound, probe.expectation, why)
    by_id = {episode.id: episode for episode in plan.episodes}
    cases = []
    for each in plan.probed:
        if each.probe != probe.name:
            continue
        plain = judged.get(each.episode, Judged())
        if causal and probe.truncates:
            ends = float(each.changed.view(each.changed.main_view).timestamps()[-1])
            probed = plain.up_to(ends)
        else:
            probed = judged.get(each.changed.id, Judged())
        cases.append(Case(by_id[each.episode], each.changed, plain, probed))
    effects = np.array([probe.effect(case) for case in cases], dtype=np.float64)
    shown = case_result(probe.name, probe.family, judge, cases, effects, probe.bound, rate=probe.rate)
    return replace(
        shown,
        expectation=probe.expectation,
        effect_name=probe.effect_name,
        eligible=plan.eligible[probe.name],
    )


def case_result(
    name: str,
    family: str,
    judge: str,
    cases: Sequence[Case],
    effects: FloatArray,
    bound: Bound,
    *,
    rate: bool = False,
) -> ProbeResult:
    """Return the estimate, outcome and worst episodes of some cases with their effects."""
    estimate = effect_estimate(effects, [scene_of(case.episode) for case in cases], rate=rate)
    outcome = bound.decide(estimate)
    worst = _worst(cases, effects, bound, outcome)
    return ProbeResult(name, family, judge, estimate, outcome, bound, "", "", len(cases), worst=worst)


def _worst(
    cases: Sequence[Case], effects: FloatArray, bound: Bound, outcome: Outcome
) -> tuple[WorstCase, ...]:
    """Return the episodes furthest on the wrong side of the bound; empty if the probe passed or is undecided."""
    if outcome not in ("fail", "warn"):
        return ()
    badness = effects - bound.limit if bound.good == "below" else bound.limit - effects
    order = np.argsort(-badness, kind="stable")  # unknown ones are last
    return tuple(
        WorstCase(cases[i].episode.id, cases[i].changed.id, float(effects[i]))
        for i in order[:WORST_EPISODES]
        if badness[i] > 0
    )


def policy_result(agreement: PolicyAgreement) -> ProbeResult | None:
    """Return whether a judge favours a policy against the labels; ``None`` with fewer than two policies.

    It fails on any significant difference, and passes if every difference is shown to be within
    :data:`FAVOUR_BOUND`.
    """
    if not agreement.differences:
        return None
    bound, pairs = FAVOUR_BOUND, agreement.differences
    worst = agreement.flagged[0] if agreement.flagged else pairs[0]
    outcomes = {bound.decide(_size(pair.difference)) for pair in pairs}
    outcome: Outcome
    if agreement.flagged:
        outcome = "fail"
    elif "undecided" in outcomes:
        outcome = "undecided"
    else:
        outcome = "pass" if outcomes == {"pass"} else "warn"
    return ProbeResult(
        f"policies-{agreement.quantity}",
        "labels",
        agreement.judge,
        worst.difference,
        outcome,
        bound,
        "no policy is favoured beyond chance, and none by more than 0.1",
        f"error of {agreement.quantity} on {worst.favoured} less that on {worst.other}",
        worst.difference.n,
    )


def _size(difference: Estimate) -> Estimate:
    """Return the absolute difference as an estimate whose upper end covers both signs."""
    ends = max(abs(difference.lo), abs(difference.hi))
    return replace(difference, value=abs(difference.value), lo=min(0.0, ends), hi=ends)
