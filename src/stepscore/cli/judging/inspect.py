"""``stepscore inspect``: show what is in a source, before anything is judged."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape

from stepscore._progress import track
from stepscore._tables import Column, PrintedTable, TableRow, count_cell, number_cell, text_cell
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import out, print_result, table

if TYPE_CHECKING:
    from stepscore.episodes import Episode, Episodes


def inspect(
    source: options.Source,
    labels: options.LabelsFile = None,
    subgoals: options.SubgoalsFile = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    policy_from: options.PolicyFrom = None,
    instruction: options.Instruction = None,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """List the contents of a source and its unreadable files."""
    from stepscore.episodes import open_episodes

    chosen = chosen_format(output_format, json=json)
    with show_progress("Listing episodes"):
        episodes = open_episodes(
            source,
            labels=labels,
            subgoals=subgoals,
            task=task,
            limit=limit,
            reader=reader,
            policy_from=policy_from,
            instruction=instruction,
        )
        contents = survey(episodes)
    if chosen is Format.TABLE:
        _print(contents)
    else:
        print_result(chosen, _tables(contents), contents)
    if contents["problems"]:
        raise typer.Exit(1)


_LABELS = ("successes", "failures", "unlabelled", "with stages", "with subgoals", "with a recorded curve")


def survey(episodes: Episodes) -> dict[str, Any]:
    """Return what a source holds, as plain values. Opens every video's header; decodes nothing."""
    from stepscore.errors import StepScoreError

    problems = [{"where": where, "why": why} for where, why in episodes.problems]
    cameras: dict[tuple[str, str, str], int] = Counter()
    seconds: list[float] = []
    first: list[str] = []
    tasks: dict[str, Counter[str]] = defaultdict(Counter)
    labels = dict.fromkeys(_LABELS, 0)
    for episode in track(episodes, "Reading headers", len(episodes)):
        first += [episode.id] if len(first) < 3 else []
        tasks[episode.task or episode.instruction][episode.policy or "unknown"] += 1
        for name in _labels(episode):
            labels[name] += 1
        for name, view in episode.views.items():
            try:
                info = view.info()
            except StepScoreError as error:
                problems.append({"where": f"{episode.id}, view {name}", "why": str(error)})
                continue
            cameras[name, f"{info.width}x{info.height}", f"{info.fps:g}"] += 1
            seconds.append(info.duration_s)
    return {
        "source": episodes.source,
        "reader": episodes.reader,
        "rules": list(episodes.rules),
        "episodes": len(episodes),
        "first_ids": first,
        "tasks": [{"task": task, "policies": dict(sorted(n.items()))} for task, n in sorted(tasks.items())],
        "cameras": [
            {"name": name, "size": size, "fps": fps, "episodes": n}
            for (name, size, fps), n in sorted(cameras.items())
        ],
        "seconds": {"shortest": min(seconds), "longest": max(seconds), "total": sum(seconds)}
        if seconds
        else None,
        "labels": labels,
        "notes": list(episodes.notes),
        "problems": problems,
    }


def _labels(episode: Episode) -> list[str]:
    """Return the label count that an episode belongs to."""
    success = {True: "successes", False: "failures", None: "unlabelled"}[episode.labels.success]
    has = {
        "with stages": bool(episode.labels.stages),
        "with subgoals": bool(episode.subgoals),
        "with a recorded curve": bool(episode.recorded),
    }
    return [success, *(name for name, one in has.items() if one)]


def _tables(contents: dict[str, Any]) -> list[PrintedTable]:
    """Return the tables for Markdown, LaTeX and CSV: tasks by policy, cameras, lengths, labels, problems."""
    policies = sorted({policy for row in contents["tasks"] for policy in row["policies"]})
    tasks = [
        (text_cell(row["task"]), *(count_cell(row["policies"].get(policy, 0)) for policy in policies))
        for row in contents["tasks"]
    ]
    cameras = [
        (text_cell(c["name"]), text_cell(c["size"]), text_cell(c["fps"]), count_cell(c["episodes"]))
        for c in contents["cameras"]
    ]
    seconds = [
        (text_cell(name), number_cell(value, ".1f")) for name, value in (contents["seconds"] or {}).items()
    ]
    labels = [(text_cell(name), count_cell(count)) for name, count in contents["labels"].items()]
    problems = [(text_cell(p["where"]), text_cell(p["why"])) for p in contents["problems"]]
    made = (
        ("Episodes by task and policy", ("task", *policies), tasks),
        ("Cameras", ("camera", "size", "fps", "episodes"), cameras),
        ("Length of a video", ("of all", "seconds"), seconds),
        ("Labels", ("episodes", "n"), labels),
        ("Could not be read", ("where", "why"), problems),
    )
    return [
        PrintedTable(
            title,
            tuple(Column(head, left=index == 0) for index, head in enumerate(heads)),
            tuple(TableRow(row) for row in rows),
        )
        for title, heads, rows in made
        if rows
    ]


def _print(contents: dict[str, Any]) -> None:
    console = out()
    console.print(
        f"[bold]{contents['episodes']} episodes[/bold] in {escape(contents['source'])}, "
        f"read as {contents['reader']}",
        markup=True,
    )
    console.print(f"First ids: {'; '.join(contents['first_ids'])}", markup=False)
    console.print("Rules used to read the source:")
    for rule in contents["rules"]:
        console.print(f"  {rule}", markup=False)
    tasks = [
        [escape(row["task"]), escape(", ".join(f"{p} ({n})" for p, n in row["policies"].items()))]
        for row in contents["tasks"]
    ]
    console.print(table("Tasks", ["task", "episodes by policy"], tasks[:20], text_columns={1}))
    if len(tasks) > 20:
        console.print(f"… and {len(tasks) - 20} more tasks (--json lists all)")
    cameras = [[escape(c["name"]), c["size"], c["fps"], str(c["episodes"])] for c in contents["cameras"]]
    console.print(table("Cameras", ["camera", "size", "fps", "episodes"], cameras))
    if contents["seconds"]:
        lengths = contents["seconds"]
        console.print(
            f"Length: {lengths['shortest']:.1f} to {lengths['longest']:.1f} s per video, "
            f"{lengths['total']:.0f} s in total"
        )
    console.print("Labels: " + ", ".join(f"{n} {name}" for name, n in contents["labels"].items()))
    for note in contents["notes"]:
        console.print(note, soft_wrap=True, markup=False)
    for problem in contents["problems"][:20]:
        where, why = escape(problem["where"]), escape(problem["why"])
        console.print(f"[red]Could not read[/red] {where}: {why}", soft_wrap=True, markup=True)
    if len(contents["problems"]) > 20:
        console.print(f"… and {len(contents['problems']) - 20} more (--json lists all)")
