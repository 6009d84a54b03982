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
from stepscore.cli.results.episode_tables import print_episodes
from stepscore.cli.results.judge_tables import print_agreement
from stepscore.cli.tables import (
    episodes_behind,
    err,
    estimate_cell,
    estimate_line,
    out,
    percent,
    print_csv,
    print_json,
    print_notes,
    table,
    tables,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from stepscore.analysis import (
        EpisodeMetrics,
        FailureModes,
        Group,
        GroupEstimate,
        JudgeAgreement,
        SubgoalTable,
    )
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
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="A,B",
            help="Group by any of dataset, robot, task, policy, judge, model, protocol. "
            "Default: policy; with --show judge, all episodes together.",
        ),
    ] = None,
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
    held_out: options.HeldOut = False,
    json: options.Json = False,
    csv: options.Csv = False,
) -> None:
    """Print the metrics of runs by group, each with its 95 % interval and n.

    --json and --csv print every row of the chosen tables with method, clusters and coverage.
    """
    from stepscore.analysis import (
        add_protocol_keys,
        agreement_with_baselines,
        distinct_runs,
        grouped_estimates,
        measure_episodes,
        mixed_note,
        subgoal_tables,
    )
    from stepscore.runs import open_run

    opened = distinct_runs(open_run(path) for path in runs)
    given = options.split_names(by) if by is not None else None
    asked = ["policy"] if by is None else given or []
    episodes = measure_episodes(
        opened,
        revision=revision,
        channel=channel,
        labels=labels,
        potential=potential,
        done_at=done_at,
        held_out=held_out,
    )
    keys = add_protocol_keys(episodes.episodes, asked)
    apart = [key for key in keys if key not in asked]
    notes = [*episodes.notes, mixed_note(asked, keys)]
    if show is Show.EPISODES:
        print_episodes(episodes, apart, json=json, csv=csv)
        return
    everything = show is Show.ALL
    estimates = grouped_estimates(episodes, keys)
    subgoals: list[SubgoalTable] = []
    if everything or show in (Show.MAIN, Show.SUBGOALS):
        subgoals = subgoal_tables(opened, keys, left_out=episodes.repeated)
    modes = policy_failure_modes(episodes, apart) if everything or show is Show.FAILURE_MODES else []
    agreement = None
    if everything or show is Show.JUDGE:
        agreement = agreement_with_baselines(opened, given or [], held_out=held_out)
    if json or csv:
        rows = _rows(show, estimates, subgoals, modes, agreement)
        rows = [{**row, "revision": revision} for row in rows]
        print_json(rows) if json else print_csv([_flat(row) for row in rows])
        return
    note = f"OPD {revision} on {channel}; percent with 95 % intervals; n = episodes, in a cell those known"
    _print_estimates(show, estimates, revision, note, episodes.success_name)
    print_notes(notes)
    if command := options.published_revision_command(opened, revision):
        err().print(f"As PRM-as-a-Judge publishes it: {command}", soft_wrap=True)
    _print_subgoals(show, subgoals)
    for group, found in modes:
        print_failure_modes(found, group, revision)
    if agreement is not None:
        print_agreement(agreement)


def _rows(
    show: Show,
    estimates: list[GroupEstimate],
    subgoals: list[SubgoalTable],
    modes: list[tuple[Group, FailureModes]],
    agreement: JudgeAgreement | None,
) -> list[dict[str, Any]]:
    """Return what --json prints: every row of the tables asked for."""
    rows: list[dict[str, Any]] = []
    if show in (Show.MAIN, Show.CONDITIONED, Show.ALL):
        rows += [row.to_dict() for row in estimates]
    rows += [row.to_dict() for subgoal_table in subgoals for row in subgoal_table.estimates()]
    for group, found in modes:
        rows += [{**row, "group": {**row["group"], **group}} for row in found.to_dicts()]
    return rows + (agreement.to_dicts() if agreement is not None else [])


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    return {**row["group"], **{name: value for name, value in row.items() if name != "group"}}


def _print_estimates(
    show: Show, estimates: list[GroupEstimate], revision: str, note: str, success_name: str
) -> None:
    console = out()
    if show in (Show.MAIN, Show.ALL):
        main = [row for row in estimates if "|" not in row.metric]
        _print_groups(console, f"Metrics (OPD {revision})", main, note, success_name)
    if show in (Show.CONDITIONED, Show.ALL):
        for source in ("label", "judge"):
            for word in ("success", "failure"):
                chosen = [row for row in estimates if row.metric.endswith(f"|{word}:{source}")]
                if chosen:
                    by = source if source == "label" else success_name.removeprefix("success by ")
                    title = f"Among {word} by {by} (OPD {revision})"
                    _print_groups(console, title, chosen, note, success_name)


