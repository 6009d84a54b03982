"""A tuning as tables for people."""

from __future__ import annotations

import math

from stepscore._tables import Cell, Column, PrintedTable, TableRow, estimate_cell, number_cell, text_cell
from stepscore.audit.tune.result import TrialResult, Tuned
from stepscore.types import Estimate

BY = {"cost": "money", "tokens": "tokens", "calls": "calls"}


def tune_tables(tuned: Tuned) -> list[PrintedTable]:
    """Return the trials on the choosing split, and those on the test split."""
    return [_choosing(tuned), _testing(tuned)]


def _choosing(tuned: Tuned) -> PrintedTable:
    money = any(each.cost is not None and each.cost.cost for each in tuned.results)
    rows = []
    for each in tuned.results:
        if each.cost is None or each.choose is None:
            continue
        marks = f"{' *' if each.name == tuned.chosen else ''}{' +' if each.front else ''}"
        cells = [
            text_cell(each.name + marks, bold=each.name == tuned.chosen),
            estimate_cell(each.choose, None, "choose"),
            _gap(each.from_best, "from_best"),
            number_cell(each.cost.calls, ".1f", "calls"),
            number_cell(each.cost.tokens, ".0f", "tokens"),
            *([number_cell(each.cost.cost, ".5f", "cost")] if money else []),
        ]
        rows.append(TableRow(tuple(cells), {"trial": each.name}))
    columns = (
        Column("trial", left=True),
        Column("choose", tuned.better),
        Column("- best"),
        Column("calls"),
        Column("tokens"),
        *([Column("cost")] if money else []),
    )
    title = f"{tuned.metric} on {tuned.episodes[0]} episodes ({tuned.scenes[0]} scenes) to choose on"
    return PrintedTable(title, columns, tuple(rows), tuple(_notes(tuned)))


def _testing(tuned: Tuned) -> PrintedTable:
    rows = []
    for each in tuned.results:
        if each.test is None:
            continue
        cells = (
            text_cell(_role(tuned, each), bold=each.name == tuned.chosen),
            estimate_cell(each.test, None, "test"),
            _gap(each.from_default, "from_default"),
            number_cell(each.test.coverage, ".2f", "coverage"),
        )
        rows.append(TableRow(cells, {"trial": each.name}))
    columns = (
        Column("trial", left=True),
        Column("test", tuned.better),
        Column("- default"),
        Column("known"),
    )
    title = f"{tuned.metric} on {tuned.episodes[1]} other episodes ({tuned.scenes[1]} scenes)"
    note = "Quote these: the best of several is too good on the episodes that chose it."
    return PrintedTable(title, columns, tuple(rows), (note,))


def _role(tuned: Tuned, each: TrialResult) -> str:
    return f"{each.name}{' *' if each.name == tuned.chosen else ''}{' +' if each.front else ''}"


def _gap(estimate: Estimate | None, metric: str) -> Cell:
    """Return a difference in points; empty for a trial compared with itself."""
    if estimate is None:
        return text_cell("")
    return estimate_cell(estimate, None, metric)


def _notes(tuned: Tuned) -> list[str]:
    notes = [
        "Percent with 95 % intervals, unknown answers counted as wrong; calls, tokens and cost per episode.",
        f"+ on the Pareto front. * chosen: of the {len(tuned.tied)} whose paired difference from the best "
        f"({tuned.best}) is not decided, the one with the least {BY[tuned.cheapest_by]}.",
    ]
    gaps = [each.from_best for each in tuned.results if each.from_best is not None and each.from_best.value]
    if gaps and all(math.isnan(gap.lo) for gap in gaps):
        notes.append(f"No difference has an interval ({gaps[0].method}), so the best value is chosen.")
    left = [each for each in tuned.results if each.status != "judged"]
    notes += [f"Not judged: {each.name} ({each.reason})" for each in left]
    some = [f"{each.name} {each.failed}" for each in tuned.results if each.failed]
    if some:
        notes.append(f"Episodes without a judgement, counted as wrong: {', '.join(some)}.")
    notes += [f"Not tried: {name} ({why})" for name, why in list(tuned.dropped.items())[:3]]
    if len(tuned.dropped) > 3:
        notes.append(
            f"{len(tuned.dropped) - 3} more combinations are refused by the judge; all are in tuned.json."
        )
    return [*notes, *tuned.notes]
