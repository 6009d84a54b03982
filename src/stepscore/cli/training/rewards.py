"""``stepscore rewards``: write the reward of every frame of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._tables import Column, PrintedTable, TableRow, count_cell, number_cell, percent_cell
from stepscore._watching import doing
from stepscore.cli import options
from stepscore.cli.formats import FormatName, Json, chosen_format
from stepscore.cli.options import KeyGroup
from stepscore.cli.outputs import WEIGHTS, Force, check_output, new_table
from stepscore.cli.tables import err, print_result
from stepscore.cli.training.weights_options import Channel
from stepscore.cli.waiting import watched

if TYPE_CHECKING:
    from stepscore.rewards import RunRewards

Out = Annotated[
    Path,
    typer.Option("--out", "-o", callback=new_table, metavar="FILE", help="Parquet: one reward per frame."),
]
Rewarding = Annotated[dict[str, Any], KeyGroup("-W", "reward", of=("stepscore.rewards:RewardOptions",))]


@options.with_groups
def rewards(
    run: options.RunFolder,
    out: Out,
    *,
    rewarding: Rewarding,
    channel: Channel = "progress",
    force: Force = False,
    output_format: FormatName = None,
    json: Json = False,
) -> None:
    """Write the reward of every frame of a run.

    -W form=potential is safe to add to the environment's reward; dense is a weight for imitation.
    """
    from stepscore.rewards import SAFE, RewardOptions, run_rewards, write_rewards
    from stepscore.runs import open_run

    output = chosen_format(output_format, json=json)
    chosen = RewardOptions(**rewarding)
    check_output(out, WEIGHTS, force=force)
    with watched("Opening the run") as watch:
        opened = open_run(run, watch=watch)
        with doing(watch, "Making rewards"):
            made = run_rewards(opened, chosen, channel)
        provenance = {
            "run": opened.path.name,
            "judge": opened.judge,
            "model": opened.model,
            "protocol": opened.protocol.hash,
        }
        with doing(watch, "Writing rewards"):
            write_rewards(out, made, provenance)
    print_result(output, *_summary(made))
    err().print(f"form={chosen.form}: {SAFE[chosen.form]}.", soft_wrap=True)
    if made.unknown == 1:
        err().print("Warning: every reward is unknown.", style="yellow")
    err().print(f"Wrote {out}", soft_wrap=True, markup=False)


def _summary(made: RunRewards) -> tuple[list[PrintedTable], dict[str, Any]]:
    """Return the table that a person reads, and what ``--json`` prints."""
    import numpy as np

    from stepscore.runs import finite_or_none

    known = made.rewards[~np.isnan(made.rewards)]
    mean, low, high = (
        (float(known.mean()), float(known.min()), float(known.max())) if len(known) else (np.nan,) * 3
    )
    record = {
        "options": dict(made.options),
        "episodes": len(made.frames.episodes),
        "frames": len(made.rewards),
        "unknown": finite_or_none(made.unknown),
        "mean": finite_or_none(mean),
        "min": finite_or_none(low),
        "max": finite_or_none(high),
        "left_out": dict(made.frames.left_out or {}),
    }
    cells = (
        count_cell(len(made.frames.episodes)),
        count_cell(len(made.rewards)),
        percent_cell(made.unknown),
        *(number_cell(value, ".3f") for value in (mean, low, high)),
    )
    heads = ("episodes", "frames", "% unknown", "mean", "min", "max")
    stated = ", ".join(f"{name}={value}" for name, value in made.options.items())
    return [PrintedTable("Rewards", tuple(map(Column, heads)), (TableRow(cells),), (stated,))], record
