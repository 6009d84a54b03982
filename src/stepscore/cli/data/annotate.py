"""``stepscore annotate``: a model names and times the stages of rollouts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.tables import err, out, print_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscore.procedures import Annotation


def annotate(
    source: options.Source,
    model: Annotated[str, typer.Option("--model", help="Who looks: hf/PATH-OR-ID, openai-api/...")],
    file: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The labels file (Parquet) to write.")
    ],
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            "--vocabulary",
            metavar="FILE",
            help="The only stage names allowed, by task, in order (YAML, as subgoals); else the model plans.",
        ),
    ] = None,
    fps: Annotated[float, typer.Option("--fps", metavar="X", help="Frames a second that it sees.")] = 2.0,
    max_frames: Annotated[int, typer.Option("--max-frames", metavar="N", help="Frames at most.")] = 64,
    size: Annotated[int, typer.Option("--size", metavar="PX", help="Longer side of a frame.")] = 336,
    tries: Annotated[
        int, typer.Option("--tries", metavar="N", help="Answers to one question; told what was wrong.")
    ] = 2,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", metavar="N", help="Length of an answer at most.")
    ] = 1024,
    model_options: options.ModelOptions = [],  # noqa: B006 - typer copies it
    base_url: options.BaseUrl = None,
    views: Annotated[
        str | None,
        typer.Option("--views", metavar="A,B", help="Only these cameras; the main one if not given."),
    ] = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    price_in: options.PriceIn = None,
    price_out: options.PriceOut = None,
    connections: options.Connections = 8,
    no_cache: options.NoCache = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    json: options.Json = False,
) -> None:
    """Plan the stages of each task, then say when each runs in every episode of SOURCE.

    Answers are taken as they stand. Overlaps, unknown names and times that make no sense leave an episode
    without stages; gaps and another order than the plan's are reported. Either way the table says so.
    """
    from stepscore.episodes import open_episodes
    from stepscore.episodes.labels import read_subgoals
    from stepscore.errors import OptionError
    from stepscore.models.calls import Budget
    from stepscore.procedures import AnnotateOptions, annotate_episodes, write_labels
    from stepscore.runs import CallOptions

    if file.exists() and not force:
        raise OptionError(
            f"{file} is there already; it may hold a person's work. Write over it with --force."
        )
    chosen = options.open_model(model, model_options, base_url)
    call_options = CallOptions(
        Budget(max_calls, max_cost), price_in, price_out, cache=not no_cache, connections=connections
    )
    cameras = options.split_names(views)
    found = open_episodes(source, task=task, limit=limit, reader=reader)
    episodes = [episode.with_views(cameras or list(episode.views)[:1]) for episode in found]
    made = annotate_episodes(
        episodes,
        chosen,
        file.with_name(f"{file.stem}.attempts"),
        vocabulary=read_subgoals(vocabulary) if vocabulary is not None else None,
        options=AnnotateOptions(fps, max_frames, size, tries, max_tokens),
        call_options=call_options,
        on_done=lambda one: err().print(f"{one.episode_id}: {_summary(one)}", markup=False),
    )
    created = datetime.now(UTC).isoformat(timespec="seconds")
    rows = write_labels(file, {one.episode_id: one.rows(chosen.name, created) for one in made})
    failed = sum(one.error is not None for one in made)
    _print(made, json=json)
    err().print(f"{len(made) - failed} of {len(made)} episodes annotated; wrote {rows} stages to {file}")
    if failed:
        raise typer.Exit(1)


def _summary(one: Annotation) -> str:
    if one.error is not None:
        return f"no stages: {one.error}"
    odd = ", ".join(sorted({problem.kind for problem in one.problems}))
    return f"{len(one.stages)} stages" + (f", with {odd}" if odd else "")


def _print(made: Sequence[Annotation], *, json: bool) -> None:
    """What was found in every episode, and all that is wrong with it."""
    if json:
        print_json(
            [
                {
                    "episode_id": one.episode_id,
                    "plan": one.plan,
                    "stages": [stage._asdict() for stage in one.stages],
                    "problems": [problem._asdict() for problem in one.problems],
                    "error": one.error,
                    "calls": one.usage.calls,
                    "cost": one.usage.cost,
                }
                for one in made
            ]
        )
        return
    rows = [[escape(one.episode_id), str(len(one.stages)), str(len(one.problems))] for one in made]
    out().print(table("Stages", ["episode", "stages", "problems"], rows))
    for one in made:
        for text in [f"{p.kind}: {p.text}" for p in one.problems] or ([one.error] if one.error else []):
            out().print(f"{one.episode_id}: {text}", markup=False, soft_wrap=True)
