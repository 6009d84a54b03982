"""Contact sheets of simulated episodes, with the truth of every subgoal drawn under the frames.

    python benchmarks/sim_sheets.py FOLDER [--tasks 10] [--episodes 2] [--seed 1] [--names a,b]

Draws random episodes of random tasks, as FOLDER/TASK.jpg: twelve frames of each, a lane a subgoal (green
where it is true), and the progress potential as a red line.
"""

from __future__ import annotations

import argparse
from itertools import groupby
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from stepscore.sim import Filming, Plan, Rollout, all_tasks, get_task, simulate

FRAMES, SIDE, LANE, CURVE, LEFT = 12, 112, 14, 44, 330
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


def sheet(rollout: Rollout, view: str) -> Image.Image:
    task, n = get_task(rollout.plan.task), len(rollout.potential)
    width = FRAMES * SIDE
    lanes = len(task.milestones)
    page = Image.new("RGB", (LEFT + width, 16 + SIDE + lanes * LANE + CURVE + 8), "white")
    draw = ImageDraw.Draw(page)
    ever, end = bool(rollout.success.any()), bool(rollout.success[-1])
    title = f"{rollout.plan.pair}  {rollout.plan.policy}  success ever {ever}, at the end {end}  {n} frames"
    draw.text((4, 2), f"{title}: {task.instruction}", fill="black")
    # Frame k stands over the time it shows: the lanes below run over the same axis.
    for place in range(FRAMES):
        number = min(n - 1, round((place + 0.5) / FRAMES * n))
        picture = Image.fromarray(rollout.frames[view][number]).resize(
            (SIDE, SIDE), Image.Resampling.BILINEAR
        )
        page.paste(picture, (LEFT + place * SIDE, 16))
        draw.text((LEFT + place * SIDE + 2, 17), str(number), fill="yellow")

    def at(frame: int) -> float:
        return LEFT + frame / n * width

    for lane, milestone in enumerate(task.milestones):
        top = 16 + SIDE + lane * LANE
        draw.text((4, top), f"{milestone.subgoal[:52]} ({milestone.mode})", fill="black")
        for frame in range(n):
            colour = (60, 170, 80) if rollout.truths[frame, lane] else (228, 228, 228)
            draw.rectangle((at(frame), top + 2, at(frame + 1) - 1, top + LANE - 2), fill=colour)
    bottom = 16 + SIDE + lanes * LANE + CURVE
    draw.text((4, bottom - CURVE // 2 - 6), "potential, 0 to 1", fill="black")
    draw.line((LEFT, bottom, LEFT + width, bottom), fill=(200, 200, 200))
    draw.line((LEFT, bottom - CURVE + 4, LEFT + width, bottom - CURVE + 4), fill=(200, 200, 200))
    points = [
        (at(i) + width / n / 2, bottom - (CURVE - 4) * value) for i, value in enumerate(rollout.potential)
    ]
    draw.line(points, fill=(200, 30, 30), width=2)
    return page


def stacked(pages: list[Image.Image]) -> Image.Image:
    page = Image.new("RGB", (pages[0].width, sum(p.height for p in pages)), "white")
    top = 0
    for one in pages:
        page.paste(one, (0, top))
        top += one.height
    return page


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--names", default="")
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--view", default="corner")
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    names = (
        given.names.split(",") if given.names else rng.choice(list(all_tasks()), given.tasks, replace=False)
    )
    plans = [
        Plan(str(name), str(policy), int(rng.integers(1000)), given.seed)
        for name in sorted(names)
        for policy in rng.choice(given.policies.split(","), given.episodes, replace=False)
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    rollouts = simulate(plans, Filming((given.view,)), 2)
    for name, mine in groupby(rollouts, key=lambda rollout: rollout.plan.task):
        page = stacked([sheet(rollout, given.view) for rollout in mine])
        page.save(given.folder / f"{name}.jpg", quality=80)
        print(given.folder / f"{name}.jpg", flush=True)


if __name__ == "__main__":
    main()
