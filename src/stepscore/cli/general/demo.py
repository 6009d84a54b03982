"""``stepscore demo``: the main job on rollouts and with a model that come with the package.

The rollouts were made by::

    stepscore sim --tasks drawer-open,door-open,window-close,button-press-topdown \
        --policies expert,noisy:1,freeze,undo --episodes-per-task 8 --views close --size 224 --fps 20 --crf 26 \
        --seed 7001 -o src/stepscore/cli/demo_data
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.judging.judge import summarise
from stepscore.cli.results import metrics
from stepscore.cli.tables import err, out, table

if TYPE_CHECKING:
    from stepscore.judges import Judge
    from stepscore.runs import Run

ROLLOUTS = Path(__file__).parents[1] / "demo_data"
"""32 simulated rollouts: four policies meet the same two scenes of four tasks."""


def demo(
    folder: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to put the runs.")] = Path(
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
        failed += summarise(score(episodes, judge, folder / judge.name))
    progress, steps = folder / "topreward", folder / "stepeval"
    metrics.metrics([progress], by="policy")
    metrics.metrics([progress], by="policy", show=metrics.Show.FAILURE_MODES)
    _print_vectors(open_run(steps))
    page = write_report([open_run(progress), open_run(steps)], folder / "report")
    err().print(
        f"\nWhat the judge can be trusted with: stepscore metrics {steps} --show judge\n"
        f"Each subgoal, with intervals:       stepscore metrics {steps} --show subgoals\n"
        f"Every number as JSON:               stepscore metrics {progress} --show all --json\n"
        f"Rollouts:                           {ROLLOUTS}\n"
        f"Report:                             {page}\n"
        f"Run folders:                        {progress} and {steps}",
        soft_wrap=True,
    )
    if failed:
        raise typer.Exit(1)


def _print_vectors(run: Run) -> None:
    """The success vector of every task: the share of episodes that reached each subgoal, policy by policy."""
    from stepscore.analysis import subgoal_tables

    found = subgoal_tables(run, ("policy",))
    by = {(made.group["task"], made.group["policy"], made.source): made for made in found}
    policies = sorted({str(policy) for _, policy, _ in by})
    said = "percent of a policy's episodes that reached it: by judge / by label"
    for task in dict.fromkeys(made.group["task"] for made in found):
        names = next(made.names for made in found if made.group["task"] == task)
        rows = []
        for number, name in enumerate(names):
            pairs = [[by[task, policy, source] for source in ("judge", "label")] for policy in policies]
            cells = [" / ".join(f"{100 * one.reached[number].value:.0f}" for one in pair) for pair in pairs]
            rows.append([name, *cells])
        out().print(table(f"Subgoals: {task}", ["subgoal", *policies], rows, caption=said))


def _judges() -> list[Judge]:
    """Progress by topreward and a verdict on every subgoal by stepeval, both by the embedded model."""
    from stepscore.judges import get_judge
    from stepscore.models import get_model
    from stepscore.models.embedded import CALIBRATION

    model = get_model("embedded")
    return [
        get_judge("topreward", model=model, min_first=2, calibration=str(CALIBRATION)),
        get_judge("stepeval", model=model, strategy="per-subgoal", answer="statement"),
    ]
