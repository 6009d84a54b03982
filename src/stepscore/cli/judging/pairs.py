"""``stepscore pairs``: the pairwise test of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.formats import Csv, FormatName, Json, chosen_format
from stepscore.cli.judging.judge import open_judge, print_wait
from stepscore.cli.judging.progress_bar import EpisodesBar
from stepscore.cli.numbers import MANY, MAX_SEED, between
from stepscore.cli.tables import err, print_result

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
        Path, typer.Option("--out", "-o", metavar="RUN", help="Run folder; an existing one is resumed.")
    ],
    judge_options: options.JudgeOptions = [],  # noqa: B006 - typer copies it
    model: options.JudgeModel = None,
    model_options: options.ModelOptions = [],  # noqa: B006
    base_url: options.BaseUrl = None,
    calibration: options.CalibrationFile = None,
    reader: options.ReaderName = None,
    max_calls: options.MaxCalls = None,
    max_cost: options.MaxCost = None,
    price_in: options.PriceIn = None,
    price_out: options.PriceOut = None,
    connections: options.Connections = 8,
    no_cache: options.NoCache = False,
    output_format: FormatName = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Score a judge on pairs: the share of right signs by span, with the clock and the constant beside it."""
    from stepscore.audit import judged_episodes
    from stepscore.audit.pairs import pair_table, pair_videos, read_pairs, score_pairs, trivial_results
    from stepscore.episodes import open_episodes
    from stepscore.judges import check_subgoals
    from stepscore.models.calls import Budget
    from stepscore.runs import CallOptions, score

    chosen_form = chosen_format(output_format, json=json, csv=csv)
    pairs = read_pairs(pairs_file)
    chosen = open_judge(name, judge_options, model, model_options, base_url, calibration)
    call_options = CallOptions(
        Budget(max_calls, max_cost),
        price_in,
        price_out,
        cache=not no_cache,
        connections=connections,
        on_wait=print_wait,
    )
    call_options.check(chosen.models)
    listed = open_episodes(source, reader=reader)
    videos = pair_videos(pairs, {episode.id: episode for episode in listed})
    shown = list({episode.id: episode for episode in videos.values()}.values())
    check_subgoals(chosen, shown)
    with EpisodesBar(len(shown), chosen.name) as bar:
        run = score(shown, chosen, out, call_options=call_options, on_done=bar.advance)
    results = [
        score_pairs(chosen.name, pairs, videos, judged_episodes(run)),
        *trivial_results(pairs, videos),
    ]
    records = [row for result in results for row in result.to_dicts()]
    print_result(chosen_form, [pair_table(results)], records)
    err().print(f"Run: {run.path}", soft_wrap=True)
