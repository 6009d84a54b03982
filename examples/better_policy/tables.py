"""The results as ``table.md`` and ``table.json``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.better_policy.configurations import Configuration, frame_weights
from examples.better_policy.demonstrations import read_facts, read_record
from examples.better_policy.results import ALL, OUTCOMES, Best, Row
from examples.better_policy.setting import Setting
from stepscore.types import Estimate

KINDS = ("good", "wasteful", "failed")


def mean_weights(
    work: Path, setting: Setting, configs: Sequence[Configuration]
) -> dict[str, dict[str, float]]:
    """Return the mean weight of a frame of each kind of demonstration, by configuration; over all frames it is 1."""
    found: dict[str, dict[str, list[float]]] = {
        config.name: {kind: [] for kind in KINDS} for config in configs
    }
    for task in setting.tasks:
        owner, kinds = read_record(work / task).owner, np.array(read_facts(work / task).kinds)
        for config in configs:
            weights = frame_weights(work / task, config, owner, seed=0).weight
            for kind in KINDS:
                found[config.name][kind].append(float(weights[kinds[owner] == kind].mean()))
    return {
        config: {kind: float(np.mean(means)) for kind, means in row.items()} for config, row in found.items()
    }


def as_json(
    rows: Sequence[Row], best: Sequence[Best], weights: Mapping[str, Any], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything as JSON values; unknown is null."""
    return {
        "setting": dict(setting),
        "arms": [_plain_row(row) for row in rows],
        "best": [
            {
                "among": list(one.among),
                "arm": one.config.name,
                "chosen_on_seeds": list(one.chosen_on),
                "on_the_other_seeds": [_plain_row(row) for row in one.rows],
            }
            for one in best
        ],
        "mean_weight": dict(weights),
    }


def as_markdown(
    rows: Sequence[Row], best: Sequence[Best], weights: Mapping[str, Mapping[str, float]], setting: Setting
) -> str:
    """Return the tables as Markdown, in percent and percentage points with 95 % intervals."""
    trials = setting.seeds * setting.scenes
    return "\n".join(
        [
            f"{len(setting.tasks)} tasks, {setting.seeds} training seeds, {trials} scenes for each configuration and "
            "task.",
            "",
            *_over_all([row for row in rows if row.group == ALL], weights),
            "",
            *_by_task(rows, setting.tasks),
            "",
            *_best(best),
            "",
        ]
    )


def _over_all(rows: Sequence[Row], weights: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    outcomes = "success, % | to plain | to shuffled | subgoals, % | to plain"
    yield f"| configuration | {outcomes} | weight good / wasteful / failed |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        cells = (
            row.config.name,
            _percent(row.estimates["success"]),
            _points(row.to_plain.get("success")),
            _points(row.to_shuffled.get("success")),
            _percent(row.estimates["subgoals"]),
            _points(row.to_plain.get("subgoals")),
            " / ".join(f"{weights[row.config.name][kind]:.2f}" for kind in KINDS),
        )
        yield f"| {' | '.join(cells)} |"


def _by_task(rows: Sequence[Row], tasks: Sequence[str]) -> Iterator[str]:
    yield "Success, % (difference to plain and its interval):"
    yield ""
    yield f"| configuration | {' | '.join(tasks)} |"
    yield "|---|" + "---|" * len(tasks)
    found = {(row.config, row.group): row for row in rows}
    for config in dict.fromkeys(row.config for row in rows):
        cells = []
        for task in tasks:
            row = found[config, task]
            difference = f" ({_points(row.to_plain['success'])})" if row.to_plain else ""
            cells.append(f"{100 * row.estimates['success'].value:.1f}{difference}")
        yield f"| {config.name} | {' | '.join(cells)} |"


def _best(best: Sequence[Best]) -> Iterator[str]:
    if not best:
        return
    seeds = ", ".join(map(str, best[0].chosen_on))
    yield f"Best form, chosen on seeds {seeds}, measured on the others:"
    yield ""
    yield "| among | chosen | success, % | to plain | to shuffled |"
    yield "|---|---|---|---|---|"
    for one in best:
        row = one.rows[0]
        cells = (
            " and ".join(one.among),
            one.config.name,
            _percent(row.estimates["success"]),
            _points(row.to_plain.get("success")),
            _points(row.to_shuffled.get("success")),
        )
        yield f"| {' | '.join(cells)} |"


def _percent(estimate: Estimate) -> str:
    ends = "" if math.isnan(estimate.lo) else f" [{100 * estimate.lo:.1f}, {100 * estimate.hi:.1f}]"
    return f"{100 * estimate.value:.1f}{ends}"


def _points(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    ends = "" if math.isnan(estimate.lo) else f" [{100 * estimate.lo:+.1f}, {100 * estimate.hi:+.1f}]"
    return f"{100 * estimate.value:+.1f}{ends}"


def _plain_row(row: Row) -> dict[str, Any]:
    return {
        "group": row.group,
        "arm": row.config.name,
        **{name: _plain(row.estimates[name]) for name in OUTCOMES},
        **{f"{name}_to_plain": _plain(row.to_plain[name]) for name in OUTCOMES if row.to_plain},
        **{f"{name}_to_shuffled": _plain(row.to_shuffled[name]) for name in OUTCOMES if row.to_shuffled},
    }


def _plain(estimate: Estimate) -> dict[str, Any]:
    known = {name: getattr(estimate, name) for name in ("value", "lo", "hi")}
    return {
        **{name: None if math.isnan(value) else value for name, value in known.items()},
        "n": estimate.n,
        "clusters": estimate.clusters,
        "method": estimate.method,
    }
