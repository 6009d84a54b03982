"""``stepscore calibrate``: fit a map from a judge's score to labelled progress."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._tables import (
    Cell,
    Column,
    PrintedTable,
    TableRow,
    count_cell,
    estimate_cell,
    percent_cell,
    text_cell,
)
from stepscore.cli import options
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.outputs import MAP, Force, check_output, new_file
from stepscore.cli.progress import with_bar
from stepscore.cli.tables import err, print_result

if TYPE_CHECKING:
    from stepscore.analysis import CalibrationResult, SuccessCalibration


class SuccessModeName(StrEnum):
    """When success counts."""

    EVER = "ever"
    HOLDS = "holds"


def calibrate(
    run: options.RunFolder,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_file, metavar="FILE", help="The calibration map (JSON) to write."
        ),
    ],
    labels: options.TruthFile = None,
    channel: Annotated[
        str, typer.Option("--channel", metavar="NAME", help="Channel of the curve to map.")
    ] = "progress",
    potential: options.Potential = None,
    share: Annotated[
        float, typer.Option("--share", callback=between(0, 1), help="Share of the episodes to fit on.")
    ] = 0.5,
    seed: Annotated[
        int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed of the split.")
    ] = 0,
    success_channel: Annotated[
        str | None,
        typer.Option(
            "--success-channel",
            metavar="NAME",
            help="Channel of the success map; default: margin where there is one, else progress.",
        ),
    ] = None,
    success_mode: Annotated[
        SuccessModeName | None,
        typer.Option(
            "--success-mode", help="Labels to fit success to, where some are `ever` and some `holds`."
        ),
    ] = None,
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Fit a judge's score to labelled progress and success.

    Apply it with `stepscore judge ... -J calibration=FILE`, with the same judge, options and model.
    """
    from stepscore.analysis import calibrate as fit
    from stepscore.judges.common import write_calibration
    from stepscore.runs import open_run

    chosen = chosen_format(output_format, json=json)
    check_output(out, MAP, force=force)
    result = with_bar(fit, "Fitting the maps")(
        with_bar(open_run, "Opening the run")(run),
        labels=labels,
        channel=channel,
        potential=potential,
        share=share,
        seed=seed,
        success_channel=success_channel,
        success_mode=None if success_mode is None else success_mode.value,
    )
    write_calibration(result.fitted, out)
    tables = _progress_tables(result) if result.n_fit else []
    tables += _success_tables(result.success) if result.success is not None else []
    print_result(chosen, tables, _rows(result))
    if result.success is None:
        err().print("No success map: it needs labelled successes and labelled failures.")
    err().print(
        f"Map: {out}\nApply it: stepscore judge SOURCE ... -J calibration={shlex.quote(str(out))}",
        soft_wrap=True,
    )


def _rows(result: CalibrationResult) -> dict[str, Any]:
    bins = result.reliability
    return {
        "success": None if result.success is None else _without_episodes(result.success),
        "fitted_on": result.n_fit,
        "held_out": result.n_held_out,
        "left_out": result.left_out,
        "before": result.before.to_dict() if result.before else None,
        "after": result.after.to_dict(),
        "reliability": [
            {"lo": lo, "hi": hi, "n": n, "said": mapped, "true": label}
            for lo, hi, n, mapped, label in zip(
                bins.edges[:-1].tolist(),
                bins.edges[1:].tolist(),
                bins.n.tolist(),
                bins.predicted.tolist(),
                bins.labelled.tolist(),
                strict=True,
            )
        ],
    }


def _without_episodes(success: SuccessCalibration) -> dict[str, Any]:
    terms = {"channel": success.fitted.channel, "mode": success.fitted.mode, "copies": success.copies}
    return {**terms, **success.to_dict()}


def _success_tables(success: SuccessCalibration) -> list[PrintedTable]:
    """Return the cross-fitted verdicts: all episodes, then by task."""
    estimates = {
        "balanced accuracy": success.balanced,
        "success by judge": success.rate_judge,
        "success by label": success.rate_label,
        "judge minus label": success.rate_error,
        "AUC": success.auc,
    }
    rows = [(text_cell(name), estimate_cell(e)) for name, e in estimates.items()]
    rows.append((text_cell("Brier score"), percent_cell(success.brier)))
    rows.append((text_cell("calibration error (ECE)"), percent_cell(success.ece)))
    note = (
        f"Percent with 95 % intervals; cross-fitted over the scenes of {success.n} episodes; the map is fitted "
        "on all. Brier score and ECE weigh successes and failures equally, as the map does."
    )
    lines = [
        (
            text_cell(task.task),
            text_cell(f"{task.successes} / {task.failures}"),
            percent_cell(task.balanced.value),
            percent_cell(task.rate_error.value),
            text_cell("own" if task.own_term else "pooled"),
        )
        for task in success.by_task
    ]
    heads = ("successes /\nfailures", "balanced\naccuracy", "judge minus\nlabel", "map")
    return [
        _table("Against labelled success", ("metric", "verdict at 0.5"), rows, note),
        _table("Success by task", ("task", *heads), lines),
    ]


def _progress_tables(result: CalibrationResult) -> list[PrintedTable]:
    rows: list[tuple[Cell, ...]] = []
    for name, key in (("mean absolute error", "mae"), ("concordance (CCC)", "ccc")):
        estimates = [getattr(f, key) if f else None for f in (result.before, result.after)]
        rows.append((text_cell(name), *map(estimate_cell, estimates)))
    for name, key in (("calibration error (ECE)", "ece"), ("mean squared error", "brier")):
        values = [getattr(f, key) if f else float("nan") for f in (result.before, result.after)]
        rows.append((text_cell(name), *map(percent_cell, values)))
    note = (
        f"Percent with 95 % intervals, over {result.n_held_out} held-out episodes; "
        f"fitted on {result.n_fit} others; {result.left_out} left out because they have no label or no curve."
    )
    bins = result.reliability
    lines = [
        (
            text_cell(f"{100 * lo:.0f}…{100 * hi:.0f}"),
            count_cell(int(n)),
            percent_cell(float(mapped)),
            percent_cell(float(label)),
        )
        for lo, hi, n, mapped, label in zip(
            bins.edges[:-1], bins.edges[1:], bins.n, bins.predicted, bins.labelled, strict=True
        )
        if n
    ]
    return [
        _table("Against labelled progress", ("metric", "before", "after"), rows, note),
        _table("Reliability after", ("mapped to", "points", "mean mapped", "mean label"), lines),
    ]


def _table(
    title: str, heads: Sequence[str], rows: Sequence[tuple[Cell, ...]], note: str = ""
) -> PrintedTable:
    columns = tuple(Column(head, left=index == 0) for index, head in enumerate(heads))
    return PrintedTable(title, columns, tuple(TableRow(row) for row in rows), (note,) if note else ())
