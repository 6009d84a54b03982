"""``stepscore calibrate``: fit a map from a judge's score to labelled progress."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.numbers import MAX_SEED, between
from stepscore.cli.tables import err, interval, percent, print_json, table
from stepscore.cli.tables import out as stdout

if TYPE_CHECKING:
    from stepscore.analysis import CalibrationResult


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
    json: options.Json = False,
) -> None:
    """Fit a monotone map from a judge's score to labelled progress, and measure it on other episodes.

    Apply it with `stepscore judge ... --calibration FILE`, with the same judge, options and model.
    """
    from stepscore.analysis import calibrate as fit
    from stepscore.judges.common import write_calibration
    from stepscore.runs import open_run

    result = fit(open_run(run), labels=labels, channel=channel, potential=potential, share=share, seed=seed)
    write_calibration(result.fitted, out)
    if json:
        print_json(_rows(result))
    else:
        _print(result)
    err().print(f"Map: {out}\nApply it: stepscore judge SOURCE ... --calibration {out}", soft_wrap=True)


def _rows(result: CalibrationResult) -> dict[str, Any]:
    bins = result.reliability
    return {
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
