"""A judge against labels beyond its verdicts: curves, favoured policies, and which verdicts to accept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stepscore._tables import (
    UNKNOWN,
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    number_cell,
    percent_cell,
    text_cell,
)
from stepscore.analysis.against_labels import Abstention, PolicyAgreement, PolicyError
from stepscore.analysis.estimates import Group, GroupEstimate
from stepscore.analysis.tables.metric_tables import episodes_behind, no_interval_note
from stepscore.types import Estimate

CURVES = (
    "Means over episodes: MAE in points of 100; CCC, tau, boundary F1 in percent; EPR in bits, and that of the "
    "labels at the same points; stage error in stages. Boundaries count within 5 % of the length."
)
POLICIES = (
    "Percent with 95 % intervals over the same episodes; error: by judge minus by label, in points. If the "
    "errors on two policies differ, the judge favours one of them."
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

    Sentences below say whom the judge favours and how it ranks the policies.
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


NO_PROBABILITY = (
    "No run has a calibrated success probability of a labelled episode. Fit a map with `stepscore calibrate RUN -o "
    "map.json`, and judge other episodes with -J calibration=map.json."
)
RISK = (
    "The surest verdicts first: share of episodes accepted, how sure the least sure of them is (of 0.5..1), and how "
    "many of them are wrong, in percent with 95 % intervals."
)

COLUMNS = (
    Column("accepted", left=True),
    Column("n"),
    Column("at least\nas sure"),
    Column("error", "lower"),
)


def abstention_tables(found: Sequence[Abstention]) -> list[PrintedTable]:
    """Return, for each judge, the error against the share accepted with what to do, then its reliability."""
    if not found:
        cells = (text_cell("unknown"), count_cell(0), text_cell(UNKNOWN), text_cell(UNKNOWN))
        return [PrintedTable("What to accept", COLUMNS, (TableRow(cells, {}),), (NO_PROBABILITY,))]
    return [table for one in found for table in (_risk(one), _reliability(one))]


def abstention_records(found: Sequence[Abstention]) -> list[dict[str, Any]]:
    """Return every number as rows of ``metrics --json``."""
    return [row.to_dict() for one in found for row in one.rows()]


def _risk(one: Abstention) -> PrintedTable:
    rows = []
    for share in one.shares:
        group = {"judge": one.judge, "coverage": f"{share.coverage:.3f}"}
        cells = (
            text_cell(f"{100 * share.coverage:.1f} %"),
            count_cell(share.risk.n),
            number_cell(share.confidence, ".3f", "abstention:confidence"),
            estimate_cell(share.risk, None, "abstention:risk"),
        )
        rows.append(TableRow(cells, group))
    left_out = (
        f"{one.left_out} labelled episodes are left out: the map was fitted on them or on their scene."
        if one.left_out
        else ""
    )
    notes = tuple(text for text in (RISK, no_interval_note(rows), left_out, one.sentence) if text)
    return PrintedTable(f"What to accept of {one.judge}", COLUMNS, tuple(rows), notes)


def _reliability(one: Abstention) -> PrintedTable:
    rows = []
    for each in one.bins:
        place = f"{each.low:.1f}..{each.high:.1f}"
        cells = (
            text_cell(place),
            count_cell(each.labelled.n),
            percent_cell(each.predicted, 1, "abstention:predicted"),
            estimate_cell(each.labelled, None, "abstention:labelled"),
        )
        rows.append(TableRow(cells, {"judge": one.judge, "bin": place}))
    columns = (Column("probability", left=True), Column("n"), Column("predicted"), Column("succeeded"))
    errors = [
        f"{name} {_in_points(estimate)}"
        for name, estimate in (("ECE", one.ece), ("with both outcomes weighed equally", one.balanced_ece))
    ]
    notes = (f"Expected calibration error in points: {'; '.join(errors)}.", no_interval_note(rows))
    return PrintedTable(
        f"Reliability of {one.judge}", columns, tuple(rows), tuple(note for note in notes if note)
    )


def _in_points(estimate: Any) -> str:
    cell = estimate_cell(estimate)
    return f"{cell.text} [{cell.bounds[0]}, {cell.bounds[1]}]" if cell.bounds else cell.text
