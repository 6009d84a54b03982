"""``stepscore metrics``: print the metrics of runs, with their intervals."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from stepscore._defaults import DEFAULT_REVISION
from stepscore.cli import options
from stepscore.cli.tables import err, interval, out, percent, print_csv, print_json, table, tables

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from stepscore.analysis import EpisodeMetrics, FailureModes, GroupEstimate, JudgeAgreement, SubgoalTable
    from stepscore.types import Estimate


class Show(StrEnum):
    """The tables to print."""

    MAIN = "main"
    CONDITIONED = "conditioned"
    SUBGOALS = "subgoals"
    FAILURE_MODES = "failure-modes"
    JUDGE = "judge"
    EPISODES = "episodes"
    ALL = "all"


def metrics(
    runs: options.RunFolders,
    by: options.GroupBy = "policy",
    show: Annotated[
        Show, typer.Option("--show", metavar="NAME", help=f"Tables to print: {', '.join(Show)}.")
    ] = Show.MAIN,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    channel: Annotated[
        str,
        typer.Option(
            "--channel",
            metavar="NAME",
            help="Channel of the curve to measure; only progress is comparable across episodes.",
        ),
    ] = "progress",
    labels: options.TruthFile = None,
    potential: options.Potential = None,
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Print the metrics of runs by group, each with its 95 % interval and n.

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
    episodes = measure_episodes(
        opened, revision=revision, channel=channel, labels=labels, potential=potential, done_at=done_at
    )
    if show is Show.EPISODES:
        _print_episodes(episodes, json=json, csv=csv)
        return
    everything = show is Show.ALL
    estimates = grouped_estimates(episodes, keys)
    subgoals = subgoal_tables(opened, keys) if everything or show in (Show.MAIN, Show.SUBGOALS) else []
    modes = failure_modes_by_policy(episodes) if everything or show is Show.FAILURE_MODES else None
    agreement = judge_agreement(opened) if everything or show is Show.JUDGE else None
    if json or csv:
        rows = _rows(show, estimates, subgoals, modes, agreement)
        rows = [{**row, "revision": revision} for row in rows]
        print_json(rows) if json else print_csv([_flat(row) for row in rows])
        return
    note = f"OPD {revision} on {channel}; percent with 95 % intervals; n = episodes"
    _print_estimates(show, estimates, revision, note)
    _print_notes(episodes.notes)
    if command := options.published_revision_command(opened, revision):
        err().print(f"As PRM-as-a-Judge publishes it: {command}", soft_wrap=True)
    _print_subgoals(show, subgoals)
    if modes is not None:
        _print_failure_modes(modes, revision)
    if agreement is not None:
        _print_agreement(agreement)


def _rows(
    show: Show,
    estimates: list[GroupEstimate],
    subgoals: list[SubgoalTable],
    modes: FailureModes | None,
    agreement: JudgeAgreement | None,
) -> list[dict[str, Any]]:
    """Return what --json prints: every row of the tables asked for."""
    rows: list[dict[str, Any]] = []
    if show in (Show.MAIN, Show.CONDITIONED, Show.ALL):
        rows += [row.to_dict() for row in estimates]
    rows += [row.to_dict() for subgoal_table in subgoals for row in subgoal_table.estimates()]
    rows += modes.to_dicts() if modes is not None else []
    return rows + (agreement.to_dicts() if agreement is not None else [])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row["group"], **{name: value for name, value in row.items() if name != "group"}}


def _print_estimates(show: Show, estimates: list[GroupEstimate], revision: str, note: str) -> None:
    console = out()
    if show in (Show.MAIN, Show.ALL):
        _print_groups(
            console, f"Metrics (OPD {revision})", [row for row in estimates if "|" not in row.metric], note
        )
    if show in (Show.CONDITIONED, Show.ALL):
        for source in ("label", "judge"):
            for word in ("success", "failure"):
                chosen = [row for row in estimates if row.metric.endswith(f"|{word}:{source}")]
                if chosen:
                    _print_groups(console, f"Among {word} by {source} (OPD {revision})", chosen, note)


def _print_groups(console: Console, title: str, estimates: list[GroupEstimate], note: str) -> None:
    """Print a row per group, a column per metric."""
    from stepscore.analysis import MAIN_METRICS

    lines: dict[tuple[Any, ...], dict[str, Estimate]] = defaultdict(dict)
    for row in estimates:
        lines[tuple(row.group.values())][row.metric.split("|")[0]] = row.estimate
    names = [name for name in MAIN_METRICS if any(name in line for line in lines.values())]
    rows = []
    for key, line in lines.items():
        cells = [line.get(name) for name in names]
        n = max((e.n for e in cells if e is not None), default=0)
        label = escape(" / ".join("unknown" if part is None else str(part) for part in key) or "all")
        rows.append([label, str(n), *(interval(e.value, e.lo, e.hi) if e else "–" for e in cells)])
    heads = [name.replace("success_", "success\nby ") for name in names]
    for part in tables(title, ["group", "n", *heads], rows, width=console.width, caption=note):
        console.print(part)


def _print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        out().print(note)


def _print_subgoals(show: Show, subgoals: list[SubgoalTable]) -> None:
    console = out()
    for subgoal_table in subgoals:
        # Labels of subgoals are the same for every run, so the main tables leave them out.
        if show is not Show.MAIN or subgoal_table.source == "judge":
            console.print(_subgoal_table(subgoal_table))
    if show is Show.SUBGOALS and not subgoals:
        console.print("Nothing is known of any subgoal: no verdict of the judge and no label says yes or no.")


def _subgoal_table(subgoals: SubgoalTable) -> Table:
    where = escape(", ".join("unknown" if part is None else part for part in subgoals.group.values()))
    columns = (subgoals.names, subgoals.reached, subgoals.given_previous, subgoals.fails_first)
    rows = [
        [escape(name), *(interval(e.value, e.lo, e.hi) for e in line), str(line[0].n)]
        for name, *line in zip(*columns, strict=True)
    ]
    violations = subgoals.violations
    out_of_order = f"out of order: {percent(violations.value)} % of {violations.n} episodes"
    heads = ["subgoal", "reached", "given previous", "fails first", "n"]
    note = "" if subgoals.reviewed else " (drafted; not yet reviewed by a person)"
    return table(f"Subgoals{note} by {subgoals.source}: {where}", heads, rows, caption=out_of_order)


def _print_failure_modes(modes: FailureModes, revision: str) -> None:
    console = out()
    rows = [
        [
            escape(policy.policy or "unknown"),
            str(policy.failures),
            "\n".join(f"{name} {_short(e)}" for name, e in policy.shares.items()) or "–",
            percent(policy.stability, 0),
            _short(policy.inefficient),
        ]
        for policy in modes.policies
    ]
    heads = [
        "policy",
        "failures",
        "of them, %",
        "alike over\ntasks, %",
        "successes by\ndetours, %",
    ]
    shares = table(f"How each policy fails (success by {modes.source})", heads, rows)
    shares.columns[2].justify = "left"
    console.print(shares)
    for policy in modes.policies:
        if policy.advice:
            name = escape(policy.policy or "unknown")
            console.print(f"[bold]{name}[/bold]: {escape(policy.advice)}", markup=True)
    names = list(next(iter(modes.z_scores.values()), {}))
    lines = [
        [
            escape(policy or "unknown"),
            *("–" if math.isnan(scores[name]) else f"{scores[name]:+.2f}" for name in names),
        ]
        for policy, scores in modes.z_scores.items()
    ]
    title = f"Failures: standard deviations from the mean of the policies, better upwards (OPD {revision})"
    console.print(table(title, ["policy", *names], lines))


def _print_agreement(agreement: JudgeAgreement) -> None:
    """Print the judge's agreement with labels and its cost: about the judge, not about a policy."""
    console = out()
    lines = [
        [
            escape(f"{a.judge}: {a.question}"),
            *(interval(e.value, e.lo, e.hi) for e in (a.accuracy, a.balanced, a.mcc)),
            f"{a.table.tp} {a.table.fp}\n{a.table.fn} {a.table.tn}",
            str(a.table.unknown),
        ]
        for a in agreement.agreements
    ]
    if lines:
        heads = ["judge: question", "accuracy", "balanced", "MCC", "TP FP\nFN TN", "unknown"]
        console.print(table("The judge against labels", heads, lines))
    for row in agreement.ranking:
        console.print(f"{row.group['judge']}, {row.metric.removeprefix('judge:')}: {_short(row.estimate)} %")
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
        for c in agreement.costs
    ]
    heads = ["judge", "n", "calls", "images", "tokens", "p50 s", "p95 s", "cost", "escalated\n%", "saved\n%"]
    for part in tables("Calls and cost per episode", heads, costs, width=console.width):
        console.print(part)


