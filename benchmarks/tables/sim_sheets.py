"""Contact sheets of simulated episodes, with the truth of every subgoal drawn under the frames.

    python -m benchmarks.tables.sim_sheets FOLDER [--tasks 10] [--episodes 2] [--seed 1] [--names a,b]

Draws random episodes of random tasks, as FOLDER/TASK.jpg: twelve frames of each, a lane a subgoal (green
where it is true), and the progress potential as a red line.
"""

from __future__ import annotations

import argparse
import math
from itertools import groupby
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from benchmarks.tables.sim_tasks import POLICIES
from stepscore.sim import RenderOptions, Rollout, RolloutPlan, all_tasks, get_task, simulate

FRAMES, SIDE, LANE, CURVE, TITLE, MARGIN = 12, 112, 14, 44, 18, 6


def names_width(names: list[str]) -> int:
    """Pixels that the longest name takes, with a margin on both sides."""
    draw = ImageDraw.Draw(Image.new("RGB", (1, 1)))
    return 2 * MARGIN + math.ceil(max(draw.textlength(name) for name in names))


def sheet(rollout: Rollout, view: str) -> Image.Image:
    task, n = get_task(rollout.plan.task), len(rollout.potential)
    names = [f"{milestone.subgoal} ({milestone.mode})" for milestone in task.milestones]
    left, width, lanes = names_width(names), FRAMES * SIDE, TITLE + SIDE
    bottom = lanes + len(names) * LANE + CURVE
    page = Image.new("RGB", (left + width, bottom + 10), "white")
    draw = ImageDraw.Draw(page)
    ever, end = bool(rollout.success.any()), bool(rollout.success[-1])
    title = f"{rollout.plan.pair}  {rollout.plan.policy}  success ever {ever}, at the end {end}  {n} frames"
    draw.text((MARGIN, 3), f"{title}: {task.instruction}", fill="black")
    # Frame k stands over the time it shows: the lanes below run over the same axis.
    for place in range(FRAMES):
        number = min(n - 1, round((place + 0.5) / FRAMES * n))
        image = Image.fromarray(rollout.frames[view][number]).resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        page.paste(image, (left + place * SIDE, TITLE))
        draw.text((left + place * SIDE + 2, TITLE + 1), str(number), fill="yellow")

    def at(frame: float) -> float:
        return left + frame / n * width

    for lane, name in enumerate(names):
        top = lanes + lane * LANE
        draw.text((MARGIN, top), name, fill="black")
        for frame in range(n):
            colour = (60, 170, 80) if rollout.truths[frame, lane] else (228, 228, 228)
            draw.rectangle((at(frame), top + 2, at(frame + 1) - 1, top + LANE - 2), fill=colour)
    draw.text((MARGIN, bottom - CURVE // 2 - 6), "potential, 0 to 1", fill="black")
    for height in (bottom, bottom - CURVE + 4):
        draw.line((left, height, left + width, height), fill=(200, 200, 200))
    points = [(at(i + 0.5), bottom - (CURVE - 4) * value) for i, value in enumerate(rollout.potential)]
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
        RolloutPlan(str(name), str(policy), int(rng.integers(1000)), given.seed)
        for name in sorted(names)
        for policy in rng.choice(given.policies.split(","), given.episodes, replace=False)
    ]
    given.folder.mkdir(parents=True, exist_ok=True)
    rollouts = simulate(plans, RenderOptions((given.view,), fps=20), 2)
    # Sheets of a task have the same lanes, and so the same width.
    for name, mine in groupby(rollouts, key=lambda rollout: rollout.plan.task):
        page = stacked([sheet(rollout, given.view) for rollout in mine])
        page.save(given.folder / f"{name}.jpg", quality=80)
        print(given.folder / f"{name}.jpg", flush=True)


if __name__ == "__main__":
    main()
