"""The formats in which other tools write progress, one pure function each. ``docs/judges/recorded.md`` lists them.

A parser repeats what the file states: one value per row, NaN if the file has none, nothing added, filled
or rescaled. A cell that is not a number is a CurveError that names file, row and column.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from stepscore.episodes.readers import ABSENT, EPISODE_COLUMNS, Rows, is_empty
from stepscore.errors import CurveError
from stepscore.judges.recorded.verdicts import VERDICT_COLUMNS, parse_success_score, parse_verdicts
from stepscore.types import FloatArray, IntArray, Verdict

MAX_TIME_S = 1e9
"""Latest time of a row, in seconds: 31 years."""

_KEYS = ("episode_id", "episode_index", "index")
# The author of a file with one of these columns did not mean its times to be reconstructed.
_NEARLY_TIMES = (
    "time",
    "times",
    "t",
    "timestamp",
    "timestamps",
    "seconds",
    "frame_idx",
    "frame_id",
    "frames",
)


@dataclass(frozen=True)
class RecordedCurve:
    """A file's curve and verdicts of one episode.

    Attributes:
        values: Progress as written, one per row, NaN if unknown; ``None`` if the file has no curve.
        times: Seconds of each row, strictly increasing; ``None`` if the file does not say.
        frames: Frame number of each row, strictly increasing; ``None`` if the file does not say.
        channels: Other series, one value per row.
        rows: Each row's number in the file, for messages.
        verdicts: One per subgoal.
        success_score: 0..1, NaN if the file does not say.
    """

    values: FloatArray | None = None
    times: FloatArray | None = None
    frames: IntArray | None = None
    channels: Mapping[str, FloatArray] = field(default_factory=dict)
    rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    verdicts: tuple[Verdict, ...] = ()
    success_score: float = math.nan


def parse_rows(rows: Rows, column: str | None = None) -> RecordedCurve:
    """Return the curve in the rows of one episode; the format is recognized by its columns."""
    if not len(rows):
        raise CurveError(f"{rows.path} has no rows.")
    if column is not None and column not in rows.columns:
        close = difflib.get_close_matches(column, rows.columns, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise CurveError(f"{rows.path} has no column {column!r}.{hint} It has: {_listed(rows)}.")
    if "progress" not in rows.columns:
        if "StepProgress" in rows.columns:
            return parse_step_metrics(rows, column)
        if "progress_sparse" in rows.columns or "progress_dense" in rows.columns:
            return parse_lerobot_progress(rows, column)
    return parse_plain(rows, column)


def parse_step_metrics(rows: Rows, column: str | None = None) -> RecordedCurve:
    """Parse ``step_metrics.csv`` of PRM-as-a-Judge v1.0: ``Step`` 1..T and ``StepProgress``, no times.

    The other columns, metrics of the prefix up to each row and the episode's label, are not read here.
    """
    if "Step" in rows.columns:
        steps = rows.floats("Step")
        wrong = np.flatnonzero(steps != np.arange(1, len(rows) + 1))
        if len(wrong):
            row = int(wrong[0])
            raise CurveError(
                f"{rows.at(row)}: Step is {steps[row]:g}, expected {row + 1}. Rows are one per sample, in "
                "order; a missing one would shift the times of all after it."
            )
    return RecordedCurve(_finite(rows, column or "StepProgress"), rows=rows.numbers)


def parse_lerobot_progress(rows: Rows, column: str | None = None) -> RecordedCurve:
    """Parse LeRobot's progress file: ``frame_index`` and ``progress_sparse``, perhaps ``progress_dense``.

    Progress is the sparse head; the other head is the channel ``dense`` (or ``sparse``). LeRobot's TOPReward
    script scales each episode to 0..1 by its own minimum and maximum, so that every failure reaches 1: its
    files (they state ``vlm_name``) give the channel ``minmax`` and no progress, unless ``column`` names it.
    """
    if "frame_index" not in rows.columns:
        raise CurveError(
            f"{rows.path} has no column 'frame_index', so its rows cannot be placed in the episode."
        )
    chosen = column or "progress_sparse"
    if chosen not in rows.columns:
        raise CurveError(
            f"{rows.path} has no column {chosen!r}; choose another head: -J column=progress_dense"
        )
    values = _finite(rows, chosen)
    channels = _channels(rows, ("frame_index", "progress_sparse", "progress_dense", chosen))
    for head in ("sparse", "dense"):
        name = f"progress_{head}"
        if name in rows.columns and name != chosen:
            channels[head] = rows.floats(name)
    if column is None and "vlm_name" in rows.metadata:
        channels["minmax"], values = values, np.full(len(rows), math.nan)
    return RecordedCurve(values, None, _frames(rows, "frame_index"), channels, rows.numbers)


def parse_plain(rows: Rows, column: str | None = None) -> RecordedCurve:
    """Parse a plain table: ``progress``, one of ``time_s`` and ``frame``, verdict rows, ``success_score``.

    LeRobot's ``frame_index`` is taken for ``frame``, and ``time_s`` before both.
    A row with a ``subgoal`` is a verdict; of the others, each that has the progress column is a point.
    """
    chosen = column or "progress"
    if not {chosen, "subgoal", "success_score"} & set(rows.columns):
        raise CurveError(
            f"{rows.path} has no column 'progress', 'subgoal' or 'success_score'. It has: "
            f"{_listed(rows)}. Name the column that is progress: -J column=NAME"
        )
    verdicts, success_score = parse_verdicts(rows, chosen), parse_success_score(rows)
    points = _points(rows, chosen)
    if points is None:
        return RecordedCurve(verdicts=verdicts, success_score=success_score)
    by = next((name for name in ("time_s", "frame", "frame_index") if name in points.columns), None)
    near = next((name for name in points.columns if name.lower() in _NEARLY_TIMES), None)
    if by is None and near is not None:
        raise CurveError(
            f"{rows.path} has no column 'time_s' or 'frame', but {near!r}. Rename it: time_s is seconds from "
            "the episode's first frame, frame is the frame's number from 0."
        )
    return RecordedCurve(
        values=_finite(points, chosen),
        times=_times(points) if by == "time_s" else None,
        frames=_frames(points, by) if by in ("frame", "frame_index") else None,
        channels=_channels(points, ("progress", chosen, "success_score", by)),
        rows=points.numbers,
        verdicts=verdicts,
        success_score=success_score,
    )


def _listed(rows: Rows) -> str:
    names = ", ".join(name[:80] for name in islice(rows.columns, 50))
    return names if len(rows.columns) <= 50 else f"{names} and {len(rows.columns) - 50} more"


def _points(rows: Rows, progress: str) -> Rows | None:
    """Return the rows that are points of the curve; ``None`` if there are none."""
    cells = rows.cells(progress) if progress in rows.columns else [ABSENT] * len(rows)
    kept: list[int] = []
    for row, (cell, subgoal, score) in enumerate(zip(cells, *_verdict_cells(rows), strict=True)):
        if not is_empty(subgoal):
            continue
        if cell is not ABSENT:
            kept.append(row)
        elif is_empty(score):
            raise CurveError(f"{rows.at(row)}: has no {progress!r}, 'subgoal' or 'success_score'.")
    if len(kept) == len(rows):
        return rows
    return rows.take(np.array(kept)) if kept else None


def _verdict_cells(rows: Rows) -> list[Sequence[object]]:
    absent = [ABSENT] * len(rows)
    return [rows.cells(name) if name in rows.columns else absent for name in ("subgoal", "success_score")]


def parse_pred_vllm(items: object, path: Path) -> RecordedCurve:
    """Parse ``pred_vllm.json`` of PRM-as-a-Judge and Robo-Dopamine: a list with one object per sample.

    Each has ``progress``, ``hop`` (a channel), ``pred`` (the model's answer) and an ``id`` that ends in
    ``af_000030``, the number of the judged frame; a list of bare numbers is read too. Where ``pred`` holds no
    score the published code continues with a score of 0, which in its backward mode is progress 1: there
    progress is unknown, and the number in the file is kept in the channel ``written``.
    """
    if not isinstance(items, list) or not items:
        raise CurveError(f"{path}: expected a list with one entry per sample, got {str(items)[:40]!r}.")
    rows = [entry if isinstance(entry, dict) else {"progress": entry} for entry in items]
    names = ("progress", "hop", "frame")
    columns = {name: [_pred_cell(row, name) for row in rows] for name in names}
    table = Rows(path, columns, np.arange(1, len(rows) + 1))
    missing = next((row for row, cell in enumerate(columns["progress"]) if cell is ABSENT), None)
    if missing is not None:
        raise CurveError(f"{table.at(missing)}: no 'progress'.")
    written = _finite(table, "progress")
    broken = np.array(["pred" in row and not _has_score(row["pred"]) for row in rows])
    channels = {} if table.is_text("hop") else {"hop": table.floats("hop")}
    if np.any(broken & ~np.isnan(written)):
        channels["written"] = written
    stated = np.array([cell is not ABSENT for cell in columns["frame"]])
    frames = _frames(table, "frame") if np.any(stated) else None
    return RecordedCurve(np.where(broken, math.nan, written), None, frames, channels, table.numbers)


def _pred_cell(row: Mapping[str, object], name: str) -> object:
    if name == "progress" and row.get(name) == "Error":  # what Robo-Dopamine's evaluation writes on failure
        return None
    if name != "frame":
        return row.get(name, ABSENT)
    images = row.get("image")
    after = images[5] if isinstance(images, list) and len(images) == 8 else ""
    number = re.search(r"af_(\d{1,12})$", str(row.get("id", ""))) or re.search(
        r"frame_(\d{1,12})\.png$", str(after)
    )
    return int(number[1]) if number else ABSENT


def _has_score(answer: object) -> bool:
    """Return whether an answer holds a score, parsed as the published code does (but nan is not a score)."""
    text = str(answer).split("<score>")[-1].split("</score>")[0].replace("%", "").strip()
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _finite(rows: Rows, name: str) -> FloatArray:
    values = rows.floats(name)
    wrong = np.flatnonzero(np.isinf(values))
    if len(wrong):
        raise CurveError(
            f"{rows.at(int(wrong[0]))}, column {name}: infinite; expected a finite number or none."
        )
    return values


def _times(rows: Rows) -> FloatArray:
    times = rows.floats("time_s")
    wrong = np.flatnonzero(~np.isfinite(times) | (times < 0) | (times > MAX_TIME_S))
    if len(wrong):
        row = int(wrong[0])
        raise CurveError(
            f"{rows.at(row)}: time_s is {times[row]:g}; expected seconds, 0 or more, in every row."
        )
    _check_increasing(rows, "time_s", times)
    return times


def _frames(rows: Rows, name: str) -> IntArray:
    frames = rows.floats(name)
    wrong = np.flatnonzero(
        ~np.isfinite(frames) | (frames < 0) | (frames != np.floor(frames)) | (frames > 1e12)
    )
    if len(wrong):
        row = int(wrong[0])
        raise CurveError(
            f"{rows.at(row)}: {name} is {frames[row]:g}; expected an integer of at least 0 in every row."
        )
    _check_increasing(rows, name, frames)
    return frames.astype(np.int64)


def _check_increasing(rows: Rows, name: str, values: FloatArray) -> None:
    wrong = np.flatnonzero(np.diff(values) <= 0)
    if len(wrong):
        row = int(wrong[0]) + 1
        raise CurveError(
            f"{rows.at(row)}: {name} {values[row]:g} does not come after {values[row - 1]:g} in the row "
            "before. Rows must be in order of time, each time once."
        )


def _channels(rows: Rows, used: Iterable[str | None]) -> dict[str, FloatArray]:
    """Return every further numeric column. Text columns are left out; one that mixes both is an error."""
    taken = {*used, *_KEYS, *EPISODE_COLUMNS}
    if "subgoal" in rows.columns:
        taken |= set(VERDICT_COLUMNS)
    return {name: rows.floats(name) for name in rows.columns if name not in taken and not rows.is_text(name)}