def _print_groups(
    console: Console, title: str, estimates: list[GroupEstimate], note: str, success_name: str
) -> None:
    """Print a row per group, a column per metric; a cell has its own n where it is not the row's."""
    from stepscore.analysis import MAIN_METRICS, coverage_note

    lines: dict[tuple[Any, ...], dict[str, Estimate]] = defaultdict(dict)
    for row in estimates:
        lines[tuple(row.group.values())][row.metric.split("|")[0]] = row.estimate
    names = [name for name in MAIN_METRICS if any(name in line for line in lines.values())]
    rows = []
    coverages: dict[str, dict[str, float]] = {name: {} for name in names}
    for key, line in lines.items():
        n = episodes_behind(line.values())
        label = " / ".join("unknown" if part is None else str(part) for part in key) or "all"
        rows.append([escape(label), str(n), *(estimate_cell(line.get(name), n) for name in names)])
        for name in names:
            coverages[name][label] = line[name].coverage if name in line else math.nan
    by_judge = success_name.replace(" by ", "\nby ").replace(", ", ",\n")
    heads = [
        {"success_label": "success\nby label", "success_judge": by_judge}.get(name, name) for name in names
    ]
    for part in tables(title, ["group", "n", *heads], rows, width=console.width):
        console.print(part)
    # Below the last part and not as its caption: that part may be one narrow column.
    print_notes([note, coverage_note(coverages)])


def policy_failure_modes(episodes: EpisodeMetrics, apart: Sequence[str]) -> list[tuple[Group, FailureModes]]:
    """Return how policies fail: once for every judge, where there are several."""
    from stepscore.analysis import episode_groups, failure_modes_by_policy

    groups = episode_groups(episodes, apart)
    return [(group, failure_modes_by_policy(episodes.select(chosen))) for group, chosen in groups]


def _print_subgoals(show: Show, subgoals: list[SubgoalTable]) -> None:
    console = out()
    for subgoal_table in subgoals:
        # Labels of subgoals are the same for every run, so the main tables leave them out.
        if show is not Show.MAIN or subgoal_table.source == "judge":
            console.print(_subgoal_table(subgoal_table))
    print_notes(_subgoal_notes(subgoals))
    if show is Show.SUBGOALS and not subgoals:
        console.print("Nothing is known of any subgoal: no verdict of the judge and no label says yes or no.")


def _subgoal_notes(subgoals: list[SubgoalTable]) -> list[str]:
    """Return a sentence for each task and source of verdicts whose groups are not known to the same extent."""
    from stepscore.analysis import coverage_note

    coverages: dict[tuple[Any, ...], dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for found in subgoals:
        name = " / ".join("unknown" if part is None else part for part in found.group.values())
        for subgoal, estimate in zip(found.names, found.reached, strict=True):
            coverages[found.group["task"], found.source][subgoal][name] = estimate.coverage
    return [coverage_note(by_subgoal) for by_subgoal in coverages.values()]


def _subgoal_table(subgoals: SubgoalTable) -> Table:
    where = escape(", ".join("unknown" if part is None else part for part in subgoals.group.values()))
    columns = (subgoals.names, subgoals.reached, subgoals.given_previous, subgoals.fails_first)
    n = episodes_behind(subgoals.reached)
    rows = [
        [escape(name), *(estimate_cell(e, n) for e in line), str(n)]
        for name, *line in zip(*columns, strict=True)
    ]
    violations = subgoals.violations
    out_of_order = f"out of order: {percent(violations.value)} % of {violations.n} episodes"
    heads = ["subgoal", "reached", "given previous", "fails first", "n"]
    note = "" if subgoals.reviewed else " (drafted; not yet reviewed by a person)"
    return table(f"Subgoals{note} by {subgoals.source}: {where}", heads, rows, caption=out_of_order)


def print_failure_modes(modes: FailureModes, group: Group, revision: str) -> None:
    """Print how each policy fails, and what to look at; ``group`` names the judge where there are several."""
    console = out()
    judge = "".join(f", {escape(str(part))}" for part in group.values())
    rows = [
        [
            escape(policy.policy or "unknown"),
            str(policy.failures),
            "\n".join(f"{name} {estimate_line(e, policy.failures)}" for name, e in policy.shares.items())
            or "–",
            percent(policy.stability, 0),
            estimate_line(policy.inefficient),
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
    shares = table(f"How each policy fails (success by {modes.source}{judge})", heads, rows)
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
