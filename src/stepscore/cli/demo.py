"""``stepscore demo``: the main job on rollouts that the demo makes itself."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli import compare, metrics
from stepscore.cli.judge import summarise
from stepscore.cli.show import err


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where to put rollouts and runs.")
    ] = Path("demo"),
    scenes: Annotated[int, typer.Option("--scenes", help="Scenes per task.")] = 8,
) -> None:
    """Make toy rollouts of three policies, score every step of them, and compare the policies."""
    from stepscore.episodes import open_episodes
    from stepscore.episodes.toy import write_toy_rollouts
    from stepscore.judges import get_judge
    from stepscore.runs import score

    rollouts = out / "rollouts"
    if not (rollouts / "manifest.jsonl").is_file():
        err().print(f"Making toy rollouts in {rollouts} …")
        write_toy_rollouts(rollouts, scenes=scenes)
    episodes = open_episodes(rollouts)
    failed = 0
    for name in ("recorded", "linear-time"):
        run = score(episodes, get_judge(name), out / name)
        failed += summarise(run)
    shown = out / "recorded"
    metrics.metrics([shown], by="policy")
    metrics.metrics([shown], by="policy", show=metrics.Show.DIAGNOSIS)
    compare.compare([shown], by="policy", metric="success_label,MP,PPL,STR")
    err().print(
        f"\nThe clock as a judge, beside it: stepscore metrics {out / 'linear-time'}\n"
        f"Every number as JSON:            stepscore metrics {shown} --show all --json\n"
        f"Run folder:                      {shown}"
    )
    if failed:
        raise typer.Exit(1)
