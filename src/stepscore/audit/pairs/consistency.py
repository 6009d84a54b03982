"""Macro-consistency of a judge's comparisons over pairs, triples and whole episodes.

All metrics are computed from the judge's answers, without labels. A scalar curve is consistent by construction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis import curves_by_episode
from stepscore.audit.judge_answers import Judged
from stepscore.audit.pairs.compare import AFTER, BEFORE, Question, compared
from stepscore.audit.pairs.consistency_plan import SAME, SWAPPED, TRIPLE, ConsistencyPlan
from stepscore.audit.pairs.pair import Pair
from stepscore.audit.pairs.score import Measure, judged_change, resampling
from stepscore.episodes import Episode
from stepscore.metrics import (
    confirmed_order,
    curve_gap,
    equal_neighbours,
    opposite_signs,
    partition_gap,
    repeat_variance,
    triple_residual,
)
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.models.calls import Budget
from stepscore.runs import CallOptions, FinishedEpisode, Run, score
from stepscore.types import Estimate, FloatArray

Curves = Mapping[str, tuple[FloatArray, FloatArray]]
"""Times and values by episode."""


@dataclass(frozen=True)
class Consistency:
    """Metrics of a judge's agreement with itself."""

    judge: str
    measures: tuple[Measure, ...]

    def value(self, metric: str) -> Estimate:
        """Return the value of a metric by its name."""
        return next(one.estimate for one in self.measures if one.metric == metric)


def ask_consistency(
    plan: ConsistencyPlan,
    folder: Path,
    *,
    views: Sequence[str] | None = None,
    call_options: CallOptions | None = None,
    spent_by: Sequence[Run] = (),
    on_start: Callable[[str, int], None] | None = None,
    on_done: Callable[[FinishedEpisode], None] | None = None,
) -> dict[str, Run]:
    """Run each part of the plan in its own folder; return the runs by name. Existing runs are resumed.

    Args:
        call_options: Options for model calls; the budget covers all parts.
        spent_by: Runs whose calls count against the same budget.
    """
    options = call_options or CallOptions()
    runs: dict[str, Run] = {}
    for name, part in plan.parts.items():
        if on_start is not None:
            on_start(name, len(part.episodes))
        left = _left(options, [*spent_by, *runs.values()])
        runs[name] = score(
            part.episodes, part.judge, folder / name, views=views, call_options=left, on_done=on_done
        )
    return runs


def _left(options: CallOptions, runs: Sequence[Run]) -> CallOptions:
    """Return the options with the budget reduced by what these runs have spent."""
    spent = [run.info.get("spent", {}).get("total", {}) for run in runs]
    calls, money = options.budget.max_calls, options.budget.max_cost
    if calls is not None:
        calls = max(0, calls - sum(int(one.get("attempts") or 0) for one in spent))
    if money is not None:
        money = max(0.0, money - sum(float(one.get("cost") or 0.0) for one in spent))
    return replace(options, budget=Budget(calls, money, given=options.budget))


def measure_consistency(
    judge: str,
    plan: ConsistencyPlan,
    runs: Mapping[str, Run],
    changes: Mapping[str, float],
    pairs: Sequence[Pair],
) -> Consistency:
    """Measure the consistency of the answers.

    Args:
        runs: Runs returned by :func:`ask_consistency`.
        changes: The judge's answer for every pair, by pair id.
    """
    measures = _of_pairs(plan, compared(runs["pairs"]), changes)
    if "triples" in runs:
        measures = [*_of_triples(plan.triples, compared(runs["triples"])), *measures]
    if plan.points:
        measures += _of_episodes(plan, runs, changes, pairs)
    return Consistency(judge, tuple(measures))


def _of_triples(triples: Sequence[Episode], answers: Mapping[str, Mapping[str, float]]) -> list[Measure]:
    pq, qr, pr = (
        np.array([answers.get(one.id, {}).get(question.name, math.nan) for one in triples])
        for question in TRIPLE
    )
    resampled = _episodes_resampled(triples)
    residual = triple_residual(pq, qr, pr)
    median = statistic_estimate(np.median, residual, **resampled)
    p90 = statistic_estimate(_p90, residual, **resampled)
    order = mean_estimate(confirmed_order(pq, qr, pr), **resampled)
    return [
        Measure("consistency:residual-median", "triple residual, median (nats)", "M1", "0", median),
        Measure("consistency:residual-p90", "triple residual, 90th percentile", "M1", "0", p90),
        Measure("consistency:order", "order confirmed by the long hop", "", "1", order),
    ]


