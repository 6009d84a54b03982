"""The episodes of all runs, each once, as columns of the page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.report.page import columns
from stepscore.report.page.packing import Table, dictionary, pack_floats
from stepscore.runs import finite_or_none

Key = tuple[str, str]


@dataclass(frozen=True)
class EpisodeIndex:
    """The episodes of some runs, each once: their rows by source and id, and the index of each row."""

    rows: tuple[Mapping[str, Any], ...]
    places: Mapping[Key, int]

    def place(self, row: Mapping[str, Any]) -> int:
        """Return the index of an episode's row."""
        return self.places[_key(row)]


def index_episodes(judged: Iterable[Mapping[str, Any]]) -> EpisodeIndex:
    """Collect the episodes of all runs; the row of each is that of the first run that has it."""
    rows: dict[Key, Mapping[str, Any]] = {}
    for row in judged:
        rows.setdefault(_key(row), row)
    order = sorted(rows)
    return EpisodeIndex(tuple(rows[key] for key in order), {key: place for place, key in enumerate(order)})


def episode_table(index: EpisodeIndex, names: Table[str], *, paged: bool = False) -> columns.EpisodeTable:
    """Return the episodes as columns; ``paged`` if stages are kept in parts."""
    rows = index.rows
    ids = [row["episode_id"] for row in rows]
    sources = sorted({row["source"] for row in rows})
    numbers = {name: number for number, name in enumerate(sources)}
    keys = [f"{numbers[row['source']]}:{row['episode_id']}" for row in rows]
    lists = Table[tuple[tuple[Any, ...], ...]]()
    subgoals = [_subgoal_list(row, lists) for row in rows]
    stages = [
        columns.StageSpan(
            place,
            names.number(stage["name"]),
            number_or_none(stage["start_s"]),
            number_or_none(stage["end_s"]),
        )
        for place, row in enumerate(() if paged else rows)
        for stage in row["stages"]
    ]

    def column(name: str) -> columns.Dict:
        return dictionary(row[name] for row in rows)

    return {
        "n": len(rows),
        "id": ids,
        "key": None if len(set(ids)) == len(ids) else keys,
        "source": column("source"),
        "task": column("task"),
        "policy": column("policy"),
        "robot": column("robot"),
        "dataset": column("dataset"),
        "instruction": column("instruction"),
        "pair": column("pair"),
        "success_mode": column("success_mode"),
        "success": [-1 if row["success"] is None else int(row["success"]) for row in rows],
        "duration_s": pack_floats(
            [np.nan if row["duration_s"] is None else row["duration_s"] for row in rows]
        ),
        "stages": stages,
        "stage_names": names.rows,
        "subgoal_lists": [
            [
                {"name": name, "criterion": criterion, "mode": mode, "view": view, "reviewed": reviewed}
                for name, criterion, mode, view, reviewed in goals
            ]
            for goals in lists.rows
        ],
        "subgoals": subgoals,
        "subgoal_labels": [_labels(row) for row in rows],
    }


_GOAL = ("name", "criterion", "mode", "view", "reviewed")


def _subgoal_list(row: Mapping[str, Any], lists: Table[tuple[tuple[Any, ...], ...]]) -> int:
    goals = tuple(tuple(goal[part] for part in _GOAL) for goal in row["subgoals"])
    return lists.number(goals) if goals else -1


def _labels(row: Mapping[str, Any]) -> str:
    return "".join("?" if goal["label"] is None else str(int(goal["label"])) for goal in row["subgoals"])


def number_or_none(value: float | None) -> float | None:
    """Return the value, or ``None`` if it is missing or not finite."""
    return None if value is None else finite_or_none(value)


def _key(row: Mapping[str, Any]) -> Key:
    return row["source"], row["episode_id"]
