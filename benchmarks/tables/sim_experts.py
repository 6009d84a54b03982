"""How often the simulator's undisturbed experts succeed, at some time and at the end, on many scenes.

    python -m benchmarks.tables.sim_experts [--scenes 50] [--workers 2] [--tasks all]

Plays the expert alone, without drawing. Prints a row per task, as Markdown: success at some time and at the end, how
many successes were lost again before the end, and how many failures end with a potential of 0.95 or more; then the
tasks whose success is to be read as `ever`.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from stepscore.sim import RenderOptions, Rollout, plan_rollouts, simulate

NEARLY_DONE = 0.95


def print_experts(rollouts: Iterable[Rollout]) -> None:
    print("| task | scenes | success ever | at the end | lost again | failures ending at 0.95 or more |")
    print("|---|---|---|---|---|---|")
    by_task: dict[str, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        by_task[rollout.plan.task].append(rollout)
    lost_in = []
    for task, mine in by_task.items():
        ever = sum(_ever(r) for r in mine)
        end = sum(_at_end(r) for r in mine)
        near = sum(bool(not r.success[-1] and r.potential[-1] >= NEARLY_DONE) for r in mine)
        print(f"| {task} | {len(mine)} | {ever} | {end} | {ever - end} | {near} |")
        if ever > end:
            lost_in.append(task)
    everyone = [r for mine in by_task.values() for r in mine]
    shares = [100 * np.mean([success(r) for r in everyone]) for success in (_ever, _at_end)]
    print(f"\nOver all {len(everyone)} episodes: {shares[0]:.1f} % ever, {shares[1]:.1f} % at the end.")
    print(f"\nTo be read as `ever` ({len(lost_in)}): {', '.join(lost_in)}.")


def _ever(rollout: Rollout) -> bool:
    return bool(rollout.success.any())


def _at_end(rollout: Rollout) -> bool:
    return bool(rollout.success[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=50)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", default="all")
    given = parser.parse_args()
    plans = plan_rollouts(given.tasks.split(","), ("expert",), given.scenes)
    print_experts(simulate(plans, RenderOptions(views=(), fps=20), given.workers))


if __name__ == "__main__":
    main()
