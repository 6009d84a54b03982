"""Verdicts and success scores as another tool wrote them, from the rows of one episode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from stepscore.episodes.readers import Rows, is_empty, parse_number
from stepscore.errors import CurveError
from stepscore.types import Verdict

VERDICT_COLUMNS = ("subgoal", "answer", "score", "when_s", "why")
"""Columns of a verdict. Without ``subgoal`` the others are ordinary columns."""


def parse_success_score(rows: Rows) -> float:
    """Return the episode's success score, NaN if no row states one; rows that state one must agree."""
    if "success_score" not in rows.columns:
        return math.nan
    scores = rows.floats("success_score")
    known = np.flatnonzero(~np.isnan(scores)).tolist()
    for row in known:
        if not 0.0 <= scores[row] <= 1.0:
            raise CurveError(f"{rows.at(row)}: success_score must be from 0 to 1, got {scores[row]:g}.")
        if scores[row] != scores[known[0]]:
            raise CurveError(
                f"{rows.at(row)}: success_score is {scores[row]:g}, but {scores[known[0]]:g} in "
                f"row {rows.numbers[known[0]]}; an episode has one."
            )
    return float(scores[known[0]]) if known else math.nan


def parse_verdicts(rows: Rows, progress: str) -> tuple[Verdict, ...]:
    """Return one verdict for each row that names a subgoal, in order; such rows must have no ``progress``."""
    cells = rows.cells("subgoal") if "subgoal" in rows.columns else ()
    named = np.array([row for row, cell in enumerate(cells) if not is_empty(cell)], dtype=np.int64)
    if not len(named):
        return ()
    if "answer" not in rows.columns:
        raise CurveError(f"{rows.path} has a column 'subgoal' but no 'answer' (yes, no or unknown).")
    verdict_rows = rows.take(named)
    columns = {
        name: verdict_rows.cells(name)
        for name in (*VERDICT_COLUMNS, progress)
        if name in verdict_rows.columns
    }
    verdicts: dict[str, Verdict] = {}
    for row in range(len(verdict_rows)):
        verdict = _verdict({name: column[row] for name, column in columns.items()}, verdict_rows.at(row))
        if not is_empty(columns.get(progress, _no_cells(verdict_rows))[row]):
            raise CurveError(f"{verdict_rows.at(row)}: a row is a point of the curve or a verdict, not both.")
        if verdict.subgoal in verdicts:
            raise CurveError(f"{verdict_rows.at(row)}: a second verdict on subgoal {verdict.subgoal!r}.")
        verdicts[verdict.subgoal] = verdict
    return tuple(verdicts.values())


def _no_cells(rows: Rows) -> Sequence[object]:
    return [None] * len(rows)


def _verdict(cells: Mapping[str, object], where: str) -> Verdict:
    def text(name: str) -> str:
        return "" if is_empty(cells.get(name)) else str(cells[name])

    def number(name: str, top: float) -> float:
        try:
            value = parse_number(cells.get(name))
        except ValueError:
            raise CurveError(f"{where}, column {name}: {text(name)[:40]!r} is not a number.") from None
        if not (math.isnan(value) or 0.0 <= value <= top):
            raise CurveError(f"{where}: {name} must be from 0 to {top:g} or empty, got {value:g}.")
        return value

    answer = text("answer").strip().lower() or "unknown"
    if answer not in ("yes", "no", "unknown"):
        raise CurveError(f"{where}: answer must be yes, no or unknown, got {text('answer')[:40]!r}.")
    score, when_s = number("score", 1.0), number("when_s", 1e9)
    return Verdict(text("subgoal"), answer, score, when_s, text("why"))  # type: ignore[arg-type]
