"""How the embedded judge was made, from nothing, as one command.

::

    python -m stepscore.training.embedded_recipe WORK [--seed 0] [--minutes 20]

Makes the training rollouts in ``WORK`` from their seeds where they are not there yet, trains for so many
minutes or to the end, and writes the checkpoint to ``WORK/seed-0``. Run it again to go on.
"""

from __future__ import annotations

import argparse
import shutil
from dataclasses import dataclass
from pathlib import Path

from stepscore.training.embedded_tasks import FPS, OUTLIERS, SECOND_VIEW, SIZE, TRAINED, VIEW
from stepscore.training.vlm_job import VlmJob

PIXELS = 96
"""Pixels a side that the judge sees."""
LOOK, STEPS = 1500, 3300
WORDINGS = Path(__file__).with_name("embedded_wordings.yaml")


@dataclass(frozen=True)
class Rollouts:
    """A dataset of the recipe: what acts, how often, seen from where, and from which seed."""

    name: str
    policies: tuple[str, ...]
    per_task: int
    seed: int
    views: tuple[str, ...] = (VIEW,)
    tasks: tuple[str, ...] = TRAINED


TRAINING = (
    Rollouts("A", ("expert", "noisy:1", "freeze", "short:4"), 32, 1001),
    Rollouts("B", ("expert", "undo", "short:2", "retreat"), 32, 1002),
    Rollouts("C", ("slow", "drop", "short:1", "wrong-target"), 32, 1003),
    Rollouts("D", ("expert", "hesitate", "noisy:0.5", "retreat"), 16, 1004, (VIEW, SECOND_VIEW)),
)
OUTSIDE = Rollouts("O", ("expert", "noisy:1"), 12, 1005, tasks=OUTLIERS)
"""Other scenes, shown to the domain gate alone."""
HELD_OUT = Rollouts("V", ("expert", "noisy:1", "short:2", "undo", "retreat"), 5, 2001)
"""Other scenes of the same tasks: the checks while training, and the calibration map."""


def make(rollouts: Rollouts, work: Path, workers: int) -> Path:
    """The dataset's folder; made if it is not there."""
    from stepscore.sim import Filming, make_plans
    from stepscore.sim.dataset import write_dataset

    folder = work / rollouts.name
    if not (folder / "subgoals.yaml").is_file():  # written last
        shutil.rmtree(folder, ignore_errors=True)
        plans = make_plans(rollouts.tasks, rollouts.policies, rollouts.per_task, rollouts.seed)
        write_dataset(folder, plans, Filming(rollouts.views, SIZE, FPS), workers=workers)
        print(f"{folder}: {len(plans)} rollouts")
    return folder


def job(work: Path, seed: int, threads: int) -> VlmJob:
    """The training run of a seed."""
    return VlmJob(
        tuple(work / rollouts.name for rollouts in TRAINING),
        work / f"seed-{seed}",
        steps=STEPS,
        look=LOOK,
        seed=seed,
        size=PIXELS,
        held_out=(work / HELD_OUT.name,),
        wordings=WORDINGS,
        frames=work / "frames",
        threads=threads,
    )


def main() -> None:
    """Make what is missing, and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long; run again to go on")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    for rollouts in (*TRAINING, OUTSIDE, HELD_OUT):
        make(rollouts, given.work, given.workers)
    done = job(given.work, given.seed, given.threads).run(given.minutes, say=print)
    print("finished" if done["finished"] else "stopped; the same command goes on", done)


if __name__ == "__main__":
    main()
