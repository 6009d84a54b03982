"""``stepscore calibrate``: a run and labelled progress in, a map from score to progress out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore.cli import options
from stepscore.cli.tables import err, interval, percent, print_json, table
from stepscore.cli.tables import out as stdout

if TYPE_CHECKING:
    from stepscore.analysis import CalibrationResult


def calibrate(
    run: options.RunFolder,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="MAP", help="Where to write the map (JSON).")],
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="Labelled progress or stages; else the run's stages."),
    ] = None,
    channel: Annotated[str, typer.Option("--channel", help="Series of the curve to map.")] = "progress",
    potential: Annotated[
        str | None, typer.Option("--potential", metavar="NAME", help="Which of several progress labels.")
    ] = None,
    share: Annotated[float, typer.Option("--share", help="Share of the episodes to fit on.")] = 0.5,
    seed: Annotated[int, typer.Option("--seed", help="Another seed gives another split.")] = 0,
    json: options.Json = False,
) -> None:
    """Fit a monotone map from a judge's score to labelled progress, and measure it on other episodes.

    Apply it with `stepscore judge ... -J calibration=MAP`: same judge, options and model.
    """
    from stepscore.analysis import calibrate as fit
    from stepscore.judges.common import write_calibration
    from stepscore.runs import open_run

    made = fit(open_run(run), labels=labels, channel=channel, potential=potential, share=share, seed=seed)
    write_calibration(made.fitted, out)
    if json:
        print_json(_rows(made))
    else:
        _print(made)
    err().print(f"Map: {out}\nApply it: stepscore judge SOURCE ... -J calibration={out}", soft_wrap=True)


def _rows(made: CalibrationResult) -> dict[str, Any]:
    bins = made.reliability
    return {
        "fitted_on": made.n_fit,
        "held_out": made.n_held_out,
        "left_out": made.left_out,
        "before": made.before.row() if made.before else None,
        "after": made.after.row(),
        "reliability": [
            {"lo": lo, "hi": hi, "n": n, "said": said, "true": true}
            for lo, hi, n, said, true in zip(
                bins.edges[:-1].tolist(),
                bins.edges[1:].tolist(),
                bins.n.tolist(),
                bins.said.tolist(),
                bins.true.tolist(),
                strict=True,
            )
        ],
    }


def _print(made: CalibrationResult) -> None:
    console = stdout()
    rows = []
    for name, key in (("mean absolute error", "mae"), ("concordance (CCC)", "ccc")):
        shown = [getattr(f, key) if f else None for f in (made.before, made.after)]
        rows.append([name, *(interval(e.value, e.lo, e.hi) if e else "–" for e in shown)])
    for name, key in (("calibration error (ECE)", "ece"), ("mean squared error", "brier")):
        values = [getattr(f, key) if f else float("nan") for f in (made.before, made.after)]
        rows.append([name, *(percent(value) for value in values)])
    note = (
        f"Percent with 95 % intervals, over {made.n_held_out} episodes that the map has not seen; "
        f"fitted on {made.n_fit} others; {made.left_out} left out for want of a label or a curve."
    )
    console.print(table("Against labelled progress", ["figure", "before", "after"], rows, caption=note))
    bins = made.reliability
    lines = [
        [f"{100 * lo:.0f}…{100 * hi:.0f}", str(n), percent(said), percent(true)]
        for lo, hi, n, said, true in zip(
            bins.edges[:-1], bins.edges[1:], bins.n, bins.said, bins.true, strict=True
        )
        if n
    ]
    console.print(table("Reliability after", ["map says", "points", "mean said", "mean true"], lines))
