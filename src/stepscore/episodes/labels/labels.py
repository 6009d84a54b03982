"""Labels: what people, simulators or annotators state about an episode.

Labels never change a source. They are one table with the columns ``episode_id, kind, name, start_s, end_s,
value, author, created`` (csv, jsonl or parquet), joined by ``open_episodes(source, labels=...)``.

=========  ======================  ==========================================  =====================
kind       name                    span                                        value
=========  ======================  ==========================================  =====================
success    ``ever`` or ``holds``   empty                                       1 or 0
subgoal    the subgoal's name      empty, or from when to when it was true     1 or 0
stage      the stage's name        when it ran                                 empty
progress   the potential's name    start_s = the timestamp                     0..1
=========  ======================  ==========================================  =====================

A later row overrides an earlier one of the same episode, kind, name and start, whoever wrote it. Of labels
joined to a source that has some of its own, new stages replace all earlier ones, and new progress of a name
replaces all earlier progress of that name; progress of several names is kept apart and read by name.
"""

from __future__ import annotations

import csv
import io
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from stepscore._untrusted import parse_json, read_text, shown
from stepscore.episodes.naming import safe_name, safe_text
from stepscore.episodes.parquet_files import read_parquet
from stepscore.errors import ManifestError, OptionError
from stepscore.types import FloatArray, SuccessMode

Kind = Literal["success", "subgoal", "stage", "progress"]
_ROWS_AT_A_TIME = 4096
COLUMNS = ("episode_id", "kind", "name", "start_s", "end_s", "value", "author", "created")


class Stage(NamedTuple):
    """A named span of an episode, in seconds."""

    name: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Label:
    """One row of the labels table, without the episode's id. NaN where a column is empty."""

    kind: Kind
    name: str
    start_s: float = math.nan
    end_s: float = math.nan
    value: float = math.nan
    author: str = ""
    created: str = ""


