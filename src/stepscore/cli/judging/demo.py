"""``stepscore demo``: judge, measure and report rollouts that come with the package, by its embedded judge.

The rollouts were made by::

    stepscore sim --tasks bin-picking,basketball,box-close,assembly --policies expert,hesitate,drop,undo \
        --episodes-per-task 8 --views close --size 448 --fps 40 --crf 26 --seed 7001 -o src/stepscore/cli/demo_data
"""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.judging.demo_text import print_findings, print_next_steps
from stepscore.cli.judging.progress_bar import EpisodesBar
from stepscore.cli.outputs import DEMO, PAGE, Force, check_output, new_folder
from stepscore.cli.tables import err

if TYPE_CHECKING:
    from stepscore.judges import Judge

ROLLOUTS = Path(__file__).parents[1] / "demo_data"
"""32 simulated rollouts: four policies on the same two scenes of four tasks."""
TASKS = ("bin-picking", "basketball", "box-close", "assembly")
"""Tasks of five subgoals each."""
STEPS = "reach, hold, lift, bring, place"
"""What the subgoals of every task are about, in their order."""
POLICIES = {
    "expert": "does the task",
    "hesitate": "stops again and again on the way",
    "drop": "lets go of what it holds",
    "undo": "does the task, then undoes it",
}
"""What each policy does. The judge does not know it."""
VIEW, SIZE, FPS = "close", 448, 40
LIMITS = (
    "(A clock takes time for progress: the baseline that a judge has to beat.) Both ask one model, which was trained "
    "on other scenes of these tasks and 21 more of this simulator, and answers unknown on videos of anything else "
    "(its figures: docs/models/embedded.md)."
)
OWN_VIDEOS = (
    ("stepscore inspect rollouts --policy-from 1", "what is there, and what cannot be read"),
    (
        "stepscore judge rollouts --policy-from 1 --judge topreward --model hf/Qwen/Qwen3-VL-8B-Instruct "
        "-o runs/mine",
        "judges every video; this model needs a GPU and pip install 'stepscore[local]'. On a server: --model "
        "vllm/...; a hosted one: --judge gvl --model openai-api/...; none yet, to try it out: --judge linear-time "
        "in place of judge and model",
    ),
    ("stepscore report runs/mine -o report", "writes the same page about them"),
)
"""The commands to do the same with your own videos, and what each does."""


def demo(
    folder: Annotated[
        Path,
        typer.Option(
            "--out", "-o", callback=new_folder, metavar="DIR", help="Folder for the runs and the report."
        ),
    ] = Path("demo"),
    *,
    force: Force = False,
) -> None:
    """Judge 32 bundled rollouts and compare their four policies."""
    from stepscore.analysis import judge_trust, measure_episodes, run_findings
    from stepscore.episodes import open_episodes
    from stepscore.report import write_report
    from stepscore.runs import score

    check_output(folder, DEMO, force=force)
    check_output(folder / "report" / "index.html", PAGE, force=force)
    labels, subgoals = ROLLOUTS / "labels.parquet", ROLLOUTS / "subgoals.yaml"
    episodes = open_episodes(ROLLOUTS, labels=labels, subgoals=subgoals)
    err().print(
        f"{len(episodes)} rollouts of {len(POLICIES)} simulated policies, on the same scenes of {len(TASKS)} tasks "
        f"of five steps ({STEPS}). What each policy does wrong is known to us, not to the judge, a small model in "
        "the package."
    )
    runs = []
    for judge, asks in zip(demo_judges(), ("progress", "subgoals"), strict=True):
        with EpisodesBar(len(episodes), f"{judge.name} ({asks})") as bar:
            runs.append(score(episodes, judge, folder / judge.name, on_done=bar.advance))
    progress, by_subgoal = runs
    metrics = measure_episodes(progress)
    page = write_report(runs, folder / "report")
    print_findings(metrics, run_findings(progress, metrics), judge_trust(by_subgoal), POLICIES, page, LIMITS)
    print_next_steps(OWN_VIDEOS)
    err().print(
        f"\nReport:      {page}\n"
        f"Run folders: {progress.path} and {by_subgoal.path}\n"
        f"All metrics: stepscore metrics {shlex.quote(str(progress.path))}\n"
        f"Subgoals:    stepscore metrics {shlex.quote(str(by_subgoal.path))} --show subgoals\n"
        f"Rollouts:    {ROLLOUTS}",
        soft_wrap=True,
    )
    failed = [row["error"] for run in runs for row in run.judgements().to_pylist() if row["error"]]
    if failed:
        err().print(f"{len(failed)} judgements failed; the first: {failed[0]}", soft_wrap=True)
        raise typer.Exit(1)


def demo_judges() -> list[Judge]:
    """Return the demo's judges: topreward for progress and stepeval for subgoals, both on the embedded model."""
    from stepscore.judges import get_judge
    from stepscore.models import get_model

    model = get_model("embedded")
    return [get_judge("topreward", model=model), get_judge("stepeval", model=model)]
