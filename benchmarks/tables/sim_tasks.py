"""The tasks of the simulator in one table, and checks of their labels.

    python -m benchmarks.tables.sim_tasks [--scenes 6] [--workers 2] [--tasks all]

Plays every task with every policy on the same scenes, without drawing. Prints, as Markdown: each task with
its goal, the expert's success at some time and at the end, and the share of episodes in which each subgoal is
true at some time; then checks of the progress potential, and how far time alone is from it. Fails when a
check does not hold.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict

import numpy as np

from stepscore.sim import (
    RenderOptions,
    Rollout,
    constant_intervals,
    get_task,
    marked_goals,
    object_goals,
    plan_rollouts,
    simulate,
)

POLICIES = (
    "expert",
    "noisy:1",
    "drop",
    "freeze",
    "wrong-target",
    "retreat",
    "short:4",
    "undo",
    "slow",
    "hesitate",
)
LEAST, MOST = 0.1, 0.9
KEPT = 0.9
"""Of the expert's successes so many are still there when the rollout ends, 8 to 32 control steps later; a
task whose expert loses more ends at success."""


def share(values: list[bool]) -> str:
    return f"{100 * np.mean(values):.0f}" if values else "–"


def print_tasks(by_task: dict[str, list[Rollout]]) -> list[str]:
    print(
        "| task | instruction | goal | expert ever / end, % | subgoals, with the share of episodes true, % |"
    )
    print("|---|---|---|---|---|")
    wrong = []
    for name, rollouts in by_task.items():
        task = get_task(name)
        expert = [rollout for rollout in rollouts if rollout.plan.policy == "expert"]
        true = np.mean([rollout.truths.any(axis=0) for rollout in rollouts], axis=0)
        at_start = np.any([rollout.truths[0] for rollout in rollouts], axis=0)
        for milestone, value, early in zip(task.milestones, true, at_start, strict=True):
            if not LEAST <= value <= MOST or early:
                note = ", and at the start already" if early else ""
                wrong.append(
                    f"{name}: {milestone.subgoal!r} is true in {100 * value:.0f} % of episodes{note}"
                )
        words = "<br>".join(
            f"{milestone.subgoal} ({milestone.mode}) {100 * value:.0f}"
            for milestone, value in zip(task.milestones, true, strict=True)
        )
        ends = (
            share([bool(r.success.any()) for r in expert])
            + " / "
            + share([bool(r.success[-1]) for r in expert])
        )
        stop = ", ends at success" if task.ends_at_success else ""
        print(
            f"| {name} | {task.instruction} | {'mark' if task.mark else 'object'}{stop} | {ends} | {words} |"
        )
        kept = [bool(rollout.success[-1]) for rollout in expert if rollout.success.any()]
        if kept and np.mean(kept) < KEPT:
            wrong.append(f"{name}: the expert loses success again in {100 - 100 * np.mean(kept):.0f} %")
    return wrong


def print_policies(rollouts: list[Rollout]) -> None:
    print(
        "\n| policy | episodes | success ever, % | success at the end, % | frames, median |\n|---|---|---|---|---|"
    )
    for policy in POLICIES:
        mine = [rollout for rollout in rollouts if rollout.plan.policy == policy]
        ever, end = share([bool(r.success.any()) for r in mine]), share([bool(r.success[-1]) for r in mine])
        print(
            f"| {policy} | {len(mine)} | {ever} | {end} | {np.median([len(r.potential) for r in mine]):.0f} |"
        )


def print_potential(rollouts: list[Rollout]) -> list[str]:
    done = [r for r in rollouts if r.success[-1]]
    failed = [r for r in rollouts if not r.success[-1]]
    undone = [r for r in rollouts if r.success.any() and not r.success[-1]]
    checks = {
        "potential is 1 exactly where the task is done, in all frames": all(
            bool(((r.potential >= 1.0) == r.success).all()) for r in rollouts
        ),
        f"it ends at 1 on all {len(done)} successes": all(r.potential[-1] == 1.0 for r in done),
        f"it ends under 1 on all {len(failed)} failures": all(r.potential[-1] < 1.0 for r in failed),
        f"it falls from 1 on all {len(undone)} episodes whose success is lost": all(
            r.potential.max() == 1.0 > r.potential[-1] for r in undone
        ),
    }
    print()
    for text, holds in checks.items():
        print(f"- {text}: {'yes' if holds else 'NO'}")
    undo = [1.0 - float(r.potential[-1]) for r in undone if r.plan.policy == "undo"]
    print(f"- fall by the end after undo: median {np.median(undo):.2f} over {len(undo)} episodes")
    for words, chosen in (("all episodes", rollouts), ("successes", done), ("failures", failed)):
        errors = [
            np.abs(np.arange(len(r.potential)) / max(len(r.potential) - 1, 1) - r.potential).mean()
            for r in chosen
        ]
        print(f"- mean absolute error of linear time to the potential, {words}: {np.mean(errors):.3f}")
    return [text for text, holds in checks.items() if not holds]


def print_durations(by_task: dict[str, list[Rollout]]) -> None:
    print(
        "\n| chain | stages | longest over shortest stage of an episode, median "
        "| the same stage, slowest over fastest scene, median |"
    )
    print("|---|---|---|---|")
    for name, rollouts in by_task.items():
        task = get_task(name)
        done = [r for r in rollouts if len(task.phases) > 1 and r.plan.policy == "expert" and r.success.any()]
        times: dict[int, list[float]] = defaultdict(list)
        ratios = []
        for rollout in done:
            mine: dict[int, float] = defaultdict(float)
            for stage, start_s, end_s in constant_intervals(rollout.stages.tolist(), rollout.fps):
                if isinstance(stage, int) and stage < len(task.milestones):
                    mine[stage] += end_s - start_s
            ratios.append(max(mine.values()) / min(mine.values()))
            for stage, seconds in mine.items():
                times[stage].append(seconds)
        if done:
            across = [max(seconds) / min(seconds) for seconds in times.values() if len(seconds) > 1]
            print(f"| {name} | {len(task.milestones)} | {np.median(ratios):.1f} | {np.median(across):.1f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenes", type=int, default=6)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tasks", default="all")
    given = parser.parse_args()
    plans = plan_rollouts(given.tasks.split(","), POLICIES, given.scenes * len(POLICIES))
    by_task: dict[str, list[Rollout]] = defaultdict(list)
    for number, rollout in enumerate(
        simulate(plans, RenderOptions(views=(), fps=20), given.workers), start=1
    ):
        by_task[rollout.plan.task].append(rollout)
        if number % 100 == 0:
            print(f"{number} of {len(plans)} episodes", file=sys.stderr, flush=True)
    rollouts = [rollout for mine in by_task.values() for rollout in mine]
    wrong = print_tasks(by_task)
    print(f"\nGoals shown by a mark ({len(marked_goals())}): {', '.join(marked_goals())}.")
    print(f"\nGoals that are objects ({len(object_goals())}): {', '.join(object_goals())}.")
    print_policies(rollouts)
    wrong += print_potential(rollouts)
    print_durations(by_task)
    for text in wrong:
        print(f"WRONG {text}", file=sys.stderr)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