def _of_pairs(
    plan: ConsistencyPlan, answers: Mapping[str, Mapping[str, float]], changes: Mapping[str, float]
) -> list[Measure]:
    def asked(question: Question) -> FloatArray:
        return np.array([answers.get(one.id, {}).get(question.name, math.nan) for one in plan.pairs])

    first = np.array([changes.get(one.id, math.nan) for one in plan.pairs])
    resampled = resampling(plan.pairs)
    swapped = mean_estimate(opposite_signs(first, asked(SWAPPED)), **resampled)
    same = mean_estimate(np.abs(asked(SAME)), **resampled)
    found = [
        Measure("consistency:antisymmetry", "opposite sign when swapped", "M4", "1", swapped),
        Measure("consistency:identity", "answer about a frame and itself", "M5", "0", same),
    ]
    if not plan.repeats:
        return found
    again = [asked(Question(BEFORE, AFTER, number)) for number in range(1, plan.repeats + 1)]
    variance = repeat_variance(np.stack([first, *again], axis=1))
    noise = statistic_estimate(_root_mean, variance, **resampled)
    ratio = statistic_estimate(_signal_to_noise, (variance, np.abs(first)), **resampled)
    return [
        *found,
        Measure("resolution:noise", "noise of asking again", "R4", "0", noise),
        Measure("resolution:SNR", "median hop over that noise", "R4", "", ratio),
    ]


def _of_episodes(
    plan: ConsistencyPlan, runs: Mapping[str, Run], changes: Mapping[str, float], pairs: Sequence[Pair]
) -> list[Measure]:
    episodes, resampled = plan.episodes, _episodes_resampled(plan.episodes)
    curves = {points: _curves(runs[f"curves-{points}"], "incremental") for points in plan.points}
    most = plan.points[0]
    found: list[Measure] = []
    for points in plan.points[1:]:
        gaps = [_partition(curves[points], curves[most], one.id) for one in episodes]
        for place, what, name in ((0, "shared points", "partition"), (1, "the end", "final")):
            values = mean_estimate([gap[place] for gap in gaps], **resampled)
            title = f"{points} points against {most}: gap at {what}"
            found.append(Measure(f"consistency:{name}", title, "M2", "0", values, {"points": str(points)}))
    modes = {mode: _curves(runs[f"curves-{most}"], mode) for mode in ("incremental", "forward", "backward")}
    for one, other in (("forward", "backward"), ("incremental", "forward")):
        values = mean_estimate(
            [_gap(modes[one].get(e.id), modes[other].get(e.id)) for e in episodes], **resampled
        )
        found.append(Measure(f"consistency:{one}-{other}", f"gap of {one} and {other}", "M3", "0", values))
    still = [equal_neighbours(curves[most][e.id][1]) if e.id in curves[most] else math.nan for e in episodes]
    equal = mean_estimate(still, **resampled)
    found.append(Measure("resolution:equal-neighbours", "equal neighbours on the curve", "R3", "", equal))
    return [*found, _curve_agrees(plan, curves[most], changes, pairs)]


def _curve_agrees(
    plan: ConsistencyPlan, curves: Curves, changes: Mapping[str, float], pairs: Sequence[Pair]
) -> Measure:
    """Return path independence: how often the summed hops and the direct comparison have the same sign."""
    last_s = {one.id: float(one.view(one.main_view).timestamps()[-1]) for one in plan.episodes}
    inside = [pair for pair in pairs if pair.episode in last_s]
    signs = []
    for pair in inside:
        direct = changes.get(pair.id, math.nan)
        curve = Judged(*curves[pair.episode]) if pair.episode in curves else None
        along = judged_change(pair.as_recorded(last_s[pair.episode]), curve)
        known = not (math.isnan(direct) or math.isnan(along))
        signs.append((np.sign(direct) * np.sign(along) + 1) / 2 if known else math.nan)
    share = mean_estimate(signs, **resampling(inside))
    return Measure("consistency:curve", "curve has the sign of the comparison", "", "1", share)


def _curves(run: Run, channel: str) -> Curves:
    """Return a channel's curves; a judge with a single curve uses that curve as the incremental channel."""
    table = run.curves()
    if channel not in table.column_names:
        if channel != "incremental" or "progress" not in table.column_names:
            return {}
        channel = "progress"
    return dict(curves_by_episode(table, channel))


def _partition(coarse: Curves, fine: Curves, name: str) -> tuple[float, float]:
    if name not in coarse or name not in fine:
        return math.nan, math.nan
    return partition_gap(*coarse[name], *fine[name])


def _gap(one: tuple[FloatArray, FloatArray] | None, other: tuple[FloatArray, FloatArray] | None) -> float:
    return math.nan if one is None or other is None else curve_gap(one[1], other[1])


def _episodes_resampled(episodes: Sequence[Episode]) -> dict[str, Any]:
    of = [str(one.metadata.get("frames_of", one.id)) for one in episodes]
    return {
        "clusters": [one.pair or name for one, name in zip(episodes, of, strict=True)],
        "strata": [one.task or one.instruction for one in episodes],
    }


def _p90(values: FloatArray) -> float:
    return float(np.quantile(values, 0.9))


def _root_mean(variance: FloatArray) -> float:
    return float(np.sqrt(variance.mean()))


def _signal_to_noise(variance: FloatArray, size: FloatArray) -> float:
    noise = _root_mean(variance)
    return float(np.median(size)) / noise if noise > 0 else math.nan
