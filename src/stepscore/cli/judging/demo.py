"""``stepscore demo``: judge, measure and report rollouts that come with the package, by its embedded judge.

The rollouts were made by::

    stepscore sim --tasks drawer-open,door-open,window-close,button-press-topdown \
        --policies expert,noisy:1,freeze,undo --episodes-per-task 8 --views close --size 224 --fps 20 --crf 26 \
        --seed 7001 -o src/stepscore/cli/demo_data
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore.cli.judging.judge import summarise
from stepscore.cli.results import metrics
from stepscore.cli.tables import err, out, table

if TYPE_CHECKING:
    from stepscore.judges import Judge
    from stepscore.runs import Run

ROLLOUTS = Path(__file__).parents[1] / "demo_data"
"""32 simulated rollouts: four policies on the same two scenes of four tasks."""
REVISION = "robust"
"""OPD revision of its tables and page: the task counts as done where it is, and what follows does not count."""


def demo(
    folder: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the runs and the report.")
    ] = Path("demo"),
) -> None:
    """Score every step of 32 bundled rollouts with the embedded judge, and compare their four policies."""
    from stepscore.analysis import measure_episodes
    from stepscore.episodes import open_episodes
    from stepscore.report import write_report
    from stepscore.runs import open_run, score

    labels, subgoals = ROLLOUTS / "labels.parquet", ROLLOUTS / "subgoals.yaml"
    episodes = open_episodes(ROLLOUTS, labels=labels, subgoals=subgoals)
    failed = 0
    for judge in _judges():
        err().print(f"Judging {len(episodes)} rollouts with {judge.name} on the embedded model …")
        failed += summarise(score(episodes, judge, folder / judge.name))
    progress_run, subgoals_run = folder / "topreward", folder / "stepeval"
    metrics.metrics([progress_run], by="policy", revision=REVISION)
    measured = measure_episodes(open_run(progress_run), revision=REVISION)
    for group, modes in metrics.policy_failure_modes(measured, []):
        metrics.print_failure_modes(modes, group, REVISION)
    _print_vectors(open_run(subgoals_run))
    page = write_report(
        [open_run(progress_run), open_run(subgoals_run)], folder / "report", revision=REVISION
    )
    err().print(
        f"\nAgreement of the judge with labels: stepscore metrics {subgoals_run} --show judge\n"
        f"Each subgoal, with intervals:       stepscore metrics {subgoals_run} --show subgoals\n"
        f"Every number as JSON:               stepscore metrics {progress_run} --show all --json\n"
        f"OPD as published:                   stepscore metrics {progress_run} --by policy --revision v1.0\n"
        f"Rollouts:                           {ROLLOUTS}\n"
        f"Report:                             {page}\n"
        f"Run folders:                        {progress_run} and {subgoals_run}",
        soft_wrap=True,
    )
    if failed:
        raise typer.Exit(1)


def _print_vectors(run: Run) -> None:
    """Print the success vector of every task: the share of episodes that reached each subgoal, by policy."""
    from stepscore.analysis import subgoal_tables

    vectors = {(v.group["task"], v.group["policy"], v.source): v for v in subgoal_tables(run, ("policy",))}
    policies = sorted({str(policy) for _, policy, _ in vectors})
    caption = "percent of a policy's episodes that reached it: by judge / by label"
    for task in dict.fromkeys(task for task, _, _ in vectors):
        names = vectors[task, policies[0], "judge"].names
        rows = []
        for index, name in enumerate(names):
            pairs = [[vectors[task, policy, source] for source in ("judge", "label")] for policy in policies]
            cells = [" / ".join(f"{100 * v.reached[index].value:.0f}" for v in pair) for pair in pairs]
            rows.append([escape(name), *cells])
        out().print(table(f"Subgoals: {escape(str(task))}", ["subgoal", *policies], rows, caption=caption))


def _judges() -> list[Judge]:
    """Return the demo's judges: topreward for progress and stepeval for subgoals, both on the embedded model."""
    from stepscore.judges import get_judge
    from stepscore.models import get_model

    model = get_model("embedded")
    return [
        get_judge("topreward", model=model),
        get_judge("stepeval", model=model, strategy="per-subgoal", answer="statement"),
    ]
