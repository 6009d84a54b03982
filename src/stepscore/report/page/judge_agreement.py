"""How far to trust each judge: agreement with labels, and the trivial baselines beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stepscore.analysis import Measures, baseline_runs, judge_agreement, measure_episodes
from stepscore.report.page.boards import TRIVIAL, Board, Pack
from stepscore.runs import Run

ORDER = ("VOC", "stage_MAE", "stage_CCC")
"""Columns of a curve that speak of the judge rather than of the policy."""

MOST_EPISODES = 1_000
"""Episodes up to which baselines are made for the page: judging and measuring more takes minutes."""


def trust_rows(boards: Sequence[Board], runs: Sequence[Run], pack: Pack) -> list[dict[str, Any]]:
    """A row per run, and below each judge the trivial ones that were not given as runs."""
    rows = []
    for board in boards:
        for run, place, chosen in zip(board.runs, board.numbers, board.slices(), strict=True):
            rows.append(_row(run, board.measures, chosen, pack) | {"run": place, "beside": -1})
    given = {run.judge for run in runs}
    missing = [name for name in TRIVIAL if name not in given]
    for place, board in enumerate(boards):
        if _wants_baselines(board, missing) and len(board.measures) <= MOST_EPISODES:
            with baseline_runs(board.measures, missing) as made:
                for run in made:
                    measures = measure_episodes(run)
                    rows.append(_row(run, measures, slice(None), pack) | {"run": -1, "beside": place})
    return rows


def without_baselines(boards: Sequence[Board], runs: Sequence[Run]) -> list[Board]:
    """The boards whose judge stands alone because there are too many episodes to judge again."""
    missing = [name for name in TRIVIAL if name not in {run.judge for run in runs}]
    return [b for b in boards if _wants_baselines(b, missing) and len(b.measures) > MOST_EPISODES]


def _wants_baselines(board: Board, missing: Sequence[str]) -> bool:
    return bool(missing) and board.runs[0].judge not in TRIVIAL


def _row(run: Run, measures: Measures, chosen: slice, pack: Pack) -> dict[str, Any]:
    found = judge_agreement(run)
    cells: dict[str, Any] = {}
    for a in found.agreements:
        named = (("accuracy", a.accuracy), ("balanced accuracy", a.balanced), ("MCC", a.mcc))
        cells |= {f"{a.question}: {name}": pack(estimate) for name, estimate in named}
    cells |= {m.metric.removeprefix("judge:"): pack(m.estimate) for m in found.ranking}
    inside = np.zeros(len(measures), dtype=bool)
    inside[chosen] = True
    for name in ORDER:
        if np.any(~np.isnan(measures.values[name][inside])):
            cells[name] = pack(measures.estimate(name, inside))
    return {
        "judge": run.judge,
        "model": run.model,
        "trivial": run.judge in TRIVIAL,
        "cells": cells,
        "confusion": {
            a.question: [a.table.tp, a.table.fp, a.table.fn, a.table.tn, a.table.unknown]
            for a in found.agreements
        },
    }
