"""``stepscore pairs``: the pairwise test of a judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.judging.judge import print_dry_run, print_failures
from stepscore.cli.judging.progress_bar import RunBars
from stepscore.cli.numbers import MANY, MAX_SEED, between
from stepscore.cli.outputs import PAIRS, Force, check_output, new_file, new_folder
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepscore.audit.pairs import AskedPairs, PairTest
    from stepscore.runs import CallOptions, Run

app = typer.Typer(no_args_is_help=True, help="Score a judge on pairs of timestamps in known order.")


@app.command("make")
def make(
    source: options.Source,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_file, metavar="FILE", help="The pairs (JSON lines) to write."
        ),
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
    force: Force = False,
) -> None:
    """Draw pairs of timestamps from episodes with labelled progress: small, medium and large, half of them falls."""
    from stepscore.audit.pairs import SPANS, make_progress_pairs, write_pairs

    check_output(out, PAIRS, force=force)
    episodes = options.list_source(source, labels=labels, task=task, limit=limit, reader=reader)
    pairs = make_progress_pairs(episodes, per_span=per_span, seed=seed, potential=potential)
    write_pairs(out, pairs)
    counts = ", ".join(f"{sum(pair.span == span for pair in pairs)} {span}" for span in SPANS)
    err().print(f"{len(pairs)} pairs ({counts}), half of them falls\nPairs: {out}", soft_wrap=True)


@app.command("score")
@options.with_groups
def score_command(
    pairs_file: Annotated[
        Path,
        typer.Argument(metavar="PAIRS", help="Pairs of `stepscore pairs make`, or a file for --columns."),
    ],
    name: Annotated[
        str, typer.Option("--judge", metavar="JUDGE", help="Judge to test, see `stepscore ls judges`.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="RUN", help="Run folder. An existing one is resumed."
        ),
    ],
    source: Annotated[
        str | None, typer.Option("--source", metavar="SOURCE", help="The source that they were made from.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="A=FIELD,...",
            help="Fields of another tool's pairs, for example images=image,label=answer, or a YAML file.",
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(
            "--images",
            metavar="PATH",
            help="Folder or zip archive of the images, with --columns. Default: the file's folder.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="compare|curve",
            help="Ask about the two frames, or score the whole curve. Default: compare if possible.",
        ),
    ] = None,
    consistency: Annotated[
        bool,
        typer.Option(
            "--consistency",
            help="Also ask whether the answers of a comparing judge fit together.",
        ),
    ] = False,
    *,
    test: Annotated[
        dict[str, Any],
        options.KeyGroup(
            "-T",
            "consistency test",
            of=("stepscore.audit.pairs:ConsistencyOptions",),
            leave_out=("episodes",),
        ),
    ],
    judge_flags: options.JudgeFlags,
    views: options.Views = None,
    goal: options.Goal = None,
    labels: options.LabelsFile = None,
    reader: options.ReaderName = None,
    engine: options.ConnectionEngine,
    budget: options.BudgetFlags,
    dry_run: options.DryRun = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Score a judge on pairs: the share of right signs by span, with the clock and the constant below.

    A judge that compares frames is asked about the two frames of each pair. --consistency also asks whether its
    answers are consistent with each other.
    """
    from stepscore.audit.pairs import (
        ConsistencyOptions,
        PairTest,
        check_file_judge,
        chosen_by,
        pairs_of_source,
        plan_consistency,
        read_pairs,
    )
    from stepscore.errors import OptionError
    from stepscore.judges import check_subgoals

    chosen_form = chosen_format(output_format, json=json)
    if (source is None) == (columns is None):
        raise OptionError(
            "Give the source that the pairs were made from: --source SOURCE; or, for another tool's file of images, "
            "its fields: --columns A=FIELD,..."
        )
    asked = None if columns is None else _from_file(pairs_file, columns, images)
    pairs = read_pairs(pairs_file) if asked is None else asked.pairs
    chosen = judge_flags.open(name)
    if asked is not None:
        check_file_judge(chosen, by)
    how = chosen_by(chosen, by, consistency=consistency)
    call_options = engine.call_options(budget)
    if not dry_run:
        call_options.check(chosen.models)
    cameras = options.split_names(views)
    if asked is None:
        view = cameras[0] if cameras else None
        listed = options.list_source(str(source), labels=labels, reader=reader, goal=goal, goal_view=view)
        asked = pairs_of_source(pairs, listed)
    plan = None
    if consistency:
        extra = ConsistencyOptions(**test)
        plan = plan_consistency(chosen, asked.pairs, asked.clips, asked.episodes, extra)
    elif test:
        raise OptionError("-T is about the consistency test: give --consistency, too.")
    pair_test = PairTest(asked, chosen, how, plan)
    if dry_run:
        _print_dry_run(pair_test, call_options, cameras)
        return
    check_subgoals(chosen, pair_test.shown)
    if plan is not None:
        err().print(plan.sentence(), soft_wrap=True)
    with RunBars() as bars:
        result = pair_test.run(
            out, views=cameras, call_options=call_options, on_start=bars.start, on_done=bars.advance
        )
    print_result(chosen_form, result.tables(), result.to_dicts())
    _finish(result.runs, out)


def _from_file(path: Path, columns: str, images: Path | None) -> AskedPairs:
    """Return the pairs of images of another tool's file."""
    from stepscore.audit.pairs import AskedPairs, read_columns, read_pair_file

    found = read_pair_file(path, read_columns(columns), images)
    if found.undirected:
        err().print(f"{found.undirected} records have the label 0, no direction, and are left out.")
    return AskedPairs(found.pairs, {}, found.clips, {})


def _print_dry_run(test: PairTest, call_options: CallOptions, views: list[str] | None) -> None:
    """Print the planned questions."""
    what = "pairs" if test.by == "compare" else "episodes"
    print_dry_run(test.shown, test.scored, call_options, views, what)
    for name, part in test.plan.parts.items() if test.plan is not None else ():
        what = f"{'episodes' if name.startswith('curves') else name} of --consistency ({name})"
        print_dry_run(part.episodes, part.judge, call_options, views, what)


def _finish(runs: Sequence[Run], out: Path) -> None:
    """Print the run's path and the failed pairs; exit with 1 if there are any."""
    failures: dict[str, str] = {}
    for run in runs:
        rows = run.judgements().select(["episode_id", "error"]).to_pylist()
        failures |= {row["episode_id"]: row["error"] for row in rows if row["error"]}
    print_failures(failures, f"; all are in the error column of {out / 'judgements.parquet'}")
    err().print(f"Run: {out}", soft_wrap=True)
    if failures:
        raise typer.Exit(1)
