"""``stepscore pairs``: the pairwise test of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli import options
from stepscore.cli.formats import Csv, FormatName, Json, chosen_format
from stepscore.cli.judging.judge import open_judge, print_dry_run, print_failures, print_wait
from stepscore.cli.judging.progress_bar import EpisodesBar
from stepscore.cli.numbers import MANY, MAX_SEED, between
from stepscore.cli.outputs import new_folder
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from stepscore.audit.pairs import By
    from stepscore.judges import Judge
    from stepscore.runs import Run

app = typer.Typer(
    no_args_is_help=True, help="Make pairs of timestamps with known order, and score a judge on them."
)


@app.command("make")
def make(
    source: options.Source,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The pairs (JSON lines) to write.")
    ],
    per_span: Annotated[
        int,
        typer.Option("--per-span", callback=between(2, MANY), metavar="N", help="Most pairs of each span."),
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed.")] = 0,
    labels: options.LabelsFile = None,
    potential: options.Potential = None,
    task: options.Task = None,
    limit: options.Limit = None,
    reader: options.ReaderName = None,
) -> None:
    """Draw pairs of timestamps from episodes with labelled progress: small, medium and large, half of them falls."""
    from stepscore.audit.pairs import SPANS, make_progress_pairs, write_pairs
    from stepscore.episodes import open_episodes

    episodes = open_episodes(source, labels=labels, task=task, limit=limit, reader=reader)
    pairs = make_progress_pairs(episodes, per_span=per_span, seed=seed, potential=potential)
    write_pairs(out, pairs)
    counts = ", ".join(f"{sum(pair.span == span for pair in pairs)} {span}" for span in SPANS)
    err().print(f"{len(pairs)} pairs ({counts}), half of them falls\nPairs: {out}", soft_wrap=True)


@app.command("score")
def score_command(
    pairs_file: Annotated[Path, typer.Argument(metavar="PAIRS", help="Pairs of `stepscore pairs make`.")],
    source: Annotated[
        str, typer.Option("--source", metavar="SOURCE", help="The source they were made from.")
    ],
    name: Annotated[
        str, typer.Option("--judge", metavar="JUDGE", help="Judge to test, see `stepscore ls judges`.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="RUN", help="Run folder; an existing one is resumed."
        ),
    ],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="compare|curve",
            help="Ask about exactly the two frames of a pair, or score the curve over the whole video; default: "
            "compare where the judge can.",
        ),
    ] = None,
    judge_options: options.JudgeOptions = [],  # noqa: B006 - typer copies it
    model: options.JudgeModel = None,
    model_options: options.ModelOptions = [],  # noqa: B006
    base_url: options.BaseUrl = None,
    calibration: options.CalibrationFile = None,
    views: options.Views = None,
    goal: options.Goal = None,
    reader: options.ReaderName = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    price_in: options.PriceIn = None,
    price_out: options.PriceOut = None,
    connections: options.Connections = 8,
    no_cache: options.NoCache = False,
    dry_run: options.DryRun = False,
    output_format: FormatName = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Score a judge on pairs: the share of right signs by span, with the clock and the constant beside it."""
    from stepscore.audit import judged_episodes
    from stepscore.audit.pairs import (
        Compare,
        pair_changes,
        pair_clips,
        pair_table,
        pair_videos,
        read_pairs,
        score_changes,
        score_pairs,
        trivial_comparisons,
        trivial_results,
    )
    from stepscore.episodes import open_episodes
    from stepscore.judges import check_subgoals
    from stepscore.models.calls import Budget
    from stepscore.runs import CallOptions, score

    chosen_form = chosen_format(output_format, json=json, csv=csv)
    pairs = read_pairs(pairs_file)
    chosen = open_judge(name, judge_options, model, model_options, base_url, calibration)
    how = _scored_by(chosen, by)
    call_options = CallOptions(
        Budget(max_calls, max_cost),
        price_in,
        price_out,
        cache=not no_cache,
        connections=connections,
        on_wait=print_wait,
    )
    if not dry_run:
        call_options.check(chosen.models)
    cameras = options.split_names(views)
    listed = open_episodes(source, reader=reader, goal=goal, goal_view=cameras[0] if cameras else None)
    videos = pair_videos(pairs, {episode.id: episode for episode in listed})
    asked: Judge = Compare(chosen) if how == "compare" else chosen
    distinct = list({episode.id: episode for episode in videos.values()}.values())
    shown = pair_clips(pairs, videos) if how == "compare" else distinct
    if dry_run:
        print_dry_run(shown, asked, call_options, cameras, "pairs" if how == "compare" else "episodes")
        return
    check_subgoals(chosen, shown)
    with EpisodesBar(len(shown), chosen.name) as bar:
        run = score(shown, asked, out, views=cameras, call_options=call_options, on_done=bar.advance)
    if how == "compare":
        own = score_changes(chosen.name, pairs, pair_changes(run, pairs), by=how)
        results = [own, *trivial_comparisons(pairs)]
    else:
        results = [
            score_pairs(chosen.name, pairs, videos, judged_episodes(run)),
            *trivial_results(pairs, videos),
        ]
    records = [row for result in results for row in result.to_dicts()]
    print_result(chosen_form, [pair_table(results)], records)
    _finish(run)


def _scored_by(judge: Judge, by: str | None) -> By:
    """Return what is scored: what the option says, else direct comparison where the judge can compare."""
    from stepscore.audit.pairs import check_compares
    from stepscore.errors import UnknownNameError
    from stepscore.judges import FrameComparer

    if by not in (None, "compare", "curve"):
        raise UnknownNameError("value of --by", by, ("compare", "curve"))
    if by == "compare":
        check_compares(judge)
    return "compare" if by == "compare" or (by is None and isinstance(judge, FrameComparer)) else "curve"


def _finish(run: Run) -> None:
    """Print where the run is, and what could not be judged; exit with 1 where something could not."""
    rows = run.judgements().select(["episode_id", "error"]).to_pylist()
    failures = {row["episode_id"]: row["error"] for row in rows if row["error"]}
    print_failures(failures, f"; all are in the error column of {run.path / 'judgements.parquet'}")
    err().print(f"Run: {run.path}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)
