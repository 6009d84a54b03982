"""A judge against labels: its answers, its ranking, and its cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from stepscore._tables import (
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
from stepscore.analysis.agreement import Agreement, Cost, JudgeAgreement
from stepscore.analysis.estimates import GroupEstimate
from stepscore.analysis.tables.label_tables import curves_table, policy_tables
from stepscore.analysis.tables.metric_tables import episodes_behind, no_interval_note
from stepscore.types import Estimate

QUESTIONS = (
    "Percent with 95 % intervals; n: episodes with label and answer; precision is over those answered yes (TP + FP), "
    "recall and FNR over those labelled true (TP + FN), FPR over those labelled false (FP + TN); indented: the clock "
    "and the constant on the same episodes (yes to every subgoal)."
)
RANKS = (
    "ROC-AUC in percent, 50 is chance: over all pairs of a success and a failure, and over pairs of one task. "
    "Length-matched: failures cut to the length of a success of their task, so that the clock has 50."
)
DECIDES = (
    "The verdict of a calibrated judge is by its success probability; the success score is uncalibrated."
)

NO_LABELS = (
    "Whether the judge can be trusted is unknown: no episode has a label of success or of a subgoal. Add labels by "
    "judging again with --labels FILE: answers come from the cache, so you never pay twice."
)


def judge_tables(agreement: JudgeAgreement) -> list[PrintedTable]:
    """Return the judge's agreement with labels and that of baselines, its ranking, and its cost."""
    tables = agreement_tables(agreement)
    return [*tables, _costs(agreement.costs, () if tables else (NO_LABELS,))]


def agreement_tables(agreement: JudgeAgreement) -> list[PrintedTable]:
    """Return the judge's agreement with labels, without its cost; empty without labels."""
    tables = [_questions(agreement.agreements)] if agreement.agreements else []
    tables += [_ranking(agreement.ranking)] if agreement.ranking else []
    tables += [curves_table(agreement.curves)] if agreement.curves else []
    return tables + policy_tables(agreement.policies)


def judge_records(agreement: JudgeAgreement) -> list[dict[str, Any]]:
    """Return every number of the tables as rows of ``metrics --json``."""
    rows = agreement.to_dicts()
    for a in agreement.agreements:
        rows += [_count(_group(a), f"judge:{name}", count) for name, count in _counts(a).items()]
    for cost in agreement.costs:
        rows += [
            _count({"judge": cost.judge}, f"cost:{name}", cost.episodes, value)
            for name, value in _spent(cost)
        ]
        rows.append(GroupEstimate({"judge": cost.judge}, "cost:escalated", cost.escalated).to_dict())
    return rows


def _group(a: Agreement) -> dict[str, str | None]:
    beside = {} if a.baseline_for is None else {"baseline_for": a.baseline_for}
    return {"judge": a.judge, "question": a.question, **a.group, **beside}


def _count(group: dict[str, str | None], metric: str, n: int, value: float | None = None) -> dict[str, Any]:
    number = float(n) if value is None else value
    estimate = Estimate(number, math.nan, math.nan, n, n, math.nan, "count" if value is None else "mean")
    return GroupEstimate(group, metric, estimate).to_dict()


def _counts(a: Agreement) -> dict[str, int]:
    t = a.table
    return {"TP": t.tp, "FP": t.fp, "FN": t.fn, "TN": t.tn, "unknown": t.unknown}


