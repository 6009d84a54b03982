"""A judge against labels beyond its verdicts: its curves, and the policies it favours."""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore._tables import Cell, Column, PrintedTable, TableRow, count_cell, estimate_cell, text_cell
from stepscore.analysis.against_labels import PolicyAgreement, PolicyError
from stepscore.analysis.estimates import Group, GroupEstimate
from stepscore.analysis.tables.metric_tables import episodes_behind, no_interval_note
from stepscore.types import Estimate

CURVES = (
    "Means over episodes: MAE in points of 100; CCC, tau, boundary F1 in percent; EPR in bits, beside that of the "
    "labels at the same points; stage error in stages. Boundaries count within 5 % of the length."
)
POLICIES = (
    "Percent with 95 % intervals over the same episodes; error: by judge less by label, in points. Where the "
    "errors of two policies differ, the judge favours one of them."
)
TITLES = {
    "success": "The judge's errors by policy",
    "progress": "The judge's final progress by policy",
}
LOWER = ("progress MAE", "stage error")
PLAIN = ("progress EPR", "progress EPR of labels", "stage error")
"""Measures that are not shares: bits, and numbers of stages."""


def curves_table(rows: Sequence[GroupEstimate]) -> PrintedTable:
    """Return a row per judge and group, a column per measure of its curves."""
    lines: dict[tuple[tuple[str, str | None], ...], dict[str, Estimate]] = {}
    for row in rows:
        lines.setdefault(tuple(row.group.items()), {})[row.metric.removeprefix("judge:")] = row.estimate
    names = list(dict.fromkeys(name for line in lines.values() for name in line))
    printed = []
    for key, line in lines.items():
        n = episodes_behind(line.values())
        cells = [_curve_cell(name, line.get(name), n) for name in names]
        printed.append(TableRow((text_cell(_judge_name(dict(key))), count_cell(n), *cells), dict(key)))
    heads = [Column(_head(name), _better(name)) for name in names]
    columns = (Column("judge", left=True), Column("n"), *heads)
    notes = tuple(text for text in (CURVES, no_interval_note(printed)) if text)
    return PrintedTable("The judge's curves against labels", columns, tuple(printed), notes)


def policy_tables(found: Sequence[PolicyAgreement]) -> list[PrintedTable]:
    """Return a table for success and one for final progress, with a row per judge and policy.

    Whom the judge favours and how it ranks the policies stand in sentences below.
    """
    tables = []
    for quantity, title in TITLES.items():
        shown = [one for one in found if one.quantity == quantity]
        rows = tuple(_policy_row(one, each) for one in shown for each in one.errors)
        columns = (
            Column("judge: policy", left=True),
            Column("n"),
            Column(f"{quantity}\nby label", "higher"),
            Column(f"{quantity}\nby judge", "higher"),
            Column("error"),
        )
        several = len({one.judge for one in shown}) > 1
        said = [f"{one.judge}: {text}" if several else text for one in shown for text in one.sentences]
        note = POLICIES if quantity == "success" else ""
        notes = tuple(text for text in (note, no_interval_note(rows), *said) if text)
        tables += [PrintedTable(title, columns, rows, notes)] if rows else []
    return tables


def _policy_row(one: PolicyAgreement, each: PolicyError) -> TableRow:
    group: Group = {"judge": one.judge, **one.group, "policy": each.policy}
    of = "" if one.quantity == "success" else " of progress"
    named = {f"{one.quantity} by label": each.by_label, f"{one.quantity} by judge": each.by_judge}
    cells = [
        estimate_cell(e, each.error.n, f"judge:{name}")
        for name, e in {**named, f"error{of}": each.error}.items()
    ]
    where = " / ".join("unknown" if part is None else part for part in one.group.values())
    name = f"{where}: {each.policy}" if where else each.policy
    return TableRow((text_cell(f"{one.judge}: {name}"), count_cell(each.error.n), *cells), dict(group))


def _curve_cell(name: str, estimate: Estimate | None, n: int) -> Cell:
    if name not in PLAIN or estimate is None:
        return estimate_cell(estimate, n, f"judge:{name}" if estimate is not None else "")
    known = math.isfinite(estimate.lo)
    return Cell(
        f"{estimate.value:.2f}",
        (f"{estimate.lo:.2f}", f"{estimate.hi:.2f}") if known else None,
        metric=f"judge:{name}",
        value=estimate.value,
        lo=estimate.lo,
        hi=estimate.hi,
        bare=not known,
    )


def _judge_name(group: dict[str, str | None]) -> str:
    judge, baseline_for = group.pop("judge"), group.pop("baseline_for", None)
    where = " / ".join("unknown" if part is None else part for part in group.values())
    label = f"  {judge}" if baseline_for else str(judge)
    return f"{label}: {where}" if where else label


def _head(name: str) -> str:
    return "EPR,\nlabels" if name == "progress EPR of labels" else name.replace(" ", "\n")


def _better(name: str) -> str:
    if name == "progress EPR of labels":
        return "neither"
    return "lower" if name in LOWER else "higher"
