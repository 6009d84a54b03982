"""``stepscore calibrate``: fit a map from a judge's score to labelled progress."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from stepscore.cli import options
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.tables import err, interval, percent, print_json, table
from stepscore.cli.tables import out as stdout

if TYPE_CHECKING:
    from stepscore.analysis import CalibrationResult, SuccessCalibration


class SuccessModeName(StrEnum):
    """When success counts."""

    EVER = "ever"
    HOLDS = "holds"


def calibrate(
    run: options.RunFolder,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The calibration map (JSON) to write.")
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
    json: options.Json = False,
) -> None:
    """Fit a judge's score to labelled progress and to labelled success, and measure both on other episodes.

    Apply it with `stepscore judge ... --calibration FILE`, with the same judge, options and model.
    """
    from stepscore.analysis import calibrate as fit
    from stepscore.judges.common import write_calibration
    from stepscore.runs import open_run

    result = fit(
        open_run(run),
        labels=labels,
        channel=channel,
        potential=potential,
        share=share,
        seed=seed,
        success_channel=success_channel,
        success_mode=None if success_mode is None else success_mode.value,
    )
    write_calibration(result.fitted, out)
    if json:
        print_json(_rows(result))
    else:
        if result.n_fit:
            _print(result)
        if result.success is not None:
            _print_success(result.success)
    if result.success is None:
        err().print("No success map: it needs labelled successes and labelled failures.")
    err().print(f"Map: {out}\nApply it: stepscore judge SOURCE ... --calibration {out}", soft_wrap=True)


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


def _print_success(success: SuccessCalibration) -> None:
    """Print the cross-fitted verdicts: all episodes, then by task."""
    console = stdout()
    rows = [
        [name, interval(e.value, e.lo, e.hi)]
        for name, e in (
            ("balanced accuracy", success.balanced),
            ("success by judge", success.rate_judge),
            ("success by label", success.rate_label),
            ("judge minus label", success.rate_error),
            ("AUC", success.auc),
        )
    ]
    rows += [["Brier score", percent(success.brier)], ["calibration error (ECE)", percent(success.ece)]]
    note = (
        f"Percent with 95 % intervals; cross-fitted over the scenes of {success.n} episodes; the map is fitted "
        "on all. Brier score and ECE weigh successes and failures equally, as the map does."
    )
    console.print(table("Against labelled success", ["metric", "verdict at 0.5"], rows, caption=note))
    lines = [
        [
            escape(task.task),
            f"{task.successes} / {task.failures}",
            percent(task.balanced.value),
            percent(task.rate_error.value),
            "own" if task.own_term else "pooled",
        ]
        for task in success.by_task
    ]
    heads = ["task", "successes /\nfailures", "balanced\naccuracy", "judge minus\nlabel", "map"]
    console.print(table("Success by task", heads, lines))


def _print(result: CalibrationResult) -> None:
    console = stdout()
    rows = []
    for name, key in (("mean absolute error", "mae"), ("concordance (CCC)", "ccc")):
        estimates = [getattr(f, key) if f else None for f in (result.before, result.after)]
        rows.append([name, *(interval(e.value, e.lo, e.hi) if e else "–" for e in estimates)])
    for name, key in (("calibration error (ECE)", "ece"), ("mean squared error", "brier")):
        values = [getattr(f, key) if f else float("nan") for f in (result.before, result.after)]
        rows.append([name, *(percent(value) for value in values)])
    note = (
        f"Percent with 95 % intervals, over {result.n_held_out} held-out episodes; "
        f"fitted on {result.n_fit} others; {result.left_out} left out because they have no label or no curve."
    )
    console.print(table("Against labelled progress", ["metric", "before", "after"], rows, caption=note))
    bins = result.reliability
    lines = [
        [f"{100 * lo:.0f}…{100 * hi:.0f}", str(n), percent(mapped), percent(label)]
        for lo, hi, n, mapped, label in zip(
            bins.edges[:-1], bins.edges[1:], bins.n, bins.predicted, bins.labelled, strict=True
        )
        if n
    ]
    console.print(table("Reliability after", ["mapped to", "points", "mean mapped", "mean label"], lines))
