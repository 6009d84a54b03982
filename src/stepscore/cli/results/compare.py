"""``stepscore compare``: print the differences between policies, or between judges."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore._defaults import DEFAULT_REVISION
from stepscore.cli import options
from stepscore.cli.tables import interval, out, percent, print_csv, print_json, print_notes, table

if TYPE_CHECKING:
    from stepscore.analysis import GroupComparison


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="One run folder, or two.")],
    by: Annotated[
        str,
        typer.Option("--by", metavar="A,B", help="Compare by any of policy, task, dataset, robot, judge."),
    ] = "policy",
    metric: Annotated[
        str | None,
        typer.Option("--metrics", metavar="A,B", help="Only these metrics; see `stepscore ls metrics`."),
    ] = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    held_out: options.HeldOut = False,
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Print differences between groups with intervals and tests, corrected for many comparisons.

    Policies that were run on the same scenes are paired on task and scene; two judges are paired on the episode.
    """
    from stepscore.analysis import compare as compare_runs
    from stepscore.analysis import coverage_note

    names = options.split_names(metric)
    keys = options.split_names(by) or []
    compared = compare_runs(runs, keys, metrics=names, revision=revision, done_at=done_at, held_out=held_out)
    rows = compared.to_dicts()
    if json or csv:
        print_json(rows) if json else print_csv([{**r, "a": _name(r["a"]), "b": _name(r["b"])} for r in rows])
        return
    console = out()
    for a, b in dict.fromkeys((_name(row.a), _name(row.b)) for row in compared):
        lines = [_line(row) for row in compared if (_name(row.a), _name(row.b)) == (a, b)]
        heads = ["metric", "A minus B", "p", "q", "P(A > B)", "could\nshow", "n"]
        console.print(table(f"A = {escape(a)}, B = {escape(b)} (OPD {revision})", heads, lines))
        shares = {
            row.metric: {"A": row.coverage_a, "B": row.coverage_b}
            for row in compared
            if (_name(row.a), _name(row.b)) == (a, b)
        }
        given = [row for row in compared if (_name(row.a), _name(row.b)) == (a, b) and not row.why_not]
        print_notes([coverage_note(shares, paired=all(row.comparison.paired for row in given))])
    for why_not in dict.fromkeys(row.why_not for row in compared if row.why_not):
        console.print(f"No difference of success_judge: {why_not}.")
    tests = ", ".join(dict.fromkeys(row.comparison.test for row in compared if not row.why_not))
    print_notes(compared.notes)
    cautions = "".join(
        f" ({text})" for text in dict.fromkeys(row.comparison.caution for row in compared) if text
    )
    console.print(
        f"Percent points with 95 % intervals. p: {tests}{cautions}. q: p corrected over all comparisons here "
        "(Benjamini-Hochberg); * q < 0.05. P(A > B): chance that A's value is the higher one. "
        "Could show: the smallest true difference that this sample would reveal four times in five."
    )


def _line(row: GroupComparison) -> list[str]:
    c, d, p = row.comparison, row.comparison.difference, row.comparison.probability_of_improvement
    significant = math.isfinite(row.q_value) and row.q_value < 0.05
    return [
        f"[bold]{row.metric} *[/bold]" if significant else row.metric,
        interval(d.value, d.lo, d.hi),
        _p(c.p_value),
        _p(row.q_value),
        interval(p.value, p.lo, p.hi),
        percent(c.smallest_detectable_difference),
        _n(row),
    ]


def _n(row: GroupComparison) -> str:
    """Return the pairs or episodes behind a comparison, and what share of each side's is known where not all are."""
    c = row.comparison
    text = f"{c.n_a} pairs" if c.paired else f"{c.n_a} / {c.n_b}"
    if row.coverage_a < 1 or row.coverage_b < 1:
        text += f"\n{percent(row.coverage_a, 0)} / {percent(row.coverage_b, 0)} %"
    return text


def _name(group: Mapping[str, str | None]) -> str:
    return " / ".join("unknown" if part is None else part for part in group.values())


def _p(value: float) -> str:
    return "–" if not math.isfinite(value) else ("<0.001" if value < 0.001 else f"{value:.3f}")
