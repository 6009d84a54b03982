"""Each judge's agreement with labels, compared with that of the baselines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore.analysis import EpisodeMetrics, JudgeAgreement, judge_agreement, measure_baselines
from stepscore.judges import BASELINES
from stepscore.report.page import columns, table_types
from stepscore.report.page.leaderboards.leaderboard import Leaderboard, Pack
from stepscore.runs import Run

CURVE_METRICS = ("VOC", "stage_MAE", "stage_CCC")
"""Metrics of a curve that describe the judge rather than the policy."""

MAX_BASELINE_EPISODES = 1_000
"""Episodes up to which baselines are computed for the page: measuring more of them takes minutes."""


def agreement_rows(
    leaderboards: Sequence[Leaderboard], runs: Sequence[Run], pack: Pack
) -> list[table_types.JudgeAgreement]:
    """Return the agreement of every run, then those of the baselines not given as runs.

    Judges of the same episodes have one set of baselines between them, at the times of the first that has curves.
    """
    rows: list[table_types.JudgeAgreement] = []
    for leaderboard in leaderboards:
        for run, place, chosen in zip(
            leaderboard.runs, leaderboard.numbers, leaderboard.slices(), strict=True
        ):
            row = _row(run.judge, _agreement(run, leaderboard, chosen), leaderboard.judged, chosen, pack)
            rows.append({**row, "model": run.model, "run": place, "baseline_for": -1})
    given = {run.judge for run in runs}
    missing = [name for name in BASELINES if name not in given]
    for place in _baseline_leaderboards(leaderboards, missing):
        if len(leaderboards[place].judged) <= MAX_BASELINE_EPISODES:
            for baseline in measure_baselines(leaderboards[place].judged, missing):
                row = _row(baseline.judge, baseline.agreement, baseline.metrics, slice(None), pack)
                rows.append({**row, "model": None, "run": -1, "baseline_for": place})
    return rows


def _agreement(run: Run, leaderboard: Leaderboard, rows: slice) -> JudgeAgreement:
    """Return the agreement of one run, as the leaderboard measured it if that is the revision it is stated in."""
    if leaderboard.judged.revision != DEFAULT_REVISION:
        return judge_agreement(run)
    chosen = np.zeros(len(leaderboard.judged), dtype=bool)
    chosen[rows] = True
    return judge_agreement(run, measured=[leaderboard.judged.select(chosen)])


def _baseline_leaderboards(leaderboards: Sequence[Leaderboard], missing: Sequence[str]) -> list[int]:
    """Return one leaderboard for each set of episodes that needs baselines: the first with curves, else the first."""
    chosen: dict[frozenset[tuple[str, str]], int] = {}
    for place, leaderboard in enumerate(leaderboards):
        if _needs_baselines(leaderboard, missing):
            episodes = frozenset((row["source"], row["episode_id"]) for row in leaderboard.judged.episodes)
            first = chosen.setdefault(episodes, place)
            if _has_curves(leaderboard) and not _has_curves(leaderboards[first]):
                chosen[episodes] = place
    return sorted(chosen.values())


def _has_curves(leaderboard: Leaderboard) -> bool:
    return any(len(values) for _, values in leaderboard.judged.curves)


def without_baselines(leaderboards: Sequence[Leaderboard], runs: Sequence[Run]) -> list[Leaderboard]:
    """Return the leaderboards whose judge is compared with no baseline because they have too many episodes."""
    missing = [name for name in BASELINES if name not in {run.judge for run in runs}]
    chosen = [leaderboards[place] for place in _baseline_leaderboards(leaderboards, missing)]
    return [leaderboard for leaderboard in chosen if len(leaderboard.judged) > MAX_BASELINE_EPISODES]


def _needs_baselines(leaderboard: Leaderboard, missing: Sequence[str]) -> bool:
    return bool(missing) and leaderboard.runs[0].judge not in BASELINES


def _row(
    judge: str, agreement: JudgeAgreement, metrics: EpisodeMetrics, chosen: slice, pack: Pack
) -> table_types.AgreementCells:
    cells: dict[str, columns.Est] = {}
    for a in agreement.agreements:
        estimates = {**a.named(), **a.errors()}
        cells |= {f"{a.question}: {name}": pack(estimate) for name, estimate in estimates.items()}
    cells |= {m.metric.removeprefix("judge:"): pack(m.estimate) for m in agreement.ranking}
    inside = np.zeros(len(metrics), dtype=bool)
    inside[chosen] = True
    for name in CURVE_METRICS:
        if np.any(~np.isnan(metrics.values[name][inside])):
            cells[name] = pack(metrics.of_the_judge().estimate(name, inside))
    return {
        "judge": judge,
        "baseline": judge in BASELINES,
        "cells": cells,
        "confusion": {
            a.question: table_types.Confusion(a.table.tp, a.table.fp, a.table.fn, a.table.tn, a.table.unknown)
            for a in agreement.agreements
        },
    }
