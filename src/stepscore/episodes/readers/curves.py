"""A table of curves as a source: the progress of many episodes, and no video.

A ``.csv``, ``.jsonl`` or ``.parquet`` file with the columns ``episode_id`` and ``progress`` (or verdicts), as
the ``recorded`` judge reads it, and any of ``instruction, task, policy, robot, dataset, pair, success``, each
the same in all rows of an episode.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stepscore._untrusted import shown
from stepscore.episodes.episode import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.episodes.readers.curve_groups import GroupedRows, PagedRows, constant_cells, grouped_rows
from stepscore.episodes.readers.curve_rows import SUFFIXES, Rows, column_names, is_empty
from stepscore.episodes.source import Listing, ReadOptions
from stepscore.errors import CurveError, ManifestError, OptionError

EPISODE_COLUMNS = ("instruction", "task", "policy", "robot", "dataset", "pair", "success")
"""Columns that describe an episode. They may be empty in some of its rows, and must agree in the others."""

Fields = Mapping[str, str | None]
"""What the columns state of an episode; ``None`` where they are empty."""

_SUCCESS = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0}


class CurvesReader:
    """Tables of curves; each ``episode_id`` is an episode without video."""

    def matches(self, path: Path) -> bool:
        """Return whether ``path`` is a table with the columns of curves or verdicts; reads only its header."""
        if path.suffix.lower() not in SUFFIXES or not os.path.isfile(path):
            return False
        try:
            names = set(column_names(path))
        except (CurveError, OSError):
            return False
        return "episode_id" in names and ("progress" in names or {"subgoal", "answer"} <= names)

    def read(self, path: Path, options: ReadOptions) -> Listing:
        """List the episodes of the table, by id. Their curves are read when they are judged."""
        if options.policy_from is not None:
            raise OptionError(f"{path} has no folders to take a policy from; give it a column 'policy'.")
        try:
            if "episode_id" not in column_names(path):
                raise CurveError(
                    f"{path} has no column 'episode_id'. It has: {shown(', '.join(column_names(path)[:50]))}."
                )
            table = grouped_rows(path, "episode_id")
        except CurveError as error:
            raise ManifestError(str(error)) from error
        missing = [name for name in EPISODE_COLUMNS if name not in table.rows.columns]
        stated = [name for name in EPISODE_COLUMNS if name in table.rows.columns]
        episodes = _episodes(path, table, stated)
        rules = (
            "Each episode_id of the table is an episode without video; the judge 'recorded' reads its curve.",
            f"Taken from columns: {', '.join(stated) or 'nothing'}. "
            f"Not stated: {', '.join(missing) or 'nothing'}.",
        )
        return Listing(episodes, rules=rules)


def _episodes(path: Path, table: GroupedRows, stated: Sequence[str]) -> list[Episode]:
    """Return the episodes by id; one whose rows contradict each other holds the error, unless all do."""
    episodes: list[Episode] = []
    first: ManifestError | None = None
    described = _described(table, stated)
    for name in sorted(table):
        try:
            fields = described.get(name) or _fields(path, name, table, stated)
            episodes.append(_episode(path, name, fields))
        except ManifestError as error:
            first = first or error
            episodes.append(Episode(id=name, instruction="", source=str(path), error=str(error)))
    if first is not None and all(episode.error for episode in episodes):
        raise first
    return episodes


def _described(table: GroupedRows, stated: Sequence[str]) -> dict[str, Fields]:
    """Return what the columns of a large table state of each episode, except episodes that contradict themselves."""
    if not isinstance(table.rows, PagedRows):
        return {}
    codes = np.empty(len(table.rows), dtype=np.int64)
    for code, places in enumerate(table.groups.values()):
        codes[places] = code
    columns, contradicting = constant_cells(table.rows, codes, len(table), stated, _text)
    return {
        name: {column: columns[column][code] for column in stated}
        for code, name in enumerate(table)
        if code not in contradicting
    }


def _fields(path: Path, name: str, table: GroupedRows, stated: Sequence[str]) -> Fields:
    if isinstance(table.rows, PagedRows):
        rows = table.of(name)
    else:
        chosen = {column: table.rows.columns[column] for column in stated}
        rows = Rows(path, chosen, table.rows.numbers).take(table.groups[name])
    return {column: _constant(rows, column, name) for column in stated}


def _episode(path: Path, name: str, fields: Fields) -> Episode:
    success = fields.get("success")
    labels = Labels()
    if success is not None:
        if success.lower() not in _SUCCESS:
            raise ManifestError(
                f"{path}, episode {name}: success is {success[:200]!r}. Allowed: 1, 0, true, false."
            )
        labels = Labels((Label("success", "holds", value=_SUCCESS[success.lower()]),))
    return Episode(
        id=name,
        instruction=fields.get("instruction") or "",
        source=str(path),
        task=fields.get("task"),
        policy=fields.get("policy"),
        robot=fields.get("robot"),
        dataset=fields.get("dataset"),
        pair=fields.get("pair"),
        labels=labels,
        recorded=(path,),
    )


def _constant(rows: Rows, column: str, episode: str) -> str | None:
    """Return the value of a column in the rows of an episode; ``None`` where all are empty."""
    values = {_text(cell) for cell in rows.cells(column) if not is_empty(cell)}
    if len(values) > 1:
        first, second = (value[:200] for value in sorted(values)[:2])
        raise ManifestError(
            f"{rows.path}, episode {episode}: column {column} is both {first!r} and {second!r}; it describes "
            "the episode, so it must be the same in all its rows."
        )
    return values.pop() if values else None


def _text(cell: object) -> str:
    """Return a cell as text; an integral float as 12, not 12.0."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
