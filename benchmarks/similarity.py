"""Similarity with the embedded judge's vision encoder, beside topreward and the clock, on scenes never trained on.

    python -m benchmarks.similarity WORK

WORK gets a dataset of `stepscore sim` (seed 60018: twelve trained tasks, six policies, two scenes of each task; made
where it is not there yet) and a run of each judge. Goal images are last frames of labelled successes of the same
task in another scene, so that similarity uses labels, and topreward and the clock do not.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import stepscore
from stepscore.analysis import auc_estimate, measure_episodes
from stepscore.analysis.labelled_progress import LabelledCurve, labelled_curves
from stepscore.episodes import open_episodes
from stepscore.metrics import make_pairs
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.runs import CallOptions, Run
from stepscore.types import Estimate, FloatArray

SEED = 60018
TASKS = (
    *(
        "assembly",
        "box-close",
        "button-press",
        "coffee-push",
        "door-open",
        "drawer-open",
        "faucet-open",
        "hammer",
    ),
    *("lever-pull", "peg-insert-side", "shelf-place", "window-open"),
)
POLICIES = ("expert", "noisy:0.5", "drop", "freeze", "wrong-target", "undo")
JUDGES: dict[str, tuple[str, dict[str, Any]]] = {
    "similarity gap": ("similarity", {"model": "embedded", "clip": True}),
    "similarity projection": ("similarity", {"model": "embedded", "form": "projection", "clip": True}),
    "topreward": ("topreward", {"model": "embedded"}),
    "linear-time": ("linear-time", {}),
}
MIN_CHANGE = 0.03
"""Least true change of progress between the two points of a pair."""


def make_dataset(folder: Path) -> None:
    options = {
        "--tasks": ",".join(TASKS),
        "--policies": ",".join(POLICIES),
        "--episodes-per-task": str(2 * len(POLICIES)),
        "--fps": "10",
        "--seed": str(SEED),
    }
    flags = [part for option in options.items() for part in option]
    subprocess.run([sys.executable, "-m", "stepscore", "sim", "-o", str(folder), *flags], check=True)


def judged(dataset: Path, name: str, out: Path) -> Run:
    judge, options = JUDGES[name]
    goal = "last-success" if judge == "similarity" else None
    episodes = open_episodes(dataset, labels=dataset / "labels.parquet", goal=goal)
    return stepscore.score(
        episodes, stepscore.get_judge(judge, **options), out, call_options=CallOptions(cache=False)
    )


def figures(run: Run, labels: Path) -> dict[str, Estimate]:
    metrics = measure_episodes(run)
    tasks = [str(row["task"]) for row in metrics.episodes]
    scenes = [row["pair"] for row in metrics.episodes]
    found = {
        name: mean_estimate(metrics.values[name], clusters=scenes, strata=tasks)
        for name in ("VOC", "stage_MAE", "coverage")
    }
    outcome = metrics.values["success_label"]
    last = np.array([values[-1] if len(values) else np.nan for _, values in metrics.curves])
    scores = [row["success_score"] for row in metrics.episodes]
    given = np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
    for name, values in (("AUC, success score", given), ("AUC, last progress", last)):
        if not np.isnan(values).all():
            found[name] = auc_estimate(values, outcome, tasks=tasks, scenes=scenes)
    curves, _ = labelled_curves(run, "progress", labels, "potential")
    counts = np.stack([pair_counts(curve) for curve in curves]).T
    by_task, by_scene = [curve.task for curve in curves], [curve.pair for curve in curves]
    for name, share in (("pairs", accuracy), ("pairs, balanced", balanced_accuracy)):
        found[name] = statistic_estimate(share, tuple(counts), clusters=by_scene, strata=by_task)
    return found


def pair_counts(curve: LabelledCurve) -> FloatArray:
    """Return the pairs of an episode that rise and were judged so, that rise, and the same of those that fall."""
    pairs = make_pairs(np.arange(len(curve.truth)), curve.truth, curve.scores)
    known = (np.abs(pairs.true_delta) >= MIN_CHANGE) & ~np.isnan(pairs.judged_delta)
    true, judged = pairs.true_delta[known], pairs.judged_delta[known]
    right = np.where(judged == 0, 0.5, np.sign(judged) == np.sign(true))
    return np.array([right[true > 0].sum(), (true > 0).sum(), right[true < 0].sum(), (true < 0).sum()])


def accuracy(rising: FloatArray, rises: FloatArray, falling: FloatArray, falls: FloatArray) -> float:
    return float((rising.sum() + falling.sum()) / max(rises.sum() + falls.sum(), 1))


def balanced_accuracy(rising: FloatArray, rises: FloatArray, falling: FloatArray, falls: FloatArray) -> float:
    return float((rising.sum() / max(rises.sum(), 1) + falling.sum() / max(falls.sum(), 1)) / 2)


def cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return "–"
    interval = "" if np.isnan(estimate.lo) else f" ({estimate.lo:.3f}…{estimate.hi:.3f})"
    return f"{estimate.value:.3f}{interval}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, help="Folder for the dataset and the runs.")
    work = parser.parse_args().work
    dataset = work / "sim"
    if not (dataset / "labels.parquet").is_file():
        make_dataset(dataset)
    table = {}
    for name in JUDGES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = judged(dataset, name, work / name.replace(" ", "-"))
        table[name] = figures(run, dataset / "labels.parquet")
        episodes = run.episodes().num_rows
    names = list(table["similarity gap"])
    print(f"{episodes} episodes of {len(TASKS)} tasks, seed {SEED}; 95 % intervals over scenes")
    print("\n".join([f"{'':22}" + "".join(f"{judge:>26}" for judge in table)]))
    for name in names:
        print(f"{name:22}" + "".join(f"{cell(found.get(name)):>26}" for found in table.values()))


if __name__ == "__main__":
    main()
