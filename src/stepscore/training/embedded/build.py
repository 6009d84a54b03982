"""How the embedded judge was made, from nothing, as one command.

::

    python -m stepscore.training.embedded.build WORK [--seed 0] [--minutes 20]
    python -m stepscore.training.embedded.build WORK --package

The first makes the rollouts in ``WORK`` from their seeds where they are not there yet, trains for so many
minutes or to the end, and writes the checkpoint to ``WORK/seed-0``; run it again to go on. The second makes the
domain gate and the calibration map of a finished checkpoint, and puts all of it into the package.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stepscore.training.embedded.tasks import FPS, OUTLIERS, SECOND_VIEW, SIZE, TRAINED, VIEW
from stepscore.training.vlm.job import VlmJob

PIXELS = 128
"""Pixels a side that the judge sees."""
LOOK, READ, STEPS, PICTURES = 2400, 400, 7000, 0.5
"""Steps of the vision tower alone, steps in which the language model learns to read it, steps of statements and
questions, which leave the tower as it is, and the share of these with the picture judges' questions."""
WORDINGS = Path(__file__).with_name("wordings.yaml")


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
OUTSIDE = (
    Rollouts("O", ("expert", "noisy:1"), 12, 1005, tasks=OUTLIERS),
    Rollouts(
        "P",
        ("expert", "noisy:1"),
        4,
        1007,
        ("front", "top", "gripper"),
        ("drawer-open", "push", "door-open", "hammer", "window-close", "assembly"),
    ),
)
"""Other scenes and other cameras, shown to the domain gate alone."""
HELD_OUT = Rollouts("V", ("expert", "noisy:1", "short:2", "undo", "retreat"), 5, 2001)
"""Other scenes of the same tasks: the checks while training, and the calibration map."""


def make(rollouts: Rollouts, work: Path, workers: int) -> Path:
    """The dataset's folder; made if it is not there."""
    from stepscore.sim import RenderOptions, make_plans, write_dataset

    folder = work / rollouts.name
    if not (folder / "subgoals.yaml").is_file():  # written last
        shutil.rmtree(folder, ignore_errors=True)
        plans = make_plans(rollouts.tasks, rollouts.policies, rollouts.per_task, rollouts.seed)
        write_dataset(folder, plans, RenderOptions(rollouts.views, SIZE, FPS), workers=workers)
        print(f"{folder}: {len(plans)} rollouts")
    return folder


def job(work: Path, seed: int, threads: int) -> VlmJob:
    """The training run of a seed."""
    return VlmJob(
        tuple(work / rollouts.name for rollouts in TRAINING),
        work / f"seed-{seed}",
        steps=STEPS,
        look=LOOK,
        read=READ,
        settled=STEPS,
        seed=seed,
        size=PIXELS,
        pictures=PICTURES,
        held_out=(work / HELD_OUT.name,),
        wordings=WORDINGS,
        frames=work / "frames",
        threads=threads,
    )


def package(work: Path, seed: int) -> None:
    """Put a finished checkpoint into the package, with its gate and its calibration map."""
    from stepscore.analysis import calibrate
    from stepscore.episodes import open_episodes
    from stepscore.judges import get_judge
    from stepscore.judges.common import write_calibration
    from stepscore.models import get_model
    from stepscore.models.embedded import CALIBRATION, FOLDER, GATE_FILE
    from stepscore.runs import CallOptions, score
    from stepscore.training.gate import training as domain_gate

    FOLDER.mkdir(exist_ok=True)
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        shutil.copyfile(work / f"seed-{seed}" / name, FOLDER / name)
    for name in (GATE_FILE, CALIBRATION.name):
        (FOLDER / name).unlink(missing_ok=True)
    inside = [str(work / rollouts.name) for rollouts in TRAINING]
    outside = [str(work / rollouts.name) for rollouts in OUTSIDE]
    domain_gate.main([str(FOLDER), "--inside", *inside, "--outside", *outside])
    held_out = work / HELD_OUT.name
    labels = held_out / "labels.parquet"
    # The first prefix is one pair of frames: it was taught to judge from there on.
    judge = get_judge("topreward", model=get_model("embedded"), min_first=2)
    with tempfile.TemporaryDirectory() as folder:
        run = score(
            open_episodes(held_out, labels=labels), judge, Path(folder), call_options=CallOptions(cache=False)
        )
        fitted = calibrate(run, labels=labels, channel="margin", share=0.9).fitted
    write_calibration(fitted, CALIBRATION)


def main() -> None:
    """Make what is missing, and train."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long; run again to go on")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--package", action="store_true", help="put the finished checkpoint into the package")
    given = parser.parse_args()
    for rollouts in (*TRAINING, *OUTSIDE, HELD_OUT):
        make(rollouts, given.work, given.workers)
    if given.package:
        package(given.work, given.seed)
    else:
        done = job(given.work, given.seed, given.threads).run(given.minutes, log=print, on_step=_print_step)
        print("finished" if done["finished"] else "stopped; the same command goes on", done)


def _print_step(step: int, last: int, loss: float) -> None:
    if step % 50 == 0:
        print(f"step {step} of {last}, loss {loss:.3f}", flush=True)


if __name__ == "__main__":
    main()