@dataclass(frozen=True)
class Labels:
    """The labels of one episode."""

    rows: tuple[Label, ...] = ()

    @property
    def success(self) -> bool | None:
        """Whether the episode succeeded; ``None`` where there is no label."""
        row = self._last("success")
        return None if row is None or math.isnan(row.value) else row.value >= 0.5

    @property
    def success_mode(self) -> SuccessMode | None:
        """Whether success means at some time or at the end; ``None`` where there is no success label."""
        row = self._last("success")
        return None if row is None else ("ever" if row.name == "ever" else "holds")

    def subgoal(self, name: str) -> bool | None:
        """Return whether a subgoal was reached; ``None`` where there is no label."""
        row = self._last("subgoal", name)
        return None if row is None or math.isnan(row.value) else row.value >= 0.5

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stage spans by start time."""
        spans = {
            (r.name, r.start_s): Stage(r.name, r.start_s, r.end_s) for r in self.rows if r.kind == "stage"
        }
        return tuple(sorted(spans.values(), key=lambda stage: stage.start_s))

    @property
    def potentials(self) -> tuple[str, ...]:
        """The names under which progress is labelled, in the order in which they first appear."""
        return tuple(dict.fromkeys(row.name for row in self.rows if row.kind == "progress"))

    def progress(self, name: str | None = None) -> tuple[FloatArray, FloatArray]:
        """Return times and values of labelled progress, by time; empty where there is none.

        Args:
            name: Name of the progress labels: ``potential`` (a simulator's truth), ``robust``, ``sarm``. By default
                the only one.

        Raises:
            OptionError: Progress is labelled under several names, and none is given: they are never mixed.
        """
        if name is None and len(self.potentials) > 1:
            listed = ", ".join(repr(potential) for potential in self.potentials)
            raise OptionError(
                f"The labels state progress under several names ({listed}). Name one: labels.progress(NAME)"
            )
        points = {r.start_s: r.value for r in self.rows if r.kind == "progress" and name in (None, r.name)}
        times = np.array(sorted(points), dtype=np.float64)
        return times, np.array([points[t] for t in times], dtype=np.float64)

    def with_rows(self, rows: Iterable[Label]) -> Labels:
        """Return these labels and ``rows``, which override earlier ones.

        New stages replace all earlier stages, and new progress of a name all earlier progress of that name: two
        authors' spans or curves must not be mixed.
        """
        new = tuple(rows)
        replaced = {("stage", "")} if any(row.kind == "stage" for row in new) else set()
        replaced |= {("progress", row.name) for row in new if row.kind == "progress"}
        kept = (r for r in self.rows if (r.kind, "" if r.kind == "stage" else r.name) not in replaced)
        return Labels((*kept, *new))

    def _last(self, kind: Kind, name: str | None = None) -> Label | None:
        return next((r for r in reversed(self.rows) if r.kind == kind and name in (None, r.name)), None)


def check_stages(stages: Iterable[Stage], where: str) -> tuple[Stage, ...]:
    """Return the stages; a ManifestError names the first that overlaps, is out of order or ends before it starts."""
    checked = tuple(stages)
    for number, stage in enumerate(checked):
        if not (math.isfinite(stage.start_s) and math.isfinite(stage.end_s)):
            raise ManifestError(f"{where}: stage {stage.name!r} has no finite start and end second.")
        if stage.end_s <= stage.start_s:
            raise ManifestError(
                f"{where}: stage {stage.name!r} runs from {stage.start_s:g} s to {stage.end_s:g} s; "
                "it must end after it starts."
            )
        before = checked[number - 1] if number else None
        # Annotators write the same second as end and start; a nanosecond of float noise is not an overlap.
        if before and stage.start_s < before.end_s - 1e-9:
            problem = "is out of order with" if stage.start_s < before.start_s else "overlaps"
            raise ManifestError(
                f"{where}: stage {stage.name!r} ({stage.start_s:g}..{stage.end_s:g} s) {problem} "
                f"{before.name!r} ({before.start_s:g}..{before.end_s:g} s)."
            )
    return checked


def read_labels(path: Path) -> Mapping[str, tuple[Label, ...]]:
    """Read labels by episode id from a csv, jsonl or parquet file; ManifestError names file, line and field."""
    if not os.path.exists(path):
        raise ManifestError(f"No labels file at {shown(path)}.")
    by_episode: dict[str, list[Label]] = defaultdict(list)
    for line, row in _rows(path):
        where = f"{path}, row {line}"
        extra = [str(name) for name in row if name not in COLUMNS]
        if extra or row.get("episode_id") in (None, ""):
            wrong = f"unknown column {shown(extra[0])!r}" if extra else "no episode_id"
            raise ManifestError(f"{where}: {wrong}. Columns: {', '.join(COLUMNS)}.")
        if row.get("kind") not in get_args(Kind):
            raise ManifestError(
                f"{where}: kind is {shown(str(row.get('kind')))!r}. Allowed: {', '.join(get_args(Kind))}."
            )
        by_episode[safe_name(str(row["episode_id"]))].append(_label(row, where))
    for episode_id, labels in by_episode.items():
        check_stages(Labels(tuple(labels)).stages, f"{path}, episode {episode_id}")
    return {episode_id: tuple(rows) for episode_id, rows in by_episode.items()}


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    if path.suffix == ".parquet":
        batches = read_parquet(path, ManifestError).to_batches(max_chunksize=_ROWS_AT_A_TIME)
        yield from enumerate((row for batch in batches for row in batch.to_pylist()), start=1)
        return
    text = read_text(path, ManifestError)
    if path.suffix == ".csv":
        table = csv.DictReader(io.StringIO(text, newline=""), restkey="(none)")
        try:
            yield from enumerate(table, start=1)
            unknown = [name for name in table.fieldnames or () if name not in COLUMNS]
            if unknown:  # without rows, for which the caller would have said so
                raise ManifestError(
                    f"{path}: unknown column {shown(unknown[0])!r}. Columns: {', '.join(COLUMNS)}."
                )
        except csv.Error as error:
            raise ManifestError(f"{path}, line {table.line_num}: not csv ({error}).") from error
    elif path.suffix == ".jsonl":
        for line, content in enumerate(text.split("\n"), start=1):
            if content.strip():
                yield line, _json_object(content, f"{path}, row {line}")
    else:
        raise ManifestError(f"{path}: labels are .csv, .jsonl or .parquet, not {path.suffix!r}.")


def _json_object(text: str, where: str) -> Mapping[str, object]:
    row = parse_json(text, where, ManifestError)
    if not isinstance(row, dict):
        raise ManifestError(f"{where}: expected an object, got {text.strip()[:40]!r}.")
    return row


def _label(row: Mapping[str, object], where: str) -> Label:
    def number(field: str) -> float:
        value = row.get(field)
        if value is None or value == "":
            return math.nan
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return float(value.lower() == "true")
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            raise ManifestError(f"{where}: {field} is {str(value)[:40]!r}, not a number.") from None

    kind, name, value = row["kind"], safe_text(str(row.get("name") or "")), number("value")
    if kind == "progress" and not (math.isnan(value) or 0.0 <= value <= 1.0):
        raise ManifestError(f"{where}: value of a progress label is {value:g}; allowed is 0..1.")
    if kind in ("success", "subgoal") and not (math.isnan(value) or value in (0.0, 1.0)):
        raise ManifestError(f"{where}: value of a {kind} label is {value:g}; allowed are 0, 1 and empty.")
    if kind == "success" and name not in ("", "ever", "holds"):
        raise ManifestError(f"{where}: name of a success label is {name!r}. Allowed: ever, holds.")
    if kind in ("subgoal", "stage") and not name:
        raise ManifestError(f"{where}: a {kind} label needs a name.")
    if kind == "progress" and not math.isfinite(number("start_s")):
        raise ManifestError(f"{where}: a progress label needs start_s, its timestamp.")
    return Label(
        kind=kind,  # type: ignore[arg-type]
        name=name,
        start_s=number("start_s"),
        end_s=number("end_s"),
        value=value,
        author=str(row.get("author") or ""),
        created=str(row.get("created") or ""),
    )
