"""Leaderboards, subgoal tables and failure modes as the page holds them: one leaderboard per protocol.

Every number comes from :mod:`stepscore.analysis`, so the page shows what ``stepscore metrics --json`` prints for
the same runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from stepscore._options import SceneChoice
from stepscore._progress import track
from stepscore.analysis import (
    EpisodeMetrics,
    FailureModes,
    GroupEstimate,
    episode_groups,
    failure_modes_by_policy,
    grouped_estimates,
    measure_episodes,
    policy_metrics,
    scope_text,
    subgoal_tables,
)
from stepscore.judges import BASELINES
from stepscore.metrics import FAILURE_MODES, NO_FAILURE_MODE, UNKNOWN_FAILURE_MODE, failure_mode_advice
from stepscore.report.page import columns, table_types
from stepscore.report.page.packing import Table
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate

Pack = Callable[[Estimate], columns.Est]


def estimate_packer(methods: Table[str]) -> Pack:
    """Return a function that packs an Estimate, its method as an index into ``methods``."""

    def pack(e: Estimate) -> columns.Est:
        return columns.Est(
            finite_or_none(e.value),
            finite_or_none(e.lo),
            finite_or_none(e.hi),
            e.n,
            e.clusters,
            finite_or_none(e.coverage),
            methods.number(e.method),
        )

    return pack


@dataclass(frozen=True)
class Leaderboard:
    """The runs of one protocol, measured together.

    Attributes:
        runs: The runs, in the order given.
        numbers: The index of each among all runs of the page.
        judged: The metrics of every episode, run by run, as the judge gave them: what the judge is checked by.
        metrics: The same for policies: see :func:`stepscore.analysis.policy_metrics`.
        counted: These without episodes that an earlier run of the leaderboard holds: what is averaged.
        failure_modes: The failure mode of every episode.
        diagnosis: How the policies fail, each episode counted once.
        done_at: Progress that counts as done, if it was given.
    """

    runs: tuple[Run, ...]
    numbers: tuple[int, ...]
    judged: EpisodeMetrics
    metrics: EpisodeMetrics
    counted: EpisodeMetrics
    failure_modes: FailureModes
    diagnosis: FailureModes
    done_at: float | None = None

    def slices(self) -> list[slice]:
        """Return the rows of ``metrics`` that belong to each run."""
        ends = np.cumsum([run.judgements().num_rows for run in self.runs]).tolist()
        return [slice(start, end) for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def open_leaderboards(
    runs: Sequence[Run],
    revision: str,
    done_at: float | None = None,
    scenes: SceneChoice = "auto",
) -> list[Leaderboard]:
    """Group the runs by protocol, in order of first appearance, and measure each group once."""
    by_hash: dict[str, list[int]] = {}
    for place, run in enumerate(runs):
        by_hash.setdefault(run.protocol.hash, []).append(place)
    leaderboards = []
    for places in by_hash.values():
        chosen = tuple(runs[place] for place in places)
        judged = measure_episodes(
            chosen, revision=revision, keep_repeated=True, done_at=done_at, scenes=scenes
        )
        metrics = policy_metrics(judged)
        counted, modes = metrics.counted_once(), failure_modes_by_policy(metrics)
        diagnosis = failure_modes_by_policy(counted) if metrics.repeated else modes
        leaderboards.append(
            Leaderboard(chosen, tuple(places), judged, metrics, counted, modes, diagnosis, done_at)
        )
    return leaderboards


def leaderboard_tables(leaderboard: Leaderboard, label: str, pack: Pack) -> table_types.LeaderboardTables:
    """Return the tables of a leaderboard."""
    run, metrics = leaderboard.runs[0], leaderboard.counted
    overall = grouped_estimates(metrics, ("policy",))
    by_task = _plain(metrics, ("task", "policy"))
    pooled = [(by, _plain(metrics, by)) for by in (("task",), ())]
    return {
        "id": run.protocol.hash,
        "label": label,
        "judge": run.judge,
        "model": run.model,
        "protocol": run.protocol.hash,
        "baseline": run.judge in BASELINES,
        "runs": list(leaderboard.numbers),
        "scope": scope_text(row.fixed_scenes for row in overall),
        "overall": _groups(metrics, ("policy",), overall, pack),
        "by_task": _groups(metrics, ("task", "policy"), by_task, pack),
        "all": [
            {**group, "pooled": True}
            for by, estimates in pooled
            for group in _groups(metrics, by, estimates, pack, ranked=False)
        ],
        "subgoals": _subgoals(leaderboard, pack),
        "diagnosis": _diagnosis(leaderboard.diagnosis, pack),
    }


def failure_mode_rules() -> list[table_types.FailureModeRule]:
    """Return the meaning of each failure mode's name, for a legend."""
    named: list[table_types.FailureModeRule] = [
        {"name": r.name, "of": r.of, "when": r.when, "advice": r.advice} for r in FAILURE_MODES
    ]
    otherwise = {
        NO_FAILURE_MODE: "a success in good time",
        UNKNOWN_FAILURE_MODE: "the curve has unknown samples, or fewer than two",
    }
    return named + [
        {"name": name, "of": "any", "when": when, "advice": failure_mode_advice(name)}
        for name, when in otherwise.items()
    ]


