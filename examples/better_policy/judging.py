"""Whose progress weighs the demonstrations: the simulator's truth, SARM, and the embedded judge.

No judge is told how a demonstration ended, nor which policy made it: it sees the film and the instruction alone.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from examples.better_policy.demonstrations import FILMS
from examples.better_policy.setting import FAILED, WASTEFUL, Setting, write_whole
from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.labels.label_intervals import POTENTIAL
from stepscore.episodes.labels.labels import Labels, read_labels
from stepscore.errors import RunError
from stepscore.judges import Judge, get_judge
from stepscore.judges.common.calibration import read_calibration
from stepscore.models import get_model
from stepscore.models.embedded.model import CALIBRATION
from stepscore.runs import Run, open_run, score
from stepscore.runs.model_client import CallOptions
from stepscore.sim import Plan, RenderOptions, write_dataset
from stepscore.sim.dataset import LABELS_FILE
from stepscore.training.embedded.tasks import FPS, SIZE, VIEW
from stepscore.training.sarm.job import SarmJob

ANNOTATED, CHECKPOINT, RUNS = "annotated", "sarm", "runs"
TAUGHT_BY = ("expert", *FAILED, "expert", *WASTEFUL)
"""Policies of the rollouts that SARM is taught on, in turns."""
CURVES_FILE = "truth.parquet"
SAVE_EVERY = 250
"""Steps of SARM's training after which it can be stopped and goes on."""
MAPPED = ("prefixes", "fps", "min_first", "max_frames", "size", "form", "variant", "target", "other")
"""Options of topreward for which the embedded judge's calibration map was fitted."""


def make_annotated(work: Path, setting: Setting) -> None:
    """Film the rollouts that SARM is taught on; the simulator's stages and progress are their annotation."""
    folder, unfinished = work / ANNOTATED, work / f".{ANNOTATED}"
    if folder.is_dir():
        return
    shutil.rmtree(unfinished, ignore_errors=True)
    plans = [
        Plan(task, TAUGHT_BY[scene % len(TAUGHT_BY)], scene, setting.annotated_seed)
        for task in setting.tasks
        for scene in range(setting.annotated)
    ]
    write_dataset(unfinished, plans, RenderOptions((VIEW,), SIZE, FPS))
    os.replace(unfinished, folder)


def train_sarm(work: Path, setting: Setting) -> None:
    """Teach SARM on the annotated rollouts of all tasks, with the embedded judge's vision tower; offline form."""
    job = SarmJob(
        (work / ANNOTATED,),
        work / CHECKPOINT,
        recipe={"steps": setting.sarm_steps, "save_every": SAVE_EVERY},
        hold=0.0,
        threads=1,
    )
    job.run()


def judge_demonstrations(work: Path, task: str, source: str) -> Run:
    """The run of one source over the demonstrations of a task; RunError where an episode could not be judged."""
    folder = work / task
    if source == "truth":
        _write_truth(folder)
    run = score(
        unlabelled(folder / FILMS),
        _judge(work, folder, source),
        folder / RUNS / source,
        call_options=CallOptions(cache=False),
    )
    failed = [row for row in run.judgements().to_pylist() if row["error"]]
    if failed:
        raise RunError(f"{source} could not judge {failed[0]['episode_id']} of {task}: {failed[0]['error']}")
    write_whole(judged_file(folder, source), run.protocol.hash + "\n")
    return run


def judged_file(folder: Path, source: str) -> Path:
    """What is there once a source has judged every demonstration of a task; the run alone may lack some."""
    return folder / RUNS / f"{source}.judged"


def judged(folder: Path, source: str) -> Run:
    """The run of one source over the demonstrations of a task, made before."""
    return open_run(folder / RUNS / source)


def unlabelled(films: Path) -> list[Episode]:
    """The demonstrations without their labels: a LeRobot dataset states success, and no judge may know."""
    return [replace(episode, labels=Labels(), policy=None) for episode in open_episodes(films)]


def _judge(work: Path, folder: Path, source: str) -> Judge:
    if source == "truth":
        return get_judge("recorded", path=str(folder / CURVES_FILE))
    if source == "sarm":
        # The mean over stages by probability: it does not jump where two stages are about as likely.
        return get_judge("sarm", model=get_model(f"sarm/{work / CHECKPOINT}"), decode="expected")
    # A map holds for the options it was fitted with.
    fitted = {name: read_calibration(CALIBRATION).options[name] for name in MAPPED}
    return get_judge("topreward", model=get_model("embedded"), calibration=CALIBRATION, **fitted)


def _write_truth(folder: Path) -> None:
    """The simulator's potential at every frame, as a file of curves."""
    rows = [
        (episode, label.start_s, label.value)
        for episode, labels in read_labels(folder / FILMS / LABELS_FILE).items()
        for label in labels
        if label.kind == "progress" and label.name == POTENTIAL
    ]
    names = ("episode_id", "time_s", "progress")
    table = pa.table(
        {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    )
    pq.write_table(table, folder / CURVES_FILE)