def _short(e: Estimate) -> str:
    return f"{percent(e.value, 0)} ({percent(e.lo, 0)}…{percent(e.hi, 0)})" if e.n else "–"


def _print_episodes(episodes: EpisodeMetrics, *, json: bool, csv: bool) -> None:
    """Print a row per episode as JSON or CSV, else the distribution of every metric."""
    import numpy as np

    names = [column.name for column in episodes.columns]
    rows = [
        {
            "episode_id": row["episode_id"],
            "judge": row["judge"],
            "task": row["task"],
            "policy": row["policy"],
            "revision": episodes.revision,
            **{name: float(episodes.values[name][i]) for name in names},
            "error": row["error"],
        }
        for i, row in enumerate(episodes.episodes)
    ]
    if json or csv:
        print_json(rows) if json else print_csv(rows)
        return
    lines = []
    for name in names:
        known = episodes.values[name][~np.isnan(episodes.values[name])]
        if len(known):
            cuts = np.quantile(known, [0.0, 0.1, 0.5, 0.9, 1.0])
            lines.append([name, str(len(known)), *(percent(float(cut)) for cut in cuts), _histogram(known)])
    console = out()
    heads = ["metric", "n", "least", "p10", "median", "p90", "most", "least…most"]
    for part in tables(
        f"{len(episodes)} episodes, OPD {episodes.revision} (--csv or --json lists them)",
        heads,
        lines,
        width=console.width,
    ):
        console.print(part)


def _histogram(values: Any) -> str:
    import numpy as np

    counts, _ = np.histogram(values, bins=10)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.ceil(8 * count / counts.max()))] for count in counts)
