"""Figures in tables: a row for each judge, a column for each measure, every cell an estimate with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.embedded.figures import Units, average, number, over_points
from benchmarks.embedded.measures.success import fast_auc
from benchmarks.sarm.judgements import Prediction
from benchmarks.sarm.videos import MatchedVideo, Video
from stepscore.types import Estimate

SUCCESSES, FAILURES, ALL = "MAE, successes", "MAE, failures", "MAE, all"
STAGE, VOC, AUC = "stage accuracy", "VOC, successes", "success AUC"


@dataclass(frozen=True)
class Cell:
    """One figure of a table.

    Attributes:
        table: Heading of its table.
        row: The judge, or the group of episodes.
        column: The metric.
        estimate: Its value, interval and n.
    """

    table: str
    row: str
    column: str
    estimate: Estimate

    def plain(self) -> dict[str, Any]:
        """Return it as JSON values; null where unknown."""
        e = self.estimate
        return {
            "table": self.table,
            "row": self.row,
            "column": self.column,
            **{name: number(getattr(e, name)) for name in ("value", "lo", "hi", "coverage")},
            "n": e.n,
            "clusters": e.clusters,
            "method": e.method,
        }


Predictions = Mapping[str, Prediction]
"""A judge's predictions, by the video's id."""


def units_of(videos: Sequence[Video]) -> Units:
    """Return scenes and tasks of videos."""
    return Units([video.pair for video in videos], [video.task for video in videos])


def mean_over(videos: Sequence[Video], value: Callable[[Video], float]) -> Estimate:
    """Return the mean of a value over videos, scenes as clusters and tasks as strata."""
    return average([value(video) for video in videos], units_of(videos))


def error_cells(table: str, row: str, predictions: Predictions, videos: Sequence[Video]) -> list[Cell]:
    """Return the error to the potential, successes and failures apart."""
    predicted = [video for video in videos if video.id in predictions]
    parts = {
        SUCCESSES: [video for video in predicted if video.success],
        FAILURES: [video for video in predicted if not video.success],
    }
    return [
        Cell(table, row, column, mean_over(part, lambda video: predictions[video.id].error(video)))
        for column, part in parts.items()
    ]


def quality_cells(
    table: str,
    row: str,
    predictions: Predictions,
    videos: Sequence[Video],
    ends: Sequence[tuple[MatchedVideo, float]],
) -> list[Cell]:
    """Return error, stages, order and success of one judge.

    Args:
        table: The table's heading.
        row: The judge's title.
        predictions: Its prediction for every video.
        videos: The test videos.
        ends: Successes and failures of matched length, with its success score of each.
    """
    done = [video for video in videos if video.success]
    return [
        *error_cells(table, row, predictions, videos),
        Cell(table, row, STAGE, mean_over(videos, lambda video: predictions[video.id].stage_accuracy(video))),
        Cell(table, row, VOC, mean_over(done, lambda video: predictions[video.id].voc())),
        Cell(table, row, AUC, auc(ends, {video.id: video for video in videos})),
    ]


def auc(ends: Sequence[tuple[MatchedVideo, float]], videos: Mapping[str, Video]) -> Estimate:
    """Return how well the score separates successes from failures of the same length."""
    matched = [videos[one.id] for one, _ in ends]
    scores, labels = [[score] for _, score in ends], [[float(one.success)] for one, _ in ends]
    return over_points(fast_auc, (scores, labels), units_of(matched))


def difference_cells(
    table: str, row: str, one: Predictions, other: Predictions, videos: Sequence[Video]
) -> list[Cell]:
    """Return the error of one judge minus that of another on the same videos; below 0 the first is better."""

    def gap(video: Video) -> float:
        return one[video.id].error(video) - other[video.id].error(video)

    parts = {
        SUCCESSES: [video for video in videos if video.success],
        FAILURES: [video for video in videos if not video.success],
        ALL: list(videos),
    }
    return [Cell(table, row, column, mean_over(part, gap)) for column, part in parts.items()]


def write(out: Path, cells: Sequence[Cell], notes: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """Write ``figures.json`` and ``figures.md``, and return the latter's text."""
    content = {**about, "notes": notes, "figures": [cell.plain() for cell in cells]}
    (out / "figures.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    text = markdown(cells, notes)
    (out / "figures.md").write_text(text, encoding="utf-8")
    return text


def markdown(cells: Sequence[Cell], notes: Mapping[str, str]) -> str:
    """Return a table for each heading: value, 95 % interval and n in every cell."""
    parts = []
    for table in dict.fromkeys(cell.table for cell in cells):
        mine = {(cell.row, cell.column): cell.estimate for cell in cells if cell.table == table}
        rows, columns = (list(dict.fromkeys(key[side] for key in mine)) for side in (0, 1))
        parts += [f"### {table}", ""]
        parts += [_line(["", *columns]), "|" + "---|" * (1 + len(columns))]
        parts += [_line([row, *(_text(mine.get((row, column))) for column in columns)]) for row in rows]
        parts += ["", notes[table], ""] if table in notes else [""]
    return "\n".join(parts).rstrip() + "\n"


def _text(e: Estimate | None) -> str:
    if e is None:
        return "–"
    value = "–" if math.isnan(e.value) else f"{e.value:.3f}"
    ends = f" [{e.lo:.3f}, {e.hi:.3f}]" if math.isfinite(e.lo) and math.isfinite(e.hi) else ""
    known = f", {e.coverage:.0%} answered" if e.coverage < 1 else ""
    return f"{value}{ends}, n {e.n}{known}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
