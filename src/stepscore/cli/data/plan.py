"""``stepscore plan``: subgoals drafted from an instruction."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import options
from stepscore.cli.tables import err


def plan(
    instruction: Annotated[str, typer.Argument(metavar="INSTRUCTION", help="The text the robot is given.")],
    model: Annotated[
        str,
        typer.Option("--model", metavar="MODEL", help="Model that drafts them; see `stepscore ls models`."),
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The subgoals file (YAML) to write.")
    ],
    video: Annotated[
        str | None,
        typer.Option("--video", metavar="SOURCE", help="A rollout of the task, whose frames are sent too."),
    ] = None,
    model_options: options.ModelOptions = [],  # noqa: B006 - typer copies it
    base_url: options.BaseUrl = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Draft ordered subgoals with visible criteria, marked as unreviewed until a person has read them."""
    from stepscore.episodes import open_episodes
    from stepscore.errors import OptionError
    from stepscore.procedures import plan_subgoals, write_subgoals

    if out.exists() and not force:
        raise OptionError(f"{out} exists and may hold a person's work. Overwrite it with --force.")
    chosen = options.open_model(model, model_options, base_url)
    episode = open_episodes(video)[0] if video is not None else None
    with tempfile.TemporaryDirectory() as folder:
        draft = plan_subgoals(instruction, chosen, Path(folder), episode=episode)
    write_subgoals(draft, out)
    for number, subgoal in enumerate(draft.subgoals, start=1):
        err().print(f"{number}. {subgoal.name} ({subgoal.mode}): {subgoal.criterion}", markup=False)
    err().print(f"Wrote {out}. Review it, correct it, and set reviewed: true.")
