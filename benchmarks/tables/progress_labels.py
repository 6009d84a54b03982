"""Mean absolute error of progress labels to a simulator's progress potential.

    python -m benchmarks.tables.progress_labels [DATASET] [--labels FILE] [--json]

The dataset's labels state the potential at every frame (kind ``progress``), the stages and the outcome. From the
stages alone, and the frames where a method reads them, each method makes its labels anew; they are compared with
the potential at the timestamps at which it is known. Episodes count the same, whatever their length.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from stepscore.episodes import Episodes, Stage, open_episodes
from stepscore.procedures.progress_labels import ProgressLabelOptions, label_progress, labelled_outcome
from stepscore.procedures.robust_progress import robust_progress
from stepscore.procedures.stage_progress import procvlm_progress

ROOT = Path(__file__).resolve().parents[2]
METHODS = {
    "linear": ProgressLabelOptions("linear"),
    "procvlm": ProgressLabelOptions("procvlm"),
    "sarm (paper's prior)": ProgressLabelOptions("sarm", "paper"),
    "sarm (lerobot's prior)": ProgressLabelOptions("sarm", "lerobot"),
    "sarm (equal shares)": ProgressLabelOptions("sarm", "equal"),
    "robust (paper's prior)": ProgressLabelOptions("robust", "paper"),
    "robust": ProgressLabelOptions("robust"),
}


def label_errors(episodes: Episodes, options: ProgressLabelOptions) -> dict[str, float]:
    """Mean absolute error of each episode's labels to its potential."""
    made = label_progress(episodes, options)
    errors = {}
    for name, one in made.progress.items():
        times, truth = episodes[name].labels.progress()
        known = np.isfinite(truth)
        if known.any():
            label = np.interp(times[known], one.times, one.progress)
            errors[name] = float(np.mean(np.abs(label - truth[known])))
    for name, why in made.errors.items():
        print(f"{name} is left out: {why}")
    return errors


def groups_of(episodes: Episodes) -> dict[str, list[str]]:
    """Episode ids by outcome, and all."""
    found: dict[str, list[str]] = defaultdict(list)
    for episode in episodes:
        at_end, ever = labelled_outcome(episode.labels)
        kind = "success" if at_end else "undone" if ever else "failure"
        for group in (kind, "all"):
            found[group].append(episode.id)
    return {name: found[name] for name in ("success", "failure", "undone", "all") if found[name]}


def frozen_half(frames: int = 101, bits: int = 10) -> dict[str, float]:
    """Share of a stage earned in its first half, in which nothing moves; then ``bits`` of 64 change a frame."""
    moves = np.arange(frames) > frames // 2
    times, spans = np.arange(frames) / 30, [Stage("push", 0.0, frames / 30)]
    names, similarity = ["push"] * frames + ["done"], np.append(1.0 - moves * bits / 64, 1.0)
    ours = robust_progress(spans, {"push": 1.0}, times, moves.astype(float), succeeded=True)
    middle = frames // 2
    # ProcVLM's label of a frame leaves out what that frame itself earned.
    return {
        "procvlm": float(procvlm_progress(names, similarity)[middle + 1]),
        "robust": float(ours[middle]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("dataset", nargs="?", type=Path, default=ROOT / "tests" / "data" / "tiny_sim")
    parser.add_argument("--labels", type=Path, help="labels.parquet in the dataset, if not given")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    frozen = frozen_half()
    if not given.json:
        shares = ", ".join(f"{method} {100 * share:.1f} %" for method, share in frozen.items())
        print(f"The frozen first half of a stage earns of it: {shares}")
    labels, subgoals = given.labels or given.dataset / "labels.parquet", given.dataset / "subgoals.yaml"
    episodes = open_episodes(given.dataset, labels=labels, subgoals=subgoals if subgoals.is_file() else None)
    groups = groups_of(episodes)
    table = {}
    for method, options in METHODS.items():
        errors = label_errors(episodes, options)
        table[method] = {
            group: float(np.mean([errors[name] for name in names if name in errors]))
            for group, names in groups.items()
        }
    if given.json:
        print(
            json.dumps(
                {"frozen_half": frozen, "episodes": {g: len(n) for g, n in groups.items()}, "mae": table},
                indent=2,
            )
        )
        return
    print(f"MAE to the potential{'':6} " + " ".join(f"{g + f' ({len(n)})':>14}" for g, n in groups.items()))
    for method, row in table.items():
        print(f"{method:26} " + " ".join(f"{row[group]:14.3f}" for group in groups))


if __name__ == "__main__":
    main()
