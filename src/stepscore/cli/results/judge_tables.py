"""The tables of ``stepscore metrics --show judge``: about the judge, not about a policy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.markup import escape

from stepscore.cli.tables import estimate_cell, estimate_line, out, percent, tables

if TYPE_CHECKING:
    from rich.console import Console

    from stepscore.analysis import Agreement, GroupEstimate, JudgeAgreement

QUESTIONS = (
    "Percent with 95 % intervals; n: episodes with label and answer; precision is over those answered yes, recall "
    "over those labelled true; indented: the clock and the constant on the same episodes (yes to every subgoal).\n"
)
RANKS = (
    "ROC-AUC in percent, 50 is chance: over all pairs of a success and a failure, and over pairs of one task. "
    "Length-matched: failures cut to the length of a success of their task, so that the clock has 50.\n"
)


def print_agreement(agreement: JudgeAgreement) -> None:
    """Print the judge's agreement with labels beside that of baselines, its ranking, and its cost."""
    console = out()
    if agreement.agreements:
        _print_questions(console, agreement.agreements)
    if agreement.ranking:
        _print_ranking(console, agreement.ranking)
    _print_costs(console, agreement)


def _print_questions(console: Console, agreements: tuple[Agreement, ...]) -> None:
    lines = []
    for a in agreements:
        where = " / ".join(["unknown" if part is None else part for part in a.group.values()])
        question = f"{where}: {a.judge}" if where else f"{a.judge}: {a.question}"
        label = question if a.baseline_for is None else f"  {a.judge}"
        counts = f"{a.table.tp} {a.table.fp}\n{a.table.fn} {a.table.tn}"
        cells = [estimate_cell(e, a.table.n) for e in a.named().values()]
        lines.append([escape(label), str(a.table.n), *cells, counts, str(a.table.unknown)])
    heads = ["judge: question", "n", "accuracy", "balanced\naccuracy", "precision", "recall", "F1", "MCC"]
    heads += ["TP FP\nFN TN", "unknown"]
    for part in tables("The judge against labels", heads, lines, width=console.width):
        console.print(part)
    console.print(QUESTIONS)


def _print_ranking(console: Console, ranking: tuple[GroupEstimate, ...]) -> None:
    """Print a row per judge and group, a column per kind of score."""
    lines: dict[tuple[tuple[str, str | None], ...], dict[str, str]] = {}
    for row in ranking:
        cells = lines.setdefault(tuple(row.group.items()), {})
        cells[row.metric.removeprefix("judge:AUC of ")] = estimate_cell(row.estimate, -1)
    heads = list(dict.fromkeys(name for cells in lines.values() for name in cells))
    rows = []
    for key, cells in lines.items():
        group = dict(key)
        judge, baseline_for = group.pop("judge"), group.pop("baseline_for", None)
        where = " / ".join("unknown" if part is None else part for part in group.values())
        label = f"  {judge}" if baseline_for else str(judge)
        rows.append(
            [escape(f"{label}: {where}" if where else label), *(cells.get(name, "–") for name in heads)]
        )
    broken = [name.replace(" within", "\nwithin").replace(", ", ",\n") for name in heads]
    for part in tables("The judge's ranking", ["judge", *broken], rows, width=console.width):
        console.print(part)
    console.print(RANKS)


def _print_costs(console: Console, agreement: JudgeAgreement) -> None:
    costs = [
        [
            escape(c.judge),
            str(c.episodes),
            f"{c.calls:.1f}",
            f"{c.images:.1f}",
            f"{c.tokens:.0f}",
            *("–" if math.isnan(v) else f"{v:.2f}" for v in (c.p50_s, c.p95_s)),
            "–" if not c.calls else ("unknown" if math.isnan(c.cost) else f"{c.cost:.4f}"),
            estimate_line(c.escalated),
            percent(c.saved, 0),
        ]
        for c in agreement.costs
    ]
    heads = ["judge", "n", "calls", "images", "tokens", "p50 s", "p95 s", "cost", "escalated\n%", "saved\n%"]
    for part in tables("Calls and cost per episode", heads, costs, width=console.width):
        console.print(part)
