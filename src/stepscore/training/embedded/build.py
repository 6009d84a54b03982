"""The build of the embedded judge from nothing: simulated datasets, training run, gate and calibration maps.

It makes the next edition: the weights in the package are of an earlier one, which their card describes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stepscore.errors import OptionError
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
from stepscore.training.gate.config import CameraConfig, GateConfig
from stepscore.training.vlm.job import VlmJob
from stepscore.training.vlm.processor_files import write_processor_files

LOG_EVERY_STEPS = 50
IMAGE_SIZE = 128
"""Pixels a side of the judge's input."""
VISION_PRETRAIN_STEPS, ALIGN_STEPS, STEPS = 7000, 300, 12_000
"""Steps of vision pretraining, steps that align the language model with the encoder, and steps of statements and
questions, in which the encoder is frozen. With 5,000 of the last, procvlm and gvl were learned in their second half
(procvlm's error fell from .21 to .13 on 39 validation rollouts, a clock has .23), hop hardly, and every loss still
fell."""
IMAGE_QUESTION_FRACTION, IMAGE_QUESTIONS_FROM = 0.6, 0.05
"""Fraction of the last with the questions of judges that show single images, and the fraction of them after which
these begin: the vision encoder is trained by then."""


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
    RolloutSet("A", ("expert", "noisy:1", "freeze", "short:4"), 24, 1101),
    RolloutSet("B", ("expert", "undo", "short:2", "retreat"), 24, 1102),
    RolloutSet("C", ("slow", "drop", "short:1", "wrong-target"), 24, 1103),
    RolloutSet(
        "D",
        ("expert", "hesitate", "noisy:0.5", "retreat", "redo", "detour"),
        18,
        1104,
        (VIEW, SECOND_VIEW),
    ),
    RolloutSet("E", ("expert", "short:2", "noisy:1", "undo"), 24, 1105, variation=1.0),
    RolloutSet("F", ("expert", "short:1", "retreat", "drop", "short:4", "slow"), 12, 1106, variation=0.5),
    RolloutSet(
        "G", ("expert", "noisy:0.5", "wrong-target", "freeze"), 16, 1107, (VIEW, SECOND_VIEW), variation=1.0
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
"""Other scenes and other cameras, only for the domain gate."""
EVERY_POLICY = (
    *("expert", "slow", "hesitate", "noisy:0.5", "noisy:1", "freeze", "short:1", "short:2", "short:4"),
    *("retreat", "undo", "drop", "wrong-target"),
)
VALIDATION = RolloutSet("V", EVERY_POLICY, 13, VALIDATION_SEED)
"""Other scenes of the same tasks, for evaluation during training."""
CALIBRATION_SET = RolloutSet("M", EVERY_POLICY, 52, CALIBRATION_SEED)
"""Every policy on four other scenes of each task, only for the calibration maps."""


@dataclass(frozen=True)
class BuildPlan:
    """What a judge is made from.

    Attributes:
        training: Rollouts to train on.
        validation: Rollouts for evaluation during training.
        out_of_distribution: Other scenes and cameras, for the gate.
        calibration: Rollouts for the calibration maps.
        vision_pretrain_steps: Steps of the vision encoder.
        align_steps: Steps that align the language model with it.
        steps: Steps of statements and questions.
        gate: How the gate is trained.
        cameras: How its camera check is trained.
    """

    training: tuple[RolloutSet, ...] = TRAINING
    validation: RolloutSet = VALIDATION
    out_of_distribution: tuple[RolloutSet, ...] = OUT_OF_DISTRIBUTION
    calibration: RolloutSet = CALIBRATION_SET
    vision_pretrain_steps: int = VISION_PRETRAIN_STEPS
    align_steps: int = ALIGN_STEPS
    steps: int = STEPS
    gate: GateConfig = field(default_factory=GateConfig)
    cameras: CameraConfig = field(default_factory=CameraConfig)


PLAN = BuildPlan()
"""The judge of the package."""


def make_datasets(
    work: Path, datasets: Iterable[RolloutSet], workers: int, log: Callable[[str], None]
) -> None:
    """Simulate the datasets that are not in ``work`` yet.

    Args:
        work: Folder of the datasets.
        datasets: The datasets.
        workers: Processes of the simulator.
        log: Called with a line of text after each dataset.
    """
    from stepscore.sim import RenderOptions, plan_rollouts, write_dataset

    for rollouts in datasets:
        folder = work / rollouts.name
        if (folder / "subgoals.yaml").is_file():  # written last
            continue
        shutil.rmtree(folder, ignore_errors=True)
        plans = plan_rollouts(rollouts.tasks, rollouts.policies, rollouts.per_task, rollouts.seed)
        options = RenderOptions(rollouts.views, SIZE, FPS, rollouts.variation)
        write_dataset(folder, plans, options, workers=workers)
        log(f"{folder}: {len(plans)} rollouts")


def training_job(work: Path, seed: int, threads: int, plan: BuildPlan = PLAN) -> VlmJob:
    """Return the training run of a seed; its checkpoint is ``work/seed-SEED``."""
    return VlmJob(
        tuple(work / rollouts.name for rollouts in plan.training),
        work / f"seed-{seed}",
        steps=plan.steps,
        vision_pretrain_steps=plan.vision_pretrain_steps,
        align_steps=plan.align_steps,
        frozen_vision_steps=plan.steps,
        seed=seed,
        image_size=IMAGE_SIZE,
        image_question_fraction=IMAGE_QUESTION_FRACTION,
        image_questions_from=IMAGE_QUESTIONS_FROM,
        dtype="bfloat16",
        eval_datasets=(work / plan.validation.name,),
        paraphrases=PARAPHRASES_FILE,
        frames_dir=work / "frames",
        threads=threads,
    )


def build_judge(
    work: Path,
    seed: int,
    plan: BuildPlan = PLAN,
    *,
    threads: int = 1,
    workers: int = 1,
    max_minutes: float | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> Path | None:
    """Simulate, train, and add gate and calibration maps; what is done already is not done again.

    Args:
        work: Folder of the datasets, the training run and the judge.
        seed: Random seed.
        plan: What the judge is made from.
        threads: CPU threads of training.
        workers: Processes of the simulator.
        max_minutes: Stop training after this long; the next call resumes.
        log: Called with a line of text now and then.

    Returns:
        The judge's folder, ``work/judge-SEED``; ``None`` where training is not finished.
    """
    make_datasets(work, (*plan.training, plan.validation), workers, log)

    def log_step(step: int, total: int, loss: float) -> None:
        if step % LOG_EVERY_STEPS == 0:
            log(f"step {step} of {total}, loss {loss:.3f}")

    job = training_job(work, seed, threads, plan)
    result = job.run(max_minutes, log=log, on_step=log_step)
    if not result["finished"]:
        return None
    make_datasets(work, (*plan.out_of_distribution, plan.calibration), workers, log)
    folder = work / f"judge-{seed}"
    if not (folder / "config.json").is_file():
        folder.mkdir(exist_ok=True)
        for name in ("generation_config.json", "tokenizer.json", "model.safetensors", "config.json"):
            shutil.copyfile(job.folder / name, folder / name)
        write_processor_files(folder, json.loads((folder / "config.json").read_text(encoding="utf-8")))
    _add_gate(folder, work, plan, log)
    _add_maps(folder, work, seed, plan, log)
    return folder


def _add_gate(folder: Path, work: Path, plan: BuildPlan, log: Callable[[str], None]) -> None:
    from stepscore.models.embedded import GATE_FILE, load_gate
    from stepscore.training.gate.camera_training import add_camera_check
    from stepscore.training.gate.training import build_gate

    path = folder / GATE_FILE
    if not path.is_file():
        known, others = (
            [work / rollouts.name for rollouts in each] for each in (plan.training, plan.out_of_distribution)
        )
        build_gate(folder, known, others, plan.gate)
        log(f"{path}: scenes")
    if load_gate(path).cameras is None:
        add_camera_check(folder, plan.cameras)
        log(f"{path}: cameras")


def _add_maps(folder: Path, work: Path, seed: int, plan: BuildPlan, log: Callable[[str], None]) -> None:
    from stepscore.judges.common import write_calibration
    from stepscore.models.embedded import CALIBRATION, CAUSAL_CALIBRATION
    from stepscore.training.embedded.calibration import fit_maps

    dataset, run = work / plan.calibration.name, work / f"calibration-{seed}"
    # The one that marks a finished judge comes last.
    path = folder / CAUSAL_CALIBRATION.name
    if not path.is_file():
        causal_run = run.with_name(f"{run.name}-causal")
        write_calibration(fit_maps([dataset], causal_run, folder, sampling="causal").fitted, path)
        log(f"{path}: maps of causal sampling")
    path = folder / CALIBRATION.name
    if not path.is_file():
        write_calibration(fit_maps([dataset], run, folder).fitted, path)
        log(f"{path}: maps to progress and success")


def install_judge(folder: Path) -> None:
    """Put a finished judge into the package; its card stays to be written."""
    from stepscore.models.embedded import CALIBRATION, FOLDER

    if not (folder / CALIBRATION.name).is_file():
        raise OptionError(f"{folder} holds no finished judge: calibration.json is missing. Run build first.")
    FOLDER.mkdir(exist_ok=True)
    for path in folder.iterdir():
        shutil.copyfile(path, FOLDER / path.name)
