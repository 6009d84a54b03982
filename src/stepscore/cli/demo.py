"""``stepscore demo``: the main job on rollouts and with a model that come with the package.

The rollouts were made by::

    stepscore sim --tasks drawer-open,door-open,window-close,button-press-topdown \
        --policies expert,noisy:1,freeze,undo --per-task 8 --views close --size 224 --fps 20 --crf 26 \
        --seed 7001 -o src/stepscore/cli/demo_data
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli import metrics
from stepscore.cli.judge import summarise
from stepscore.cli.show import err

if TYPE_CHECKING:
    from stepscore.judges import Judge

ROLLOUTS = Path(__file__).parent / "demo_data"
"""32 simulated rollouts: four policies meet the same two scenes of four tasks."""


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to put the runs.")] = Path(
        "demo"
    ),
) -> None:
    """Score every step of 32 bundled rollouts with the embedded judge, and compare their four policies."""
    from stepscore.episodes import open_episodes
    from stepscore.report import write_report
    from stepscore.runs import open_run, score

    labels, subgoals = ROLLOUTS / "labels.parquet", ROLLOUTS / "subgoals.yaml"
    episodes = open_episodes(ROLLOUTS, labels=labels, subgoals=subgoals)
    failed = 0
    for judge in _judges():
        err().print(f"Judging {len(episodes)} rollouts: {judge.name} on the embedded judge …")
        failed += summarise(score(episodes, judge, out / judge.name))
    progress, steps = out / "topreward", out / "stepeval"
    metrics.metrics([progress], by="policy")
    metrics.metrics([progress], by="policy", show=metrics.Show.DIAGNOSIS)
    metrics.metrics([steps], by="policy", show=metrics.Show.SUBGOALS)
    page = write_report([open_run(progress), open_run(steps)], out / "report")
    err().print(
        f"\nWhat the judge can be trusted with: stepscore metrics {steps} --show judge\n"
        f"Every number as JSON:               stepscore metrics {progress} --show all --json\n"
        f"Rollouts:                           {ROLLOUTS}\n"
        f"Report:                             {page}\n"
        f"Run folders:                        {progress} and {steps}",
        soft_wrap=True,
    )
    if failed:
        raise typer.Exit(1)


def _judges() -> list[Judge]:
    """Progress by topreward and a verdict on every subgoal by stepeval, both by the embedded model."""
    from stepscore.judges import get_judge
    from stepscore.models import get_model
    from stepscore.models.embedded import CALIBRATION

    model = get_model("embedded")
    return [
        get_judge("topreward", model=model, min_first=2, calibration=str(CALIBRATION)),
        get_judge("stepeval", model=model, strategy="per-subgoal", answer="tokens"),
    ]