def _plain(metrics: EpisodeMetrics, by: Sequence[str]) -> list[GroupEstimate]:
    """Measure without the rows among successes and failures, which take most of ``grouped_estimates``'s time."""
    known = [c.name for c in metrics.columns if np.any(~np.isnan(metrics.values[c.name]))]
    groups = list(episode_groups(metrics, by))
    return [
        GroupEstimate(group, name, metrics.estimate(name, chosen))
        for group, chosen in track(groups, f"Estimating by {' and '.join(by) or 'all'}", len(groups))
        for name in known
    ]


def _groups(
    metrics: EpisodeMetrics,
    by: tuple[str, ...],
    group_estimates: Sequence[GroupEstimate],
    pack: Pack,
    *,
    ranked: bool = True,
) -> list[table_types.Group]:
    """Return the groups of a table; ranks are within the task where the groups are by task."""
    cells: dict[tuple[str | None, ...], dict[str, Estimate]] = {}
    for m in group_estimates:
        cells.setdefault(tuple(m.group.values()), {})[m.metric] = m.estimate
    rows: list[table_types.Group] = []
    keys = []
    for group, chosen in episode_groups(metrics, by):
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
        for column in metrics.columns:
            if column.better == "neither" or not any(column.name in rows[i]["cells"] for i in inside):
                continue
            estimates = [cells[keys[i]].get(column.name) for i in inside]
            for place, rank in zip(inside, tied_ranks(estimates, column.better), strict=True):
                rows[place]["ranks"][column.name] = rank
    return rows


def _subgoals(leaderboard: Leaderboard, pack: Pack) -> list[table_types.SubgoalTable]:
    criteria = _criteria(leaderboard.metrics.episodes)
    return [
        {
            "task": table.group["task"],
            "policy": table.group["policy"],
            "source": table.source,
            "names": list(table.names),
            "criteria": [criteria.get((table.group["task"], name), "") for name in table.names],
            "reviewed": table.reviewed,
            "reached": [pack(e) for e in table.reached],
            "given_previous": [pack(e) for e in table.given_previous],
            "fails_first": [pack(e) for e in table.fails_first],
            "violations": pack(table.violations),
        }
        for table in subgoal_tables(
            leaderboard.runs,
            ("policy",),
            left_out=leaderboard.metrics.repeated,
            scenes=leaderboard.metrics.scenes,
        )
    ]


def _criteria(episodes: Iterable[Mapping[str, Any]]) -> dict[tuple[str | None, str], str]:
    return {(e["task"], goal["name"]): goal["criterion"] or "" for e in episodes for goal in e["subgoals"]}


def _diagnosis(modes: FailureModes, pack: Pack) -> table_types.Diagnosis:
    names = list(next(iter(modes.z_scores.values()), {}))
    return {
        "source": modes.source,
        "policies": [
            {
                "policy": p.policy,
                "failures": p.failures,
                "shares": {name: pack(e) for name, e in p.shares.items()},
                "stability": None if math.isnan(p.stability) else p.stability,
                "slow": pack(p.slow),
                "advice": p.advice,
            }
            for p in modes.policies
        ],
        "z_metrics": names,
        "z": [[finite_or_none(modes.z_scores[p.policy][name]) for name in names] for p in modes.policies],
    }


def tied_ranks(
    estimates: Sequence[Estimate | None], better: Literal["higher", "lower"]
) -> list[columns.Rank]:
    """Return the best and the worst rank each group may take.

    A group is surely better than another if its whole interval is. The best rank is 1 + the groups surely better, the
    worst is the number of groups minus those surely worse. A group without an interval is tied with all others; one
    without a value has no rank.

    >>> from stepscore.metrics.stats import rate_estimate
    >>> tied_ranks([rate_estimate([0, 1] * 50), rate_estimate([1] * 100)], "higher")
    [Places(best=2, worst=2), Places(best=1, worst=1)]
    """
    ends = [_ends(estimate, better) for estimate in estimates]
    known = [end for end in ends if end is not None]
    ranks: list[columns.Rank] = []
    for end in ends:
        if end is None:
            ranks.append(None)
            continue
        above = sum(other[0] > end[1] for other in known)
        below = sum(other[1] < end[0] for other in known)
        ranks.append(columns.Places(1 + above, len(known) - below))
    return ranks


def _ends(estimate: Estimate | None, better: str) -> tuple[float, float] | None:
    """Return the interval with higher as better; unbounded if there is none; ``None`` without a value."""
    if estimate is None or math.isnan(estimate.value):
        return None
    if math.isnan(estimate.lo) or math.isnan(estimate.hi):
        return -math.inf, math.inf
    return (estimate.lo, estimate.hi) if better == "higher" else (-estimate.hi, -estimate.lo)