def _questions(agreements: Sequence[Agreement]) -> PrintedTable:
    rows = []
    for a in agreements:
        where = " / ".join("unknown" if part is None else part for part in a.group.values())
        question = f"{where}: {a.judge}" if where else f"{a.judge}: {a.question}"
        label = question if a.baseline_for is None else f"  {a.judge}"
        estimates = {**a.named(), **a.errors()}
        cells = [estimate_cell(e, None, f"judge:{name}") for name, e in estimates.items()]
        counts = [count_cell(count, f"judge:{name}") for name, count in _counts(a).items()]
        rows.append(TableRow((text_cell(label), count_cell(a.table.n), *cells, *counts), _group(a)))
    names = ("accuracy", "balanced\naccuracy", "precision", "recall", "F1", "MCC")
    columns = (
        Column("judge: question", left=True),
        Column("n"),
        *(Column(name, "higher") for name in names),
        *(Column(name, "lower") for name in ("FPR", "FNR")),
        Column("kappa", "higher"),
        *(Column(name) for name in ("TP", "FP", "FN", "TN", "unknown")),
    )
    return PrintedTable("The judge against labels", columns, tuple(rows), _notes(QUESTIONS, rows))


def _ranking(ranking: Sequence[GroupEstimate]) -> PrintedTable:
    """Return a row per judge and group, a column per kind of score."""
    lines: dict[tuple[tuple[str, str | None], ...], dict[str, Estimate]] = {}
    for row in ranking:
        lines.setdefault(tuple(row.group.items()), {})[row.metric] = row.estimate
    metrics = list(dict.fromkeys(name for line in lines.values() for name in line))
    rows = []
    for key, line in lines.items():
        group = dict(key)
        judge, baseline_for = group.pop("judge"), group.pop("baseline_for", None)
        where = " / ".join("unknown" if part is None else part for part in group.values())
        label = f"  {judge}" if baseline_for else str(judge)
        n = episodes_behind(line.values())
        cells = [estimate_cell(line.get(name), n, name if name in line else "") for name in metrics]
        rows.append(
            TableRow((text_cell(f"{label}: {where}" if where else label), count_cell(n), *cells), dict(key))
        )
    names = [name.removeprefix("judge:AUC of ") for name in metrics]
    heads = [Column(name.replace(" within", "\nwithin").replace(", ", ",\n"), "higher") for name in names]
    columns = (Column("judge", left=True), Column("n"), *heads)
    return PrintedTable(
        "The judge's ranking",
        columns,
        tuple(rows),
        _notes(f"{RANKS} {DECIDES}" if "success probability" in names else RANKS, rows),
    )


def _notes(note: str, rows: Sequence[TableRow]) -> tuple[str, ...]:
    return tuple(text for text in (note, no_interval_note(rows)) if text)


def _spent(cost: Cost) -> list[tuple[str, float]]:
    return [
        ("calls", cost.calls),
        ("images", cost.images),
        ("tokens", cost.tokens),
        ("p50 s", cost.p50_s),
        ("p95 s", cost.p95_s),
        ("cost", cost.cost if cost.calls else math.nan),
        ("saved", cost.saved),
    ]


def _costs(costs: Sequence[Cost], notes: tuple[str, ...]) -> PrintedTable:
    """Return a row per judge, with the savings of cascades, if any."""
    cascades = any(cost.escalated.n for cost in costs)
    forms = {"calls": ".1f", "images": ".1f", "tokens": ".0f", "p50 s": ".2f", "p95 s": ".2f"}
    rows = []
    for cost in costs:
        spent = dict(_spent(cost))
        cells: list[Cell] = [number_cell(spent[name], form, f"cost:{name}") for name, form in forms.items()]
        unknown = "unknown" if cost.calls else "–"
        cells.append(number_cell(spent["cost"], ".4f", "cost:cost", unknown=unknown))
        if cascades:
            cells.append(estimate_cell(cost.escalated, None, "cost:escalated"))
            cells.append(percent_cell(cost.saved, 0, metric="cost:saved"))
        rows.append(
            TableRow((text_cell(cost.judge), count_cell(cost.episodes), *cells), {"judge": cost.judge})
        )
    saved = ("escalated\n%", "saved\n%") if cascades else ()
    heads = ("calls", "images", "tokens", "p50 s", "p95 s", "cost", *saved)
    columns = (Column("judge", left=True), Column("n"), *(Column(head) for head in heads))
    return PrintedTable("Calls and cost per episode", columns, tuple(rows), notes)
