"""``stepscore annotate``: the stages of rollouts, named and timed by a model."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._tables import Column, PrintedTable, TableRow, count_cell, text_cell
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.numbers import MAX_FPS, MAX_SIZE_PX, between
from stepscore.cli.options.engines import print_shard
from stepscore.cli.outputs import Force, check_overwrite, new_table
from stepscore.cli.tables import err, out, print_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscore.episodes import Episode
    from stepscore.procedures import Annotation


@options.with_groups
def annotate(
    source: options.Source,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="Model that annotates (`stepscore ls models`).")
    ],
    file: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_table, metavar="FILE", help="The labels file (Parquet) to write."
        ),
    ],
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            metavar="FILE",
            help="Subgoals file (YAML) with the allowed stages. Default: planned by the model.",
        ),
    ] = None,
    fps: Annotated[
        float,
        typer.Option(
            "--fps",
            callback=between(0, MAX_FPS, above=True),
            metavar="FPS",
            help="Frames per second in a request.",
        ),
    ] = 2.0,
    max_frames: Annotated[
        int,
        typer.Option(
            "--max-frames", callback=between(2, 10_000), metavar="N", help="Frames in a request, at most."
        ),
    ] = 64,
    size: Annotated[
        int,
        typer.Option(
            "--size",
            callback=between(1, MAX_SIZE_PX),
            metavar="PX",
            help="Longer side of a frame, in pixels.",
        ),
    ] = 336,
    structured: options.Structured = None,
    model_options: options.ModelOptions = [],  # noqa: B006 - typer copies it
    views: Annotated[
        str | None,
        typer.Option("--views", metavar="A,B", help="Only these cameras. Default: the main view."),
    ] = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    *,
    engine: options.ConnectionEngine,
    budget: options.BudgetFlags,
    shard_name: options.LabelsShardName = None,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Name and time the stages of every episode with a model.

    Answers are not corrected. Overlaps, unknown names and invalid times leave an episode without stages;
    gaps and another order than the plan's do not. The table reports both.
    """
    from stepscore.episodes.labels import read_subgoals
    from stepscore.errors import OptionError
    from stepscore.procedures import AnnotateOptions, annotate_episodes, write_labels
    from stepscore.runs import cut, parse_shard, share_of

    shard = None if shard_name is None else parse_shard(shard_name)
    output = chosen_format(output_format, json=json)
    check_overwrite(file, force=force)
    if shard is not None and vocabulary is None:
        raise OptionError(
            "--shard needs --vocabulary FILE: without it every shard would plan stages of its own for one task. "
            "Plan them once: stepscore plan SOURCE --model MODEL -o FILE"
        )
    chosen = options.open_model(model, model_options)
    call_options = engine.call_options(budget)
    cameras = options.split_names(views)
    found: Sequence[Episode] = options.list_source(source, task=task, limit=limit, reader=reader)
    if shard is not None:
        part = cut(found, shard, [chosen])
        print_shard(part, shard, call_options)
        found, call_options = part.episodes, share_of(call_options, shard, part)
    episodes = [episode.with_views(cameras or list(episode.views)[:1]) for episode in found]
    annotations = annotate_episodes(
        episodes,
        chosen,
        file.with_name(f"{file.stem}.attempts"),
        vocabulary=read_subgoals(vocabulary) if vocabulary is not None else None,
        options=AnnotateOptions(fps, max_frames, size, structured=structured),
        call_options=call_options,
        on_done=lambda done: err().print(f"{done.episode_id}: {_summary(done)}", markup=False),
    )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    rows = write_labels(file, {a.episode_id: a.rows(chosen.name, created) for a in annotations})
    failed = sum(annotation.error is not None for annotation in annotations)
    _print(annotations, output)
    total = len(annotations)
    err().print(f"{total - failed} of {total} episodes annotated; wrote {rows} stages to {file}")
    if failed:
        raise typer.Exit(1)


def _summary(annotation: Annotation) -> str:
    if annotation.error is not None:
        return f"no stages: {annotation.error}"
    problems = ", ".join(sorted({problem.kind for problem in annotation.problems}))
    return f"{len(annotation.stages)} stages" + (f", with {problems}" if problems else "")


def _print(annotations: Sequence[Annotation], form: Format) -> None:
    """Print the number of stages of every episode, and the problems with them."""
    records: list[dict[str, Any]] = [
        {
            "episode_id": a.episode_id,
            "plan": a.plan,
            "stages": [stage._asdict() for stage in a.stages],
            "problems": [problem._asdict() for problem in a.problems],
            "error": a.error,
            "calls": a.usage.calls,
            "cost": a.usage.cost,
        }
        for a in annotations
    ]
    rows = tuple(
        TableRow((text_cell(a.episode_id), count_cell(len(a.stages)), count_cell(len(a.problems))))
        for a in annotations
    )
    columns = (Column("episode", left=True), Column("stages"), Column("problems"))
    print_result(
        form,
        [PrintedTable("Stages", columns, rows)],
        records,
        csv_rows=[{**r, "stages": len(r["stages"]), "problems": len(r["problems"])} for r in records],
    )
    if form is not Format.TABLE:
        return
    for a in annotations:
        for text in [f"{p.kind}: {p.text}" for p in a.problems] or ([a.error] if a.error else []):
            out().print(f"{a.episode_id}: {text}", markup=False, soft_wrap=True)
