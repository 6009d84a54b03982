"""Figures in tables: a row for each judge, a column for each measure, every cell an estimate with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded.figures import Units, average, number, over_points
from embedded.success import fast_auc

from benchmarks.sarm.judgements import Said
from benchmarks.sarm.videos import Ended, Film
from stepscore.types import Estimate

SUCCESSES, FAILURES, ALL = "MAE, successes", "MAE, failures", "MAE, all"
STAGE, VOC, AUC = "stage accuracy", "VOC, successes", "success AUC"


@dataclass(frozen=True)
class Cell:
    """One figure.

    Attributes:
        table: What it belongs to, as a heading.
        row: Whose it is.
        column: What it is.
        estimate: Its value, interval and n.
    """

    table: str
    row: str
    column: str
    estimate: Estimate

    def plain(self) -> dict[str, Any]:
        """As JSON values; null where not known."""
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


Says = Mapping[str, Said]
"""What a judge said, by the film's id."""


def units_of(films: Sequence[Film]) -> Units:
    """Scenes and tasks."""
    return Units([film.pair for film in films], [film.task for film in films])


def mean_over(films: Sequence[Film], value: Callable[[Film], float]) -> Estimate:
    """The mean of a value over films, scenes as clusters and tasks as strata."""
    return average([value(film) for film in films], units_of(films))


def error_cells(table: str, row: str, said: Says, films: Sequence[Film]) -> list[Cell]:
    """The error to the potential, successes and failures apart."""
    shown = [film for film in films if film.id in said]
    parts = {
        SUCCESSES: [film for film in shown if film.success],
        FAILURES: [film for film in shown if not film.success],
    }
    return [
        Cell(table, row, column, mean_over(part, lambda film: said[film.id].error(film)))
        for column, part in parts.items()
    ]


def quality_cells(
    table: str, row: str, said: Says, films: Sequence[Film], ends: Sequence[tuple[Ended, float]]
) -> list[Cell]:
    """Error, stages, order and success of one judge.

    Args:
        table: The heading.
        row: The judge.
        said: What it said of every film.
        films: The films.
        ends: Successes and failures of matched length, with its success score of each.
    """
    done = [film for film in films if film.success]
    return [
        *error_cells(table, row, said, films),
        Cell(table, row, STAGE, mean_over(films, lambda film: said[film.id].right_stages(film))),
        Cell(table, row, VOC, mean_over(done, lambda film: said[film.id].order())),
        Cell(table, row, AUC, auc(ends, {film.id: film for film in films})),
    ]


def auc(ends: Sequence[tuple[Ended, float]], films: Mapping[str, Film]) -> Estimate:
    """How well the score tells successes from failures of the same length."""
    shown = [films[one.id] for one, _ in ends]
    scores, labels = [[score] for _, score in ends], [[float(one.success)] for one, _ in ends]
    return over_points(fast_auc, (scores, labels), units_of(shown))


def difference_cells(table: str, row: str, one: Says, other: Says, films: Sequence[Film]) -> list[Cell]:
    """The error of one judge minus that of another on the same films; below 0 the first is better."""

    def gap(film: Film) -> float:
        return one[film.id].error(film) - other[film.id].error(film)

    parts = {
        SUCCESSES: [film for film in films if film.success],
        FAILURES: [film for film in films if not film.success],
        ALL: list(films),
    }
    return [Cell(table, row, column, mean_over(part, gap)) for column, part in parts.items()]


def write(out: Path, cells: Sequence[Cell], notes: Mapping[str, str], about: Mapping[str, Any]) -> str:
    """Write ``figures.json`` and ``figures.md``; the latter's text comes back."""
    content = {**about, "notes": notes, "figures": [cell.plain() for cell in cells]}
    (out / "figures.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    text = markdown(cells, notes)
    (out / "figures.md").write_text(text, encoding="utf-8")
    return text


def markdown(cells: Sequence[Cell], notes: Mapping[str, str]) -> str:
    """A table for each heading: value, 95 % interval and n in every cell."""
    parts = []
    for table in dict.fromkeys(cell.table for cell in cells):
        mine = {(cell.row, cell.column): cell.estimate for cell in cells if cell.table == table}
        rows, columns = (list(dict.fromkeys(key[side] for key in mine)) for side in (0, 1))
        parts += [f"### {table}", ""]
        parts += [_line(["", *columns]), "|" + "---|" * (1 + len(columns))]
        parts += [_line([row, *(_shown(mine.get((row, column))) for column in columns)]) for row in rows]
        parts += ["", notes[table], ""] if table in notes else [""]
    return "\n".join(parts).rstrip() + "\n"


def _shown(e: Estimate | None) -> str:
    if e is None:
        return "–"
    value = "–" if math.isnan(e.value) else f"{e.value:.3f}"
    ends = f" [{e.lo:.3f}, {e.hi:.3f}]" if math.isfinite(e.lo) and math.isfinite(e.hi) else ""
    known = f", {e.coverage:.0%} answered" if e.coverage < 1 else ""
    return f"{value}{ends}, n {e.n}{known}"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
