"""The sources of progress that weight the demonstrations: the simulator's truth, SARM, and the embedded judge.

No judge knows how a demonstration ended, nor which policy made it: it gets the video and the instruction alone.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from examples.better_policy.demonstrations import DATASET
from examples.better_policy.setting import FAILED, WASTEFUL, Setting, write_atomic
from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.episodes.labels.labels import Labels, read_labels
from stepscore.errors import RunError
from stepscore.judges import Judge, get_judge
from stepscore.judges.common.calibration import read_calibration
from stepscore.models import get_model
from stepscore.models.embedded.model import CALIBRATION
from stepscore.runs import CallOptions, Run, open_run, score
from stepscore.sim import LABELS_FILE, RenderOptions, RolloutPlan, write_dataset
from stepscore.training.embedded.tasks import FPS, SIZE, VIEW
from stepscore.training.sarm import SarmJob, SarmTrainConfig

ANNOTATED, CHECKPOINT, RUNS = "annotated", "sarm", "runs"
SARM_POLICIES = ("expert", *FAILED, "expert", *WASTEFUL)
"""Policies of the rollouts that SARM is trained on, in turns."""
CURVES_FILE = "truth.parquet"
SAVE_EVERY = 250
"""Optimizer steps between saves of SARM's training, from which it resumes."""
CALIBRATED_OPTIONS = (
    "prefixes",
    "fps",
    "min_first",
    "max_frames",
    "size",
    "form",
    "variant",
    "target",
    "other",
)
"""Options of topreward for which the embedded judge's calibration map was fitted."""


def make_annotated(work: Path, setting: Setting) -> None:
    """Render the rollouts that SARM is trained on, labelled with the simulator's stages and progress."""
    folder, unfinished = work / ANNOTATED, work / f".{ANNOTATED}"
    if folder.is_dir():
        return
    shutil.rmtree(unfinished, ignore_errors=True)
    plans = [
        RolloutPlan(task, SARM_POLICIES[scene % len(SARM_POLICIES)], scene, setting.annotated_seed)
        for task in setting.tasks
        for scene in range(setting.annotated)
    ]
    write_dataset(unfinished, plans, RenderOptions((VIEW,), SIZE, FPS))
    os.replace(unfinished, folder)


def train_sarm(work: Path, setting: Setting) -> None:
    """Train a bidirectional SARM on the annotated rollouts of all tasks, with the embedded judge's vision encoder."""
    job = SarmJob(
        (work / ANNOTATED,),
        work / CHECKPOINT,
        train_config=SarmTrainConfig(steps=setting.sarm_steps, save_every=SAVE_EVERY),
        val_fraction=0.0,
        threads=1,
    )
    job.run()


def judge_demonstrations(work: Path, task: str, source: str) -> Run:
    """Judge the demonstrations of a task by one source, and return the run.

    Raises:
        RunError: An episode could not be judged.
    """
    folder = work / task
    if source == "truth":
        _write_truth(folder)
    run = score(
        unlabelled(folder / DATASET),
        _judge(work, folder, source),
        folder / RUNS / source,
        call_options=CallOptions(cache=False),
    )
    failed = [row for row in run.judgements().to_pylist() if row["error"]]
    if failed:
        raise RunError(f"{source} could not judge {failed[0]['episode_id']} of {task}: {failed[0]['error']}")
    write_atomic(judged_file(folder, source), run.protocol.hash + "\n")
    return run


def judged_file(folder: Path, source: str) -> Path:
    """Return the file that exists once a source has judged every demonstration of a task; a run may lack some."""
    return folder / RUNS / f"{source}.judged"


def judged(folder: Path, source: str) -> Run:
    """Open the run of one source over the demonstrations of a task."""
    return open_run(folder / RUNS / source)


def unlabelled(dataset: Path) -> list[Episode]:
    """Return the demonstrations without labels: a LeRobot dataset states success, which no judge may know."""
    return [replace(episode, labels=Labels(), policy=None) for episode in open_episodes(dataset)]


def _judge(work: Path, folder: Path, source: str) -> Judge:
    if source == "truth":
        return get_judge("recorded", path=str(folder / CURVES_FILE))
    if source == "sarm":
        # The mean over stages by probability: it does not jump where two stages are about as likely.
        return get_judge("sarm", model=get_model(f"sarm/{work / CHECKPOINT}"), decode="expected")
    # A calibration map is valid for the options it was fitted with.
    fitted = {name: read_calibration(CALIBRATION).options[name] for name in CALIBRATED_OPTIONS}
    return get_judge("topreward", model=get_model("embedded"), calibration=CALIBRATION, **fitted)


def _write_truth(folder: Path) -> None:
    """Write the simulator's potential at every frame as a file of curves."""
    rows = [
        (episode, label.start_s, label.value)
        for episode, labels in read_labels(folder / DATASET / LABELS_FILE).items()
        for label in labels
        if label.kind == "progress" and label.name == POTENTIAL
    ]
    names = ("episode_id", "time_s", "progress")
    table = pa.table(
        {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    pq.write_table(table, folder / CURVES_FILE)
