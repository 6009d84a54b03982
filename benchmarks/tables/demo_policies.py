"""Whether the expert leads the demo's first table, on the bundled scenes and on those of other seeds.

    python -m benchmarks.tables.demo_policies [--seeds 20] [--folder FOLDER] [--revision NAME]

The demo judges four policies, of which one is the expert, and prints their metrics. In every column that has a
direction the expert should be best, tied with the best, or not distinguishable from it: the paired test of
``stepscore compare`` on the scenes both met gives p of .05 or more. Rollouts of further seeds are made as the bundled
ones were, and kept in FOLDER: a seed that is there is not made again.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stepscore._options import DEFAULT_REVISION
from stepscore.analysis import MAIN_METRICS, EpisodeMetrics, compare_groups, measure_episodes
from stepscore.cli.judging.demo import FPS, POLICIES, ROLLOUTS, SIZE, TASKS, VIEW, demo_judges
from stepscore.episodes import open_episodes
from stepscore.judges import Judge
from stepscore.runs import Run, score

FIRST_SEED = 7101
ALPHA = 0.05
BEST, TIED, LIKE, BEHIND = "best", "tied", "not distinguishable", "behind"


def demo_judge() -> Judge:
    """Return the judge of the demo's first table."""
    return next(judge for judge in demo_judges() if judge.name == "topreward")


def make_rollouts(root: Path, seed: int) -> Path:
    """Make the rollouts of a seed as those of the demo were made, where they are missing."""
    from stepscore.sim import RenderOptions, plan_rollouts, write_dataset

    if not root.exists():
        part = root.with_name(f".{root.name}.part")
        render = RenderOptions((VIEW,), SIZE, FPS)
        print(f"{root}: {len(TASKS) * 8} rollouts", file=sys.stderr, flush=True)
        write_dataset(part, plan_rollouts(TASKS, list(POLICIES), 8, seed), render, crf=26)
        part.rename(root)
    return root


def judge_rollouts(dataset: Path, out: Path, judge: Judge) -> Run:
    """Judge a dataset with its labels, or continue where that was stopped."""
    episodes = open_episodes(dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml")
    return score(episodes, judge, out)


def standings(metrics: EpisodeMetrics) -> dict[str, str]:
    """Say of each column of the first table where the expert stands among the policies."""
    found = {}
    for column in metrics.select_columns(None):
        if column.name not in MAIN_METRICS or column.better == "neither":
            continue
        sign = 1.0 if column.better == "higher" else -1.0
        means = {policy: sign * _mean(metrics, column.name, policy) for policy in POLICIES}
        known = {policy: mean for policy, mean in means.items() if not math.isnan(mean)}
        if not known:
            continue
        best = max(known.values())
        if "expert" not in known:
            found[column.name] = "unknown"
        elif known["expert"] >= best - 1e-12:
            others = [mean for policy, mean in known.items() if policy != "expert"]
            found[column.name] = TIED if others and max(others) >= best - 1e-12 else BEST
        else:
            leader = max(known, key=lambda policy: known[policy])
            found[column.name] = (
                LIKE if _p_value(metrics, column.name, leader) >= ALPHA else f"{BEHIND} {leader}"
            )
    return found


def _mean(metrics: EpisodeMetrics, name: str, policy: str) -> float:
    values = metrics.values[name][[row["policy"] == policy for row in metrics.episodes]]
    return float(np.nanmean(values)) if np.any(~np.isnan(values)) else math.nan


def _p_value(metrics: EpisodeMetrics, name: str, leader: str) -> float:
    """Return p of the expert against the leader, not corrected for the other columns; 1 where there is no test."""
    for row in compare_groups(metrics, ["policy"], names=[name]):
        if {row.a["policy"], row.b["policy"]} == {"expert", leader}:
            return 1.0 if math.isnan(row.comparison.p_value) else row.comparison.p_value
    return 1.0


def print_standings(title: str, runs: Sequence[Run], revision: str) -> bool:
    """Print a row per policy and where the expert stands; return whether it is behind in no column."""
    metrics = measure_episodes(list(runs), revision=revision)
    places = standings(metrics)
    print(f"\n{title}, OPD {revision}; percent\n{'':10}" + "".join(f"{name:>15}" for name in places))
    for policy in POLICIES:
        cells = "".join(f"{100 * _mean(metrics, name, policy):15.1f}" for name in places)
        print(f"{policy:10}{cells}")
    print(f"{'expert is':10}" + "".join(f"{_short(place):>15}" for place in places.values()), flush=True)
    return not any(place.startswith(BEHIND) for place in places.values())


def _short(place: str) -> str:
    return "like the best" if place == LIKE else place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=0, help="further seeds; each takes about a minute")
    parser.add_argument("--folder", type=Path, help="where their rollouts and runs are kept")
    parser.add_argument("--revision", default=DEFAULT_REVISION)
    options = parser.parse_args()
    judge = demo_judge()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        bundled = judge_rollouts(ROLLOUTS, Path(temporary) / "bundled", judge)
        ahead = print_standings("Bundled scenes", [bundled], options.revision)
        runs, counts = [], dict[str, Counter[str]]()
        for seed in range(FIRST_SEED, FIRST_SEED + options.seeds):
            dataset = make_rollouts(folder / f"seed-{seed}", seed)
            runs.append(judge_rollouts(dataset, folder / f"run-{seed}", judge))
            for name, place in standings(measure_episodes(runs[-1], revision=options.revision)).items():
                counts.setdefault(name, Counter())[place] += 1
        if runs:
            print(f"\nSeeds {FIRST_SEED} to {FIRST_SEED + options.seeds - 1}, each by itself: the expert is")
            for name, places in counts.items():
                print(f"{name:15}" + ", ".join(f"{place} {n}" for place, n in places.most_common()))
            ahead &= print_standings(f"{len(runs)} seeds together", runs, options.revision)
    if not ahead:
        sys.exit("The expert is behind another policy in a column.")


if __name__ == "__main__":
    main()
