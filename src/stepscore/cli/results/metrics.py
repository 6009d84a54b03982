"""``stepscore metrics``: a run folder in, numbers with their intervals out."""

from __future__ import annotations

import math
from collections import defaultdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.tables import interval, out, percent, print_csv, print_json, table, tables

if TYPE_CHECKING:
    from rich.console import Console

    from stepscore.analysis import EpisodeMetrics, FailureModes, GroupEstimate, JudgeAgreement, SubgoalTable
    from stepscore.types import Estimate

MAIN = ("success_label", "success_judge", "MC25", "MC50", "MC75", "MC100", "MP", "PPL", "CRA", "STR", "VOC")


class Show(StrEnum):
    """What to print."""

    MAIN = "main"
    CONDITIONED = "conditioned"
    SUBGOALS = "subgoals"
    DIAGNOSIS = "diagnosis"
    JUDGE = "judge"
    EPISODES = "episodes"
    ALL = "all"


def metrics(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="One or more run folders.")],
    by: Annotated[
        str, typer.Option("--by", help="Groups: any of dataset, robot, task, policy, judge, model, protocol.")
    ] = "policy",
    show: Annotated[Show, typer.Option("--show", help="Which tables to print.")] = Show.MAIN,
    revision: Annotated[
        str, typer.Option("--revision", help="OPD as in: paper, v1.0, v1.5 or robust.")
    ] = "v1.0",
    channel: Annotated[
        str,
        typer.Option(
            "--channel", help="Series of the curve to measure; others than progress are not absolute."
        ),
    ] = "progress",
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Print the metrics of a run by group, each with its 95 % interval and n.

    --json and --csv print every row of the chosen tables with method, clusters and coverage.
    """
    from stepscore.analysis import (
        failure_modes_by_policy,
        grouped_estimates,
        judge_agreement,
        measure_episodes,
        subgoal_tables,
    )
    from stepscore.runs import open_run

    opened = [open_run(path) for path in runs]
    keys = options.split_names(by) or []
    measures = measure_episodes(opened, revision=revision, channel=channel)
    if show is Show.EPISODES:
        _episodes(measures, json=json, csv=csv)
        return
    everything = show is Show.ALL
    measured = grouped_estimates(measures, keys)
    steps = subgoal_tables(opened, keys) if everything or show in (Show.MAIN, Show.SUBGOALS) else []
    diagnosis = failure_modes_by_policy(measures) if everything or show is Show.DIAGNOSIS else None
    trust = judge_agreement(opened) if everything or show is Show.JUDGE else None
    if json or csv:
        rows = _rows(show, measured, steps, diagnosis) + (trust.rows() if trust is not None else [])
        print_json(rows) if json else print_csv([_flat(row) for row in rows])
        return
    console = out()
    note = f"OPD {revision} on {channel}; percent with 95 % intervals; n = episodes"
    if everything or show is Show.MAIN:
        _grouped(console, "Metrics", [m for m in measured if "|" not in m.metric], caption=note)
    if everything or show is Show.CONDITIONED:
        for word, source in (
            ("success", "label"),
            ("failure", "label"),
            ("success", "judge"),
            ("failure", "judge"),
        ):
            chosen = [m for m in measured if m.metric.endswith(f"|{word}:{source}")]
            if chosen:
                _grouped(console, f"Among {word} by {source}", chosen, caption=note)
    for made in steps:
        # What the labels say of each subgoal is the same for every run: for who asks for it.
        if show is not Show.MAIN or made.source == "judge":
            console.print(_steps(made))
    if show is Show.SUBGOALS and not steps:
        console.print("Nothing is known of any subgoal: no verdict of the judge and no label says yes or no.")
    if diagnosis is not None:
        _print_diagnosis(diagnosis)
    if trust is not None:
        _print_trust(trust)


def _rows(
    show: Show, measured: list[GroupEstimate], steps: list[SubgoalTable], diagnosis: FailureModes | None
) -> list[dict[str, Any]]:
    """What --json prints: every row of the tables asked for."""
    rows: list[dict[str, Any]] = []
    if show in (Show.MAIN, Show.CONDITIONED, Show.ALL):
        rows += [m.row() for m in measured]
    rows += [m.row() for made in steps for m in made.rows()]
    return rows + (diagnosis.rows() if diagnosis is not None else [])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row["group"], **{name: value for name, value in row.items() if name != "group"}}


def _grouped(console: Console, title: str, measured: list[GroupEstimate], *, caption: str) -> None:
    """A row per group, a column per metric."""
    lines: dict[tuple[Any, ...], dict[str, GroupEstimate]] = defaultdict(dict)
    for m in measured:
        lines[tuple(m.group.values())][m.metric.split("|")[0]] = m
    names = [name for name in MAIN if any(name in line for line in lines.values())]
    rows = []
    for key, line in lines.items():
        cells = [(line[n].estimate if n in line else None) for n in names]
        n = max((e.n for e in cells if e is not None), default=0)
        label = escape(" / ".join("unknown" if part is None else str(part) for part in key) or "all")
        rows.append([label, str(n), *(interval(e.value, e.lo, e.hi) if e else "–" for e in cells)])
    heads = [name.replace("success_", "success\nby ") for name in names]
    for made in tables(title, ["group", "n", *heads], rows, width=console.width, caption=caption):
        console.print(made)


def _steps(made: SubgoalTable) -> Any:
    where = escape(", ".join("unknown" if part is None else part for part in made.group.values()))
    rows = [
        [escape(name), *(interval(e.value, e.lo, e.hi) for e in line), str(line[0].n)]
        for name, *line in zip(made.names, made.reached, made.given_previous, made.fails_first, strict=True)
    ]
    out_of_order = f"out of order: {percent(made.violations.value)} % of {made.violations.n} episodes"
    heads = ["subgoal", "reached", "given previous", "fails first", "n"]
    note = "" if made.reviewed else " (drafted; not yet reviewed by a person)"
    return table(f"Subgoals{note} by {made.source}: {where}", heads, rows, caption=out_of_order)


def _print_diagnosis(diagnosis: FailureModes) -> None:
    console = out()
    rows = [
        [
            escape(policy.policy or "unknown"),
            str(policy.failures),
            "\n".join(f"{name} {_short(e)}" for name, e in policy.shares.items()) or "–",
            percent(policy.stability, 0),
            _short(policy.inefficient),
        ]
        for policy in diagnosis.policies
    ]
    heads = [
        "policy",
        "failures",
        "of them, %",
        "alike over\ntasks, %",
        "successes by\ndetours, %",
    ]
    made = table(f"How each policy fails (success by {diagnosis.source})", heads, rows)
    made.columns[2].justify = "left"
    console.print(made)
    for policy in diagnosis.policies:
        if policy.advice:
            console.print(f"[bold]{escape(policy.policy or 'unknown')}[/bold]: {policy.advice}")
    names = list(next(iter(diagnosis.z_scores.values()), {}))
    lines = [
        [
            escape(policy or "unknown"),
            *("–" if math.isnan(scores[name]) else f"{scores[name]:+.2f}" for name in names),
        ]
        for policy, scores in diagnosis.z_scores.items()
    ]
    title = "Failures: standard deviations from the mean of the policies, better upwards"
    console.print(table(title, ["policy", *names], lines))


def _print_trust(trust: JudgeAgreement) -> None:
    """How far the judge agrees with labels, and what it takes: about the judge, not about a policy."""
    console = out()
    lines = [
        [
            escape(f"{a.judge}: {a.question}"),
            *(interval(e.value, e.lo, e.hi) for e in (a.accuracy, a.balanced, a.mcc)),
            f"{a.table.tp} {a.table.fp}\n{a.table.fn} {a.table.tn}",
            str(a.table.unknown),
        ]
        for a in trust.agreements
    ]
    if lines:
        heads = ["judge: question", "accuracy", "balanced", "MCC", "TP FP\nFN TN", "unknown"]
        console.print(table("The judge against labels", heads, lines))
    for m in trust.ranking:
        console.print(
            f"{escape(str(m.group['judge']))}, {m.metric.removeprefix('judge:')}: {_short(m.estimate)} %"
        )
    costs = [
        [
            escape(c.judge),
            str(c.episodes),
            f"{c.calls:.1f}",
            f"{c.images:.1f}",
            f"{c.tokens:.0f}",
            *("–" if math.isnan(v) else f"{v:.2f}" for v in (c.p50_s, c.p95_s)),
            "–" if not c.calls else ("unknown" if math.isnan(c.cost) else f"{c.cost:.4f}"),
            _short(c.escalated),
            percent(c.saved, 0),
        ]
        for c in trust.costs
    ]
    heads = ["judge", "n", "calls", "images", "tokens", "p50 s", "p95 s", "cost", "escalated\n%", "saved\n%"]
    for made in tables("What an episode takes", heads, costs, width=console.width):
        console.print(made)


def _short(e: Estimate) -> str:
    return f"{percent(e.value, 0)} ({percent(e.lo, 0)}…{percent(e.hi, 0)})" if e.n else "–"


def _episodes(measures: EpisodeMetrics, *, json: bool, csv: bool) -> None:
    """One row an episode; in a terminal, the distribution of every column."""
    import numpy as np

    names = [column.name for column in measures.columns]
    rows = [
        {
            "episode_id": row["episode_id"],
            "judge": row["judge"],
            "task": row["task"],
            "policy": row["policy"],
            **{name: float(measures.values[name][i]) for name in names},
            "error": row["error"],
        }
        for i, row in enumerate(measures.episodes)
    ]
    if json or csv:
        print_json(rows) if json else print_csv(rows)
        return
    lines = []
    for name in names:
        known = measures.values[name][~np.isnan(measures.values[name])]
        if len(known):
            cuts = np.quantile(known, [0.0, 0.1, 0.5, 0.9, 1.0])
            lines.append([name, str(len(known)), *(percent(float(cut)) for cut in cuts), _histogram(known)])
    console = out()
    heads = ["metric", "n", "least", "p10", "median", "p90", "most", "least…most"]
    for made in tables(
        f"{len(measures)} episodes (--csv or --json lists them)", heads, lines, width=console.width
    ):
        console.print(made)


def _histogram(values: Any) -> str:
    import numpy as np

    counts, _ = np.histogram(values, bins=10)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)
