"""``stepscore compare``: print the differences between policies, or between judges."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore._options import DEFAULT_REVISION
from stepscore._tables import group_name
from stepscore.cli import options
from stepscore.cli.formats import Format, FormatName, Json, chosen_format
from stepscore.cli.local_code import load_metrics
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import print_notes, print_result


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="One run folder, or two.")],
    by: Annotated[
        str,
        typer.Option("--by", metavar="A,B", help="Compare by any of policy, task, dataset, robot, judge."),
    ] = "policy",
    metric: Annotated[
        str | None,
        typer.Option("--metrics", metavar="A,B", help="Only these metrics (`stepscore ls metrics`)."),
    ] = None,
    metric_files: options.MetricFiles = None,
    revision: options.Revision = DEFAULT_REVISION,
    done_at: options.DoneAt = None,
    held_out: options.HeldOut = False,
    scenes: options.Scenes = "auto",
    validation: options.ValidationFile = None,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Print differences between groups, with intervals and tests.

    Policies that were run on the same scenes are paired on task and scene, two judges on the episode. With fewer than
    ten repeated scenes, the result applies only to these scenes.
    """
    from stepscore.analysis import compare as compare_runs
    from stepscore.analysis import validation_notes
    from stepscore.analysis.tables import comparison_tables
    from stepscore.runs import open_run

    load_metrics(metric_files)
    chosen = chosen_format(output_format, json=json)
    names = options.split_names(metric)
    keys = options.split_names(by) or []
    with show_progress("Comparing"):
        compared = compare_runs(
            runs,
            keys,
            metrics=names,
            revision=revision,
            done_at=done_at,
            held_out=held_out,
            scenes=scenes,
        )
        opened = [open_run(path) for path in runs]
        options.keep_validation(opened, validation)
        notes = (*compared.notes, *validation_notes(opened))
    rows = compared.to_dicts()
    flat = [{**row, "a": group_name(row["a"]), "b": group_name(row["b"])} for row in rows]
    print_result(chosen, comparison_tables(compared, notes), rows, csv_rows=flat)
    if chosen is Format.TABLE and not rows:
        print_notes(("Nothing can be compared: no metric is known in two of the groups.", *notes))
