"""Differences between groups: a table for each pair, a row per metric."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from stepscore._tables import (
    Cell,
    Column,
    PrintedTable,
    TableRow,
    estimate_cell,
    group_name,
    number_cell,
    percent,
    percent_cell,
    text_cell,
)
from stepscore._tables.table import ARROWS
from stepscore.analysis.comparison import GroupComparison
from stepscore.analysis.pooling import coverage_note
from stepscore.analysis.tables.metric_tables import scope_of

SIGNIFICANT = 0.05
"""Corrected p-value below which a difference is marked."""


def comparison_tables(compared: Sequence[GroupComparison], notes: Sequence[str] = ()) -> list[PrintedTable]:
    """Return a table for each pair of groups; the last has the notes for all."""
    pairs: dict[tuple[str, str], list[GroupComparison]] = {}
    for row in compared:
        pairs.setdefault((group_name(row.a), group_name(row.b)), []).append(row)
    tables = [_table(a, b, rows) for (a, b), rows in pairs.items()]
    if tables:
        closing = (*tables[-1].notes, *_closing_notes(compared, notes))
        tables[-1] = replace(tables[-1], notes=closing)
    return tables


def _table(a: str, b: str, rows: Sequence[GroupComparison]) -> PrintedTable:
    shares = {row.metric: {"A": row.coverage_a, "B": row.coverage_b} for row in rows}
    given = [row for row in rows if not row.why_not]
    note = coverage_note(shares, paired=all(row.comparison.paired for row in given))
    columns = (
        Column("metric", left=True),
        Column("A minus B"),
        Column("p"),
        Column("q"),
        Column("P(A > B)"),
        Column("could\nshow"),
        Column("n"),
    )
    revisions = ", ".join(sorted({row.revision for row in rows}))
    where, scope = scope_of({f"{a}, {b}": row.comparison.scenes for row in given})
    title = f"A = {a}, B = {b} (OPD {revisions}){where}"
    notes = tuple(text for text in (note, scope) if text)
    return PrintedTable(title, columns, tuple(_row(row) for row in rows), notes)


def _row(row: GroupComparison) -> TableRow:
    c = row.comparison
    significant = math.isfinite(row.q_value) and row.q_value < SIGNIFICANT
    name = f"{row.metric} {ARROWS[row.better]}".strip()
    cells = (
        text_cell(f"{name} *" if significant else name, bold=significant),
        estimate_cell(c.difference, None, "difference"),
        _p_cell(c.p_value, "p_value"),
        _p_cell(row.q_value, "q_value"),
        estimate_cell(c.probability_of_improvement, None, "probability_of_improvement"),
        percent_cell(c.smallest_detectable_difference, metric="smallest_detectable_difference"),
        _n_cell(row),
    )
    return TableRow(cells, {"metric": row.metric, "a": dict(row.a), "b": dict(row.b)})


def _p_cell(value: float, metric: str) -> Cell:
    cell = number_cell(value, ".3f", metric)
    return replace(cell, text="<0.001") if value < 0.001 else cell


def _n_cell(row: GroupComparison) -> Cell:
    """Return the number of pairs or episodes, and each side's coverage if it is not complete."""
    c = row.comparison
    text = f"{c.n_a} pairs" if c.paired else f"{c.n_a} / {c.n_b}"
    partial = row.coverage_a < 1 or row.coverage_b < 1
    note = f"{percent(row.coverage_a, 0)} / {percent(row.coverage_b, 0)} %" if partial else ""
    return Cell(text, note=note, metric="n_a", value=float(c.n_a))


def _closing_notes(compared: Sequence[GroupComparison], notes: Sequence[str]) -> list[str]:
    reasons = dict.fromkeys(row.why_not for row in compared if row.why_not)
    tests = ", ".join(dict.fromkeys(row.comparison.test for row in compared if not row.why_not))
    cautions = dict.fromkeys(row.comparison.caution for row in compared if row.comparison.caution)
    return [
        *(f"No difference of success_judge: {reason}." for reason in reasons),
        *notes,
        f"Percent points with 95 % intervals. p: {tests}{''.join(f' ({text})' for text in cautions)}. q: p corrected "
        f"over all comparisons here (Benjamini-Hochberg); * q < {SIGNIFICANT}. P(A > B): chance that A's value is "
        "the higher one. Could show: the smallest true difference that this sample would reveal four times in five.",
    ]
