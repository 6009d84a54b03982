"""``stepscore train``: train a judge on labelled rollouts."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stepscore._imports import check_extra
from stepscore.cli import options
from stepscore.cli.formats import Json
from stepscore.cli.numbers import MANY, between
from stepscore.cli.outputs import CHECKPOINT, Force, check_output, new_folder
from stepscore.cli.tables import err, out, print_json

if TYPE_CHECKING:
    from stepscore.training import SarmJob, VlmJob

app = typer.Typer(help="Train a judge on labelled rollouts.", no_args_is_help=True)

Folder = Annotated[
    Path,
    typer.Option(
        "--out",
        "-o",
        callback=new_folder,
        metavar="CHECKPOINT",
        help="Folder of the checkpoint and its state.",
    ),
]
Datasets = Annotated[
    list[Path], typer.Argument(metavar="DATASET", help="Labelled rollouts, success and failure.")
]
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels. Default: those next to the data."),
]
SubgoalsFile = Annotated[
    Path | None,
    typer.Option("--subgoals", metavar="FILE", help="Subgoals (YAML). Default: those next to the data."),
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes", callback=between(0, MANY), help="Stop after this time. Rerun the command to resume."
    ),
]
GIVEN_BY_FLAGS = ("datasets", "folder", "labels", "subgoals")
VlmTraining = Annotated[
    dict[str, Any],
    options.KeyGroup(
        "-T",
        "training",
        of=("stepscore.training.vlm:VlmJob",),
        leave_out=(
            *GIVEN_BY_FLAGS,
            *("image_questions_from", "frozen_vision_steps", "frames_dir", "paraphrases"),
        ),
    ),
]
SarmTraining = Annotated[
    dict[str, Any],
    options.KeyGroup(
        "-T",
        "training",
        of=("stepscore.training.sarm:SarmJobConfig", "stepscore.training.sarm:SarmTrainConfig"),
        leave_out=(
            *GIVEN_BY_FLAGS,
            "train_config",
            "device",
            "features_dir",
            *("warmup_steps", "weight_decay", "true_stage_prob", "save_every"),
        ),
    ),
]
PRINT_EVERY_S = 10.0
"""Seconds between two progress lines without a terminal."""


@app.command("vlm")
@options.with_groups
def vlm(
    datasets: Datasets,
    folder: Folder,
    labels: LabelsFile = None,
    subgoals: SubgoalsFile = None,
    *,
    training: VlmTraining,
    max_minutes: MaxMinutes = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a vision-language model to judge from video how far a task is done.

    It learns from statements about growing prefixes (instruction, subgoals, other tasks, frozen and reversed videos)
    and from the questions of stepeval, procvlm and hop, answered by the labels. Rerun the command to resume. Judge
    with `--model hf/CHECKPOINT`.
    """
    from stepscore.training.vlm import VlmJob

    check_output(folder, CHECKPOINT, force=force)
    job = VlmJob(tuple(datasets), folder, labels=labels, subgoals=subgoals, **_with_paths(training))
    _train(job, max_minutes, json, f"--judge topreward --model {shlex.quote(f'hf/{folder}')}")


@app.command("sarm")
@options.with_groups
def sarm(
    datasets: Datasets,
    folder: Folder,
    labels: LabelsFile = None,
    subgoals: SubgoalsFile = None,
    *,
    training: SarmTraining,
    max_minutes: MaxMinutes = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a stage-aware reward model (SARM) that predicts stage and progress from video.

    A frozen encoder encodes every frame once; two small transformers are trained on the features. Rerun the command
    to resume. Judge with `--judge sarm --model sarm/CHECKPOINT`.
    """
    from stepscore.training.sarm import SarmJob, SarmTrainConfig

    check_output(folder, CHECKPOINT, force=force)
    config, training = {field.name for field in fields(SarmTrainConfig)}, _with_paths(training)
    job = SarmJob(
        tuple(datasets),
        folder,
        labels=labels,
        subgoals=subgoals,
        train_config=SarmTrainConfig(**{name: value for name, value in training.items() if name in config}),
        **{name: value for name, value in training.items() if name not in config},
    )
    _train(job, max_minutes, json, f"--judge sarm --model {shlex.quote(f'sarm/{folder}')}")


def _with_paths(training: dict[str, Any]) -> dict[str, Any]:
    """Return the keys given, with the names of held-out datasets as paths."""
    return training | {"eval_datasets": tuple(map(Path, training.get("eval_datasets", ())))}


def _train(job: VlmJob | SarmJob, max_minutes: float | None, json: bool, judge: str) -> None:
    """Train with a progress bar in a terminal, else a line now and then, and print the result."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    check_extra(job.extra, "Training")
    console = err()
    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TextColumn("{task.fields[speed]}"),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        row = bar.add_task("", total=None, loss=float("nan"), speed="")
        pace, printed = Pace(), time.monotonic()

        def show_step(step: int, total: int, loss: float) -> None:
            nonlocal printed
            speed = pace.after(step, total)
            bar.update(row, completed=step, total=total, loss=loss, speed=speed)
            if bar.disable and (time.monotonic() - printed > PRINT_EVERY_S or step == total):
                console.print(f"step {step} of {total}, loss {loss:.4f}, {speed}")
                printed = time.monotonic()

        result = job.run(max_minutes, log=lambda text: console.print(text), on_step=show_step)
    if json:
        print_json(result)
        return
    state = "Finished" if result["finished"] else "Stopped; the same command resumes"
    out().print(f"{state} at step {result['step']}, after {result['seconds'] / 60:.1f} minutes.")
    if result["finished"]:
        out().print(f"Next: stepscore judge SOURCE {judge} -o RUN")


class Pace:
    """Steps a minute since training began or resumed, and how long the rest takes at that rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[int, float] | None = None

    def after(self, step: int, total: int) -> str:
        """Return the rate and the time left after a step; the first step, which loads things, is left out."""
        now = self._clock()
        if self._first is None:
            self._first = step, now
        steps, minutes = step - self._first[0], (now - self._first[1]) / 60
        if not steps or not minutes:
            return "rate not known yet"
        rate = steps / minutes
        return f"{rate:.3g} steps/min, {(total - step) / rate:.0f} min left"
