"""``stepscore rewards``: write the reward of every frame of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from stepscore._progress import doing
from stepscore.cli import options
from stepscore.cli.options import KeyGroup
from stepscore.cli.outputs import WEIGHTS, Force, check_output, new_table
from stepscore.cli.progress import show_progress
from stepscore.cli.tables import err

Out = Annotated[
    Path,
    typer.Option("--out", "-o", callback=new_table, metavar="FILE", help="Parquet: one reward per frame."),
]
Rewarding = Annotated[dict[str, Any], KeyGroup("-W", "reward", of=("stepscore.rewards:RewardOptions",))]


@options.with_groups
def rewards(run: options.RunFolder, out: Out, *, rewarding: Rewarding, force: Force = False) -> None:
    """Write the reward of every frame of a run.

    -W form=potential is safe to add to the environment's reward; dense is a weight for imitation.
    """
    from stepscore.rewards import SAFE, RewardOptions, run_rewards, write_rewards
    from stepscore.runs import open_run

    chosen = RewardOptions(**rewarding)
    check_output(out, WEIGHTS, force=force)
    with show_progress("Opening the run"):
        opened = open_run(run)
        with doing("Making rewards"):
            made = run_rewards(opened, chosen)
        provenance = {
            "run": opened.path.name,
            "judge": opened.judge,
            "model": opened.model,
            "protocol": opened.protocol.hash,
        }
        with doing("Writing rewards"):
            write_rewards(out, made, provenance)
    console = err()
    console.print(made.summary(), soft_wrap=True)
    console.print(f"form={chosen.form}: {SAFE[chosen.form]}.", soft_wrap=True)
    for name, why in (made.frames.left_out or {}).items():
        console.print(f"Left out: {name}: {why}", soft_wrap=True, markup=False)
    console.print(f"Wrote {out}", soft_wrap=True, markup=False)
