"""Leaderboards, subgoal vectors and diagnoses as the page holds them: one board a protocol.

Every number comes from ``runs.measure``, ``runs.steps`` and ``runs.diagnosis``, so the page says what
``stepscore metrics --json`` says of the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.analysis import (
    FailureModes,
    Measured,
    Measures,
    failure_modes_by_policy,
    groups,
    measure,
    measure_episodes,
    subgoal_tables,
)
from stepscore.metrics import NONE, RULES, UNKNOWN, advice
from stepscore.report.page.packing import Table
from stepscore.report.page.ranks import tied_ranks
from stepscore.runs import Run, number
from stepscore.types import Estimate

TRIVIAL = ("linear-time", "constant", "random-monotone")
"""Judges that see no picture; every other judge is shown beside them."""

Est = list[Any]
Pack = Callable[[Estimate], Est]


def estimate_packer(methods: Table[str]) -> Pack:
    """Writes an Estimate as [value, lo, hi, n, clusters, coverage, method], methods in a table of their own."""

    def pack(e: Estimate) -> Est:
        ends = [number(e.value), number(e.lo), number(e.hi)]
        return [*ends, e.n, e.clusters, number(e.coverage), methods.number(e.method)]

    return pack


@dataclass(frozen=True)
class Board:
    """The runs of one protocol, measured together.

    Attributes:
        runs: The runs.
        numbers: Their places among the runs of the page.
        measures: Every episode of them with its numbers, run by run.
        diagnosis: How their policies fail.
    """

    runs: tuple[Run, ...]
    numbers: tuple[int, ...]
    measures: Measures
    diagnosis: FailureModes

    def slices(self) -> list[slice]:
        """Which rows of the measures belong to each run."""
        ends = np.cumsum([run.judgements().num_rows for run in self.runs]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def open_boards(runs: Sequence[Run], revision: str) -> list[Board]:
    """The runs by protocol, in the order in which the protocols appear, each measured once."""
    by_hash: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        by_hash.setdefault(run.protocol.hash, []).append(place)
    found = []
    for places in by_hash.values():
        chosen = tuple(runs[place] for place in places)
        measures = measure_episodes(chosen, revision=revision)
        found.append(Board(chosen, tuple(places), measures, failure_modes_by_policy(measures)))
    return found


def board_data(board: Board, label: str, pack: Pack) -> dict[str, Any]:
    """One board of the page."""
    run, measures = board.runs[0], board.measures
    return {
        "id": run.protocol.hash,
        "label": label,
        "judge": run.judge,
        "model": run.model,
        "protocol": run.protocol.hash,
        "trivial": run.judge in TRIVIAL,
        "runs": list(board.numbers),
        "overall": _groups(measures, ("policy",), measure(measures, ("policy",)), pack),
        "by_task": _groups(measures, ("task", "policy"), _plain(measures, ("task", "policy")), pack),
        "all": [
            {**group, "pooled": True}
            for by in (("task",), ())
            for group in _groups(measures, by, _plain(measures, by), pack, ranked=False)
        ],
        "steps": _steps(board, pack),
        "diagnosis": _diagnosis(board.diagnosis, pack),
    }


def fingerprint_rules() -> list[dict[str, str]]:
    """What each fingerprint name means, for a legend."""
    named = [{"name": r.name, "of": r.of, "when": r.when, "advice": r.advice} for r in RULES]
    otherwise = {NONE: "no rule holds", UNKNOWN: "the curve has unknown samples, or fewer than two"}
    return named + [
        {"name": name, "of": "any", "when": when, "advice": advice(name)} for name, when in otherwise.items()
    ]


def _plain(measures: Measures, by: Sequence[str]) -> list[Measured]:
    """What ``measure`` gives, without the rows among successes and failures, which take most of its time."""
    known = [c.name for c in measures.columns if np.any(~np.isnan(measures.values[c.name]))]
    return [
        Measured(group, name, measures.estimate(name, chosen))
        for group, chosen in groups(measures, by)
        for name in known
    ]


def _groups(
    measures: Measures, by: tuple[str, ...], measured: Sequence[Measured], pack: Pack, *, ranked: bool = True
) -> list[dict[str, Any]]:
    """A row per group; ranks are within the task where the groups are by task."""
    cells: dict[tuple[str | None, ...], dict[str, Estimate]] = {}
    for m in measured:
        cells.setdefault(tuple(m.group.values()), {})[m.metric] = m.estimate
    rows: list[dict[str, Any]] = []
    keys = []
    for group, chosen in groups(measures, by):
        keys.append(key := tuple(group.values()))
        rows.append(
            {
                "policy": group.get("policy"),
                "task": group.get("task"),
                "episodes": int(np.sum(chosen)),
                "cells": {name: pack(e) for name, e in cells.get(key, {}).items()},
                "ranks": {},
            }
        )
    tasks = {row["task"] for row in rows} if ranked else set()
    for task in tasks:
        inside = [place for place, row in enumerate(rows) if row["task"] == task]
        for column in measures.columns:
            if column.better == "neither" or not any(column.name in rows[i]["cells"] for i in inside):
                continue
            estimates = [cells[keys[i]].get(column.name) for i in inside]
            for place, rank in zip(inside, tied_ranks(estimates, column.better), strict=True):
                rows[place]["ranks"][column.name] = rank
    return rows


def _steps(board: Board, pack: Pack) -> list[dict[str, Any]]:
    criteria = _criteria(board.measures.episodes)
    return [
        {
            "task": made.group["task"],
            "policy": made.group["policy"],
            "source": made.source,
            "names": list(made.names),
            "criteria": [criteria.get((made.group["task"], name), "") for name in made.names],
            "reviewed": made.reviewed,
            "reached": [pack(e) for e in made.reached],
            "given_previous": [pack(e) for e in made.given_previous],
            "fails_first": [pack(e) for e in made.fails_first],
            "violations": pack(made.violations),
        }
        for made in subgoal_tables(board.runs, ("policy",))
    ]


def _criteria(episodes: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], str]:
    return {(e["task"], goal["name"]): goal["criterion"] or "" for e in episodes for goal in e["subgoals"]}


def _diagnosis(diagnosis: FailureModes, pack: Pack) -> dict[str, Any]:
    names = list(next(iter(diagnosis.z_scores.values()), {}))
    return {
        "source": diagnosis.source,
        "policies": [
            {
                "policy": p.policy,
                "failures": p.failures,
                "shares": {name: pack(e) for name, e in p.shares.items()},
                "stability": None if math.isnan(p.stability) else p.stability,
                "inefficient": pack(p.inefficient),
                "advice": p.advice,
            }
            for p in diagnosis.policies
        ],
        "z_metrics": names,
        "z": [[number(diagnosis.z_scores[p.policy][name]) for name in names] for p in diagnosis.policies],
    }
