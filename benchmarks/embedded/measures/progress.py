"""Progress: does the calibrated curve follow the privileged potential, and does OPD made of it say the same?"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.embedded.figures import Figure, Units, average, over_points, plain
from benchmarks.embedded.rows import Scored
from stepscore.metrics.calibration import MonotoneMap, mae
from stepscore.metrics.failure_modes import failure_mode
from stepscore.metrics.opd.revisions import compute_opd
from stepscore.metrics.order import ccc, voc
from stepscore.types import Estimate, FloatArray

GROUP, OPD, FAILURE_MODES = (
    "Calibrated progress against the potential",
    "OPD from the judge against OPD from the potential",
    "Failure modes",
)
PLANTED = {
    "freeze": "reached and stopped",
    "undo": "undone at the end",
    "short:1": "reached and stopped",
    "short:2": "reached and stopped",
    "short:4": "reached and stopped",
}
"""Failure mode that each of five policies should show."""
FAILURE_MODE_TASKS = (
    "assembly",
    "bin-picking",
    "button-press",
    "coffee-pull",
    "coffee-push",
    "door-open",
    "drawer-open",
)
"""Seven tasks on which all five policies mostly fail."""

Curve = Callable[[Scored], FloatArray]


def progress_figures(rows: Sequence[Scored], fitted: MonotoneMap, group: str = GROUP) -> list[Figure]:
    """MAE and CCC of calibrated progress, successes and failures apart."""
    figures = []
    for words, success in (("successes", 1.0), ("failures", 0.0)):
        chosen = [row for row in rows if row.variant == "recorded" and row.success == success]
        truth = [row.potential for row in chosen]
        curves: dict[str, Curve] = {
            "judge": lambda row: fitted.apply(row.own.margins),
            "linear time": linear_time,
            "constant": lambda row: np.full(len(row.times), 0.5),
        }
        errors = {name: [mae(curve(r), r.potential) for r in chosen] for name, curve in curves.items()}
        others = {n: float(np.nanmean(v)) if v else math.nan for n, v in errors.items() if n != "judge"}
        estimate = average(errors["judge"], Units.of(chosen))
        figures.append(Figure(group, f"MAE, {words}", estimate, 0.1, at_most=True, baselines=others))
        judged = [fitted.apply(row.own.margins) for row in chosen]
        level = over_points(ccc, (judged, truth), Units.of(chosen), resamples=300)
        clock = pooled([linear_time(row) for row in chosen], truth)
        figures.append(
            Figure(group, f"CCC, {words}", level, 0.85, baselines={"linear time": clock, "constant": 0.0})
        )
    return figures


def linear_time(row: Scored) -> FloatArray:
    """The clock as a judge: time over duration."""
    return np.asarray(row.times / row.times[-1] if row.times[-1] > 0 else np.zeros(len(row.times)))


def pooled(judged: Sequence[FloatArray], truth: Sequence[FloatArray]) -> float:
    """Concordance over all points."""
    return ccc(np.concatenate(judged), np.concatenate(truth)) if judged else math.nan


def opd_figures(rows: Sequence[Scored], fitted: MonotoneMap) -> list[Figure]:
    """MP, MC and the order of policies, of the judge's curve and of the potential at the same times."""
    chosen = [row for row in rows if row.variant == "recorded" and not np.isnan(row.potential).any()]
    units = Units.of(chosen)
    figures = []
    judged = {r: [_opd(row, fitted.apply(row.own.margins), r) for row in chosen] for r in ("v1.0", "robust")}
    true = {r: [_opd(row, row.potential, r) for row in chosen] for r in ("v1.0", "robust")}
    clock = {r: [_opd(row, linear_time(row), r) for row in chosen] for r in ("v1.0", "robust")}
    error = [abs(a["MP"] - b["MP"]) for a, b in zip(judged["v1.0"], true["v1.0"], strict=True)]
    by_clock = [abs(a["MP"] - b["MP"]) for a, b in zip(clock["v1.0"], true["v1.0"], strict=True)]
    others = {"linear time": float(np.mean(by_clock)) if by_clock else math.nan}
    figures.append(Figure(OPD, "error of MP", average(error, units), 0.1, at_most=True, baselines=others))
    for name in ("MC50", "MC75"):
        agree = [float(a[name] == b[name]) for a, b in zip(judged["v1.0"], true["v1.0"], strict=True)]
        timed = [float(a[name] == b[name]) for a, b in zip(clock["v1.0"], true["v1.0"], strict=True)]
        others = {"linear time": float(np.mean(timed)) if timed else math.nan}
        label = f"agreement on {name.replace('MC', 'MC@')}"
        figures.append(Figure(OPD, label, average(agree, units), 0.9, baselines=others))
    codes = {policy: float(n) for n, policy in enumerate(sorted({row.policy for row in chosen}))}
    for revision in ("v1.0", "robust"):
        for name in ("CRA", "STR"):
            judge, truth, timed = ([v[name] for v in values[revision]] for values in (judged, true, clock))
            columns = [[[v] for v in judge], [[v] for v in truth], [[codes[row.policy]] for row in chosen]]
            rho = over_points(policy_rho, columns, units, resamples=500)
            by_time = policy_rho(
                *(np.array(c) for c in (timed, truth, [codes[row.policy] for row in chosen]))
            )
            label = f"rho of {len(codes)} policies by {name} ({revision})"
            figures.append(Figure(OPD, label, rho, 0.8, baselines={"linear time": by_time}))
    return figures


