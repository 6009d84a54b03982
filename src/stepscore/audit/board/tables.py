"""A board as tables for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from stepscore._tables import (
    UNKNOWN,
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    number_cell,
    text_cell,
)
from stepscore.audit.board.board import Board
from stepscore.audit.board.board_metrics import METRICS, PUBLISHED, BoardMetric
from stepscore.audit.board.check import RowCheck
from stepscore.audit.board.row import BoardRow
from stepscore.types import Estimate

SUCCESS = "Success"
WHEN = {"ever": "at some time (ever)", "holds": "at the end (holds)"}

GROUPS: Sequence[tuple[str, tuple[str, ...]]] = (
    (
        SUCCESS,
        (
            "success_auc",
            "success_auc_within_tasks",
            "success_auc_length_matched",
            "success_balanced_accuracy",
            "success_f1",
        ),
    ),
    ("Progress", ("progress_mae", "progress_ccc", "progress_tau", "progress_epr", "voc")),
    ("Stages and subgoals", ("stage_error", "boundary_f1", "subgoal_balanced_accuracy", "subgoal_f1")),
    ("Pairs", ("pairs_accuracy", "pairs_auroc", "pairs_small", "pairs_medium", "pairs_large")),
    ("Questions", ("question_progress", "question_remaining", "question_next", "question_segmentation")),
)
"""Tables of a board, by the metrics in them."""

INTERVALS = "95 % intervals resample scenes, else episodes, within tasks; dashes are unknown."


def board_tables(board: Board) -> list[PrintedTable]:
    """Return accuracy by subject, then cost with the Pareto front."""
    names = {metric.name for metric in board.metrics}
    tables = []
    for title, group in GROUPS:
        metrics = [metric for metric in METRICS if metric.name in group and metric.name in names]
        if metrics:
            tables.append(_estimates(board, title, metrics))
    return [*tables, _cost(board)]


def published_table() -> PrintedTable:
    """Return the published figures of others."""
    columns = (Column("judge", left=True), *(Column(name) for name in PUBLISHED[0].values))
    rows = tuple(
        TableRow((text_cell(one.label), *(number_cell(value, ".1f") for value in one.values.values())))
        for one in PUBLISHED
    )
    first = PUBLISHED[0]
    return PrintedTable(first.source, columns, rows, (f"As published: {first.note}.",))


def check_table(check: RowCheck) -> PrintedTable:
    """Return a row compared with its new measurement."""
    stored = check.to_dict()
    rows = tuple(
        TableRow(
            (
                text_cell(one["metric"]),
                *(number_cell(_nan(one[side]), "z.4f", one["metric"]) for side in ("claimed", "again")),
            )
        )
        for one in stored["values"]
    )
    verdict = (
        "It reproduces" if check.reproduces else "It does not reproduce: " + "; ".join(check.problems[:5])
    )
    difference = f"{check.curve_difference:.2g}"
    notes = (
        f"{verdict}.",
        f"Largest difference of the curves: {difference}, on {check.videos_apart} videos beyond tolerance.",
    )
    columns = (Column("metric", left=True), Column("in the row"), Column("measured again"))
    return PrintedTable(f"{check.claimed.label}, checked", columns, rows, notes)


def _nan(value: float | None) -> float:
    return math.nan if value is None else value


def board_records(board: Board) -> list[dict[str, object]]:
    """Return every number of the tables as rows of ``metrics --json``."""
    stored = board.to_dict()["rows"]
    return [
        {"group": {"row": row["label"]}, "metric": name, **estimate}
        for row in stored
        for name, estimate in row["estimates"].items()
    ]


def _estimates(board: Board, title: str, metrics: Sequence[BoardMetric]) -> PrintedTable:
    columns = [
        Column("judge", left=True),
        *(Column(metric.title, metric.better) for metric in metrics),
        Column("n"),
    ]
    rows = []
    for row in _measured(board):
        found = [row.estimates.get(metric.name) for metric in metrics]
        if not any(found):  # a judge without a curve is no row of dashes among those with one
            continue
        n = max(e.n for e in found if e is not None)
        cells = [
            _name(row),
            *(_cell(e, metric, n) for e, metric in zip(found, metrics, strict=True)),
            count_cell(n),
        ]
        rows.append(TableRow(tuple(cells), {"row": row.label}))
    units = "; ".join(f"{metric.title}: {metric.about}" for metric in metrics)
    percent = [metric.title for metric in metrics if metric.percent]
    said = f" In percent: {', '.join(percent)}." if percent else ""
    notes = [f"{units}.{said}", INTERVALS]
    if title == SUCCESS and (against := _labelled_success(board)):
        notes.insert(0, against)
    return PrintedTable(title, tuple(columns), tuple(rows), tuple(notes))


def _labelled_success(board: Board) -> str:
    """Return which success the labels state; empty if unknown."""
    counts: Mapping[str, int] = board.benchmark.get("success", {})
    parts = [f"{WHEN[mode]}, n {count}" for mode, count in counts.items()]
    return f"Success by label counts {'; '.join(parts)}." if parts else ""


def _cell(estimate: Estimate | None, metric: BoardMetric, n: int) -> Cell:
    scale, form = (100, "z.1f") if metric.percent else (1, "z.2f")
    note = "" if estimate is None or estimate.n == n else f"n {estimate.n}"
    return bounded_cell(estimate, metric.name, form, scale=scale, note=note)


def bounded_cell(
    estimate: Estimate | None, metric: str, form: str, *, scale: float = 1, note: str = ""
) -> Cell:
    """Return a cell with an estimate and its interval, scaled for display; a dash if unknown."""
    if estimate is None or math.isnan(estimate.value):
        return Cell(UNKNOWN)
    known = not math.isnan(estimate.lo + estimate.hi)
    return Cell(
        format(scale * estimate.value, form),
        (format(scale * estimate.lo, form), format(scale * estimate.hi, form)) if known else None,
        note,
        metric=metric,
        value=estimate.value,
        lo=estimate.lo,
        hi=estimate.hi,
        bare=not known,
    )


def _cost(board: Board) -> PrintedTable:
    front, kind = board.pareto, board.cost_kind
    rows = []
    for row in _measured(board):
        cost = row.cost
        accuracy = row.estimates.get(board.front.name)
        cells = (
            _name(row),
            _cell(accuracy, board.front, 0 if accuracy is None else accuracy.n),
            text_cell("front" if row.label in front else ""),
            number_cell(cost.calls / max(cost.videos, 1), ".1f"),
            number_cell(cost.images / max(cost.videos, 1), ".0f"),
            number_cell(cost.tokens_in / max(cost.videos, 1), ".0f"),
            number_cell(cost.tokens_out / max(cost.videos, 1), ".0f"),
            number_cell(_nan(cost.cost), ".4f"),
            number_cell(_nan(cost.seconds_per_episode), ".2f"),
            count_cell(cost.videos),
        )
        rows.append(TableRow(cells, {"row": row.label}))
    columns = (
        Column("judge", left=True),
        Column(board.front.title, board.front.better),
        Column("Pareto", left=True),
        Column("calls", "lower"),
        Column("images", "lower"),
        Column("tokens in", "lower"),
        Column("tokens out", "lower"),
        Column("cost in all", "lower"),
        Column("seconds", "lower"),
        Column("videos"),
    )
    notes = [
        f"Calls, images, tokens and seconds per video. Front: no other judge here is as good by {board.front.title} "
        f"and as cheap in {kind}, and better in one; point estimates decide. Seconds are of the machine that "
        "measured, and no part of what is reproducible."
    ]
    notes += [f"{row.label}: not measured. {row.reason}" for row in board.rows if row.reason]
    notes += [
        f"{row.label}: a claim of {row.claimed_by}, not measured here."
        for row in board.rows
        if row.claimed_by
    ]
    return PrintedTable("Cost", columns, tuple(rows), tuple(notes))


def _measured(board: Board) -> list[BoardRow]:
    return [row for row in board.rows if row.reason is None]


def _name(row: BoardRow) -> Cell:
    return text_cell(f"{row.label} (claim)" if row.claimed_by else row.label)
