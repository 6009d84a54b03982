"""The cost of a simulated dataset, and how well the length of its episodes predicts success.

    python -m benchmarks.speed.sim_dataset [--workers 2] [-o DATASET]

Makes 100 episodes (ten tasks, ten policies) of one view at 224 px as ``stepscore sim`` does, and counts the CPU
seconds of all its processes, drawing, encoding and writing included: they do not depend on what else the machine
does. Exit code 1 over two minutes. Then the success AUC of shortness alone, before and after length matching;
exit code 1 where it is outside 0.45-0.55 after. With ``-o`` the dataset is kept.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from stepscore.episodes import length_auc, match_lengths, open_episodes
from stepscore.sim import RenderOptions, plan_rollouts, write_dataset

TASKS = (
    "assembly",
    "basketball",
    "coffee-pull",
    "dial-turn",
    "door-close",
    "lever-pull",
    "plate-slide",
    "soccer",
    "stick-push",
    "sweep",
)
POLICIES = (
    "expert",
    "noisy:0.5",
    "drop",
    "freeze",
    "wrong-target",
    "retreat",
    "short",
    "undo",
    "slow",
    "hesitate",
)
MOST_S = 120.0
MATCHED = (0.45, 0.55)


def cpu_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def speed_benchmark(root: Path, workers: int) -> float:
    plans = plan_rollouts(TASKS, POLICIES, episodes_per_task=len(POLICIES))
    before, started = cpu_s(), time.perf_counter()
    write_dataset(root, plans, RenderOptions(("corner",), 224, 20), workers=workers)
    spent, wall = cpu_s() - before, time.perf_counter() - started
    print(
        f"{len(plans)} episodes of one view at 224 px: {spent:.0f} s CPU (limit {MOST_S:.0f}), {wall:.0f} s wall "
        f"with {workers} worker{'s' * (workers > 1)}"
    )
    return spent


def length_benchmark(root: Path) -> float:
    episodes = open_episodes(root, labels=root / "labels.parquet", subgoals=root / "subgoals.yaml")
    matched = match_lengths(episodes)
    after = length_auc(matched.episodes)
    print(f"length alone, before: AUC {length_auc(episodes):.3f} over {len(episodes)} episodes")
    print(f"length alone, after matching: AUC {after:.3f} over {len(matched.pairs)} pairs")
    return after


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("-o", "--out", type=Path, help="Keep the dataset here.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = given.out or Path(folder) / "dataset"
        spent, auc = speed_benchmark(root, given.workers), length_benchmark(root)
    sys.exit(spent > MOST_S or not MATCHED[0] <= auc <= MATCHED[1])


if __name__ == "__main__":
    main()