def _opd(row: Scored, curve: FloatArray, revision: str) -> dict[str, float]:
    return compute_opd(curve, revision=revision, times=row.times)


def policy_rho(judged: FloatArray, true: FloatArray, policies: FloatArray) -> float:
    """Spearman's correlation of the policies' means."""
    known = ~(np.isnan(judged) | np.isnan(true))
    judged, true, policies = judged[known], true[known], policies[known]
    names = np.unique(policies)
    if len(names) < 2:
        return math.nan
    means = [[float(values[policies == name].mean()) for name in names] for values in (judged, true)]
    return voc(means[0], means[1])


def failure_mode_figures(rows: Sequence[Scored], fitted: MonotoneMap) -> list[Figure]:
    """How often planted ways of failing get their name, over five policies and seven tasks.

    A cell is a policy on a task; its name is the commonest among its failed episodes.
    """
    tasks = [task for task in FAILURE_MODE_TASKS if any(row.task == task for row in rows)] or sorted(
        {row.task for row in rows}
    )
    chosen = [
        row
        for row in rows
        if row.variant == "recorded" and row.success == 0 and row.policy in PLANTED and row.task in tasks
    ]
    figures = []
    sources: tuple[tuple[str, Curve, float | None], ...] = (
        ("the potential", lambda row: row.potential, 0.8),
        ("the judge", lambda row: fitted.apply(row.own.margins), None),
    )
    for source, curve, target in sources:
        names = [named(curve(row), row.times) for row in chosen]
        right = [float(name == PLANTED[row.policy]) for name, row in zip(names, chosen, strict=True)]
        figures.append(
            Figure(FAILURE_MODES, f"cells named right from {source}", _cells(chosen, names), target)
        )
        figures.append(
            Figure(FAILURE_MODES, f"episodes named right from {source}", average(right, Units.of(chosen)))
        )
    if figures:
        note = f"policies {', '.join(PLANTED)}; tasks {', '.join(tasks)}"
        figures[0] = replace(figures[0], note=note)
    return figures


def named(curve: FloatArray, times: FloatArray) -> str:
    """Return the failure mode of a failed episode."""
    return failure_mode(curve, times, success=False).name


def _cells(rows: Sequence[Scored], names: Sequence[str]) -> Estimate:
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row, name in zip(rows, names, strict=True):
        cells[row.policy, row.task][name] += 1
    right = [PLANTED[policy] == counts.most_common(1)[0][0] for (policy, _), counts in cells.items()]
    if not right:
        return plain(math.nan, 0, "no cells")
    return average(np.array(right, dtype=float), Units([None] * len(right), ["cell"] * len(right)))
