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
EvalDatasets = Annotated[
    list[Path],
    typer.Option(
        "--eval-dataset", metavar="DATASET", help="Held-out dataset, evaluated at every save; repeatable."
    ),
]
MaxMinutes = Annotated[
    float | None,
    typer.Option(
        "--max-minutes", callback=between(0, MANY), help="Stop after this long; the same command resumes."
    ),
]
GIVEN_BY_FLAGS = ("datasets", "folder", "labels", "views", "eval_datasets")
VlmTraining = Annotated[
    dict[str, Any],
    options.KeyGroup(
        "-T",
        "training",
        of=("stepscore.training.vlm:VlmJob",),
        leave_out=(*GIVEN_BY_FLAGS, "image_questions_from"),
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
            *("warmup_steps", "weight_decay", "true_stage_prob", "save_every"),
        ),
    ),
]
PRINT_EVERY_S = 10.0
"""Seconds between two lines about the steps, where there is no terminal for a bar."""


@app.command("vlm")
@options.with_groups
def vlm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET", help="Datasets with labels.parquet and subgoals.yaml, as of `sim`."
        ),
    ],
    folder: Folder,
    *,
    training: VlmTraining,
    eval_datasets: EvalDatasets = [],  # noqa: B006 - typer copies it
    max_minutes: MaxMinutes = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a vision-language model to judge from video how far a task is done.

    It is trained on statements about growing prefixes (instruction, subgoals, other tasks, frozen and reversed
    videos) and on the questions of stepeval, procvlm and hop, with their right answers from the labels. Stop it at
    any time: the same command resumes. `--model hf/CHECKPOINT` judges with the result.
    """
    from stepscore.training.vlm import VlmJob

    check_output(folder, CHECKPOINT, force=force)
    job = VlmJob(tuple(datasets), folder, eval_datasets=tuple(eval_datasets), **training)
    _train(job, max_minutes, json, f"--judge topreward --model {shlex.quote(f'hf/{folder}')}")


@app.command("sarm")
@options.with_groups
def sarm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET", help="Rollouts with stage or progress labels, success and failure."
        ),
    ],
    folder: Folder,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="Labels; default: DATASET/labels.parquet."),
    ] = None,
    views: Annotated[
        str | None,
        typer.Option("--views", metavar="A,B", help="Cameras; default: those of the first episode."),
    ] = None,
    *,
    training: SarmTraining,
    eval_datasets: EvalDatasets = [],  # noqa: B006
    max_minutes: MaxMinutes = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Train a stage-aware reward model (SARM) that predicts stage and progress from video.

    Every frame is encoded once by a frozen encoder; two small transformers are trained on the features. Stop it at
    any time: the same command resumes. `--judge sarm --model sarm/CHECKPOINT` judges with the result.
    """
    from stepscore.training.sarm import SarmJob, SarmTrainConfig

    check_output(folder, CHECKPOINT, force=force)
    config = {field.name for field in fields(SarmTrainConfig)}
    job = SarmJob(
        tuple(datasets),
        folder,
        labels=labels,
        views=tuple(options.split_names(views) or ()),
        eval_datasets=tuple(eval_datasets),
        train_config=SarmTrainConfig(**{name: value for name, value in training.items() if name in config}),
        **{name: value for name, value in training.items() if name not in config},
    )
    _train(job, max_minutes, json, f"--judge sarm --model {shlex.quote(f'sarm/{folder}')}")


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
