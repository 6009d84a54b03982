"""The build of the embedded judge from scratch: simulated datasets, training run, gate and calibration map.

It makes the next edition: the weights in the package are of an earlier one, which their card describes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stepscore.training.embedded.tasks import (
    CALIBRATION_SEED,
    FPS,
    OUTLIERS,
    PARAPHRASES_FILE,
    SECOND_VIEW,
    SIZE,
    TRAINED,
    VALIDATION_SEED,
    VIEW,
)
from stepscore.training.vlm.job import VlmJob
from stepscore.training.vlm.processor_files import write_processor_files

IMAGE_SIZE = 128
"""Pixels a side of the judge's input."""
VISION_PRETRAIN_STEPS, ALIGN_STEPS, STEPS = 2400, 400, 7000
"""Steps of the vision encoder alone, steps that align the language model with it, and steps of statements and
questions, in which the vision encoder is frozen."""
IMAGE_QUESTION_FRACTION = 0.5
"""Fraction of the last with the questions of judges that show single images."""


@dataclass(frozen=True)
class RolloutSet:
    """A simulated dataset of the build.

    Attributes:
        name: Name of its folder.
        policies: Policies of ``stepscore sim``.
        per_task: Rollouts of each task.
        seed: Seed of the simulator.
        views: Cameras.
        tasks: Tasks.
        variation: How much camera, light and colours vary; see ``RenderOptions``.
    """

    name: str
    policies: tuple[str, ...]
    per_task: int
    seed: int
    views: tuple[str, ...] = (VIEW,)
    tasks: tuple[str, ...] = TRAINED
    variation: float = 0.0


TRAINING = (
    RolloutSet("A", ("expert", "noisy:1", "freeze", "short:4"), 48, 1101),
    RolloutSet("B", ("expert", "undo", "short:2", "retreat"), 48, 1102),
    RolloutSet("C", ("slow", "drop", "short:1", "wrong-target"), 48, 1103),
    RolloutSet(
        "D",
        ("expert", "hesitate", "noisy:0.5", "retreat", "redo", "detour"),
        36,
        1104,
        (VIEW, SECOND_VIEW),
    ),
    RolloutSet("E", ("expert", "short:2", "noisy:1", "undo"), 48, 1105, variation=1.0),
    RolloutSet("F", ("expert", "short:1", "retreat", "drop", "short:4", "slow"), 48, 1106, variation=0.5),
    RolloutSet(
        "G", ("expert", "noisy:0.5", "wrong-target", "freeze"), 32, 1107, (VIEW, SECOND_VIEW), variation=1.0
    ),
)
"""Rollouts to train on; the cameras, light and colours of E, F and G vary."""
OUT_OF_DISTRIBUTION = (
    RolloutSet("O", ("expert", "noisy:1"), 12, 1005, tasks=OUTLIERS),
    RolloutSet(
        "P",
        ("expert", "noisy:1"),
        4,
        1007,
        ("front", "top", "gripper"),
        ("drawer-open", "push", "door-open", "hammer", "window-close", "assembly"),
    ),
)
"""Other scenes and other cameras, for the domain gate alone."""
EVERY_POLICY = (
    *("expert", "slow", "hesitate", "noisy:0.5", "noisy:1", "freeze", "short:1", "short:2", "short:4"),
    *("retreat", "undo", "drop", "wrong-target"),
)
VALIDATION = RolloutSet("V", EVERY_POLICY, 26, VALIDATION_SEED)
"""Other scenes of the same tasks, for evaluation during training."""
CALIBRATION_SET = RolloutSet("M", EVERY_POLICY, 52, CALIBRATION_SEED)
"""Every policy on four other scenes of each task, for the calibration maps alone."""


def make_datasets(work: Path, workers: int, log: Callable[[str], None]) -> None:
    """Simulate the datasets that are not in ``work`` yet.

    Args:
        work: Folder of the datasets.
        workers: Processes of the simulator.
        log: Called with a line of text after each dataset.
    """
    from stepscore.sim import RenderOptions, plan_rollouts, write_dataset

    for rollouts in (*TRAINING, *OUT_OF_DISTRIBUTION, VALIDATION, CALIBRATION_SET):
        folder = work / rollouts.name
        if (folder / "subgoals.yaml").is_file():  # written last
            continue
        shutil.rmtree(folder, ignore_errors=True)
        plans = plan_rollouts(rollouts.tasks, rollouts.policies, rollouts.per_task, rollouts.seed)
        options = RenderOptions(rollouts.views, SIZE, FPS, rollouts.variation)
        write_dataset(folder, plans, options, workers=workers)
        log(f"{folder}: {len(plans)} rollouts")


def training_job(work: Path, seed: int, threads: int) -> VlmJob:
    """Return the training run of a seed; its checkpoint is ``work/seed-SEED``."""
    return VlmJob(
        tuple(work / rollouts.name for rollouts in TRAINING),
        work / f"seed-{seed}",
        steps=STEPS,
        vision_pretrain_steps=VISION_PRETRAIN_STEPS,
        align_steps=ALIGN_STEPS,
        frozen_vision_steps=STEPS,
        seed=seed,
        image_size=IMAGE_SIZE,
        image_question_fraction=IMAGE_QUESTION_FRACTION,
        eval_datasets=(work / VALIDATION.name,),
        paraphrases=PARAPHRASES_FILE,
        frames_dir=work / "frames",
        threads=threads,
    )


def package_checkpoint(work: Path, seed: int) -> None:
    """Put a finished checkpoint into the package, with its gate and its calibration maps."""
    from stepscore.judges.common import write_calibration
    from stepscore.models.embedded import CALIBRATION, FOLDER, GATE_FILE
    from stepscore.training.embedded.calibration import fit_maps
    from stepscore.training.gate.camera_training import add_camera_check
    from stepscore.training.gate.training import build_gate

    FOLDER.mkdir(exist_ok=True)
    trained = work / f"seed-{seed}"
    for name in ("config.json", "generation_config.json", "tokenizer.json", "model.safetensors"):
        shutil.copyfile(trained / name, FOLDER / name)
    write_processor_files(FOLDER, json.loads((FOLDER / "config.json").read_text()))
    for name in (GATE_FILE, CALIBRATION.name):
        (FOLDER / name).unlink(missing_ok=True)
    in_distribution = [work / rollouts.name for rollouts in TRAINING]
    build_gate(FOLDER, in_distribution, [work / rollouts.name for rollouts in OUT_OF_DISTRIBUTION])
    add_camera_check(FOLDER)
    write_calibration(fit_maps([work / CALIBRATION_SET.name]).fitted, CALIBRATION)
