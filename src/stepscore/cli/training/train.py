"""``stepscore train``: train a judge on labelled rollouts."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from stepscore._extras import check_extra
from stepscore.cli import options
from stepscore.cli.numbers import MANY, MAX_SEED, between
from stepscore.cli.outputs import CHECKPOINT, Force, check_output, new_folder
from stepscore.cli.tables import err, out, print_json
from stepscore.cli.training import sarm_options
from stepscore.training import default_threads
from stepscore.training.sarm import SarmJob, SarmTrainConfig
from stepscore.training.vlm import VlmJob

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
    list[Path] | None,
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
Seed = Annotated[int, typer.Option("--seed", callback=between(0, MAX_SEED), help="Random seed.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        callback=between(1, 1024),
        help="CPU threads; by default 1 on up to 4 CPUs, else half of them.",
    ),
]
PRINT_EVERY_S = 10.0
"""Seconds between two lines about the steps, where there is no terminal for a bar."""


@app.command("vlm")
def vlm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET",
            help="Datasets with labels.parquet and subgoals.yaml, as `stepscore sim` writes.",
        ),
    ],
    folder: Folder,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="hf/...", help="Fine-tune this Qwen3-VL checkpoint; else a new small network."
        ),
    ] = None,
    lora: Annotated[
        bool,
        typer.Option("--lora", help="With --base: train LoRA adapters alone, and merge them at the end."),
    ] = False,
    lora_rank: Annotated[
        int, typer.Option("--lora-rank", callback=between(1, 10_000), help="Rank of the LoRA adapters.")
    ] = 16,
    steps: Annotated[
        int,
        typer.Option(
            "--steps", callback=between(0, MANY), help="Optimizer steps, of about 40 pairs of frames each."
        ),
    ] = VlmJob.steps,
    vision_pretrain_steps: Annotated[
        int,
        typer.Option(
            "--vision-pretrain-steps",
            callback=between(0, MANY),
            help="Steps before --steps in which the vision encoder learns alone.",
        ),
    ] = VlmJob.vision_pretrain_steps,
    align_steps: Annotated[
        int,
        typer.Option(
            "--align-steps",
            callback=between(0, MANY),
            help="Steps after those, before --steps, that align the language model with the vision encoder.",
        ),
    ] = VlmJob.align_steps,
    frozen_vision_steps: Annotated[
        int,
        typer.Option(
            "--frozen-vision-steps",
            callback=between(0, MANY),
            help="How many of --steps, at the end, freeze the vision encoder.",
        ),
    ] = VlmJob.frozen_vision_steps,
    max_minutes: MaxMinutes = None,
    seed: Seed = 0,
    image_size: Annotated[
        int,
        typer.Option(
            "--image-size",
            callback=between(1, 4096),
            metavar="PX",
            help="Pixels a side of the network's input.",
        ),
    ] = VlmJob.image_size,
    lr: Annotated[
        float | None,
        typer.Option(
            "--lr",
            callback=between(0, 1000, above=True),
            help="Peak learning rate; by default 1e-3, with --base 2e-5, with --lora 1e-4.",
        ),
    ] = None,
    image_question_fraction: Annotated[
        float,
        typer.Option(
            "--image-question-fraction",
            callback=between(0, 1),
            help="Fraction of steps with stepeval's, procvlm's and hop's questions.",
        ),
    ] = VlmJob.image_question_fraction,
    eval_datasets: EvalDatasets = None,
    paraphrases: Annotated[
        Path | None,
        typer.Option(
            "--paraphrases", metavar="FILE", help="Paraphrases of instructions (YAML, a list for each)."
        ),
    ] = None,
    frames_dir: Annotated[
        Path | None,
        typer.Option(
            "--frames-dir", metavar="DIR", help="Cache of decoded frames; else in the checkpoint's folder."
        ),
    ] = None,
    threads: Threads = None,
    force: Force = False,
    json: options.Json = False,
) -> None:
    """Train a vision-language model to judge from video how far a task is done.

    It is trained on statements about growing prefixes (instruction, subgoals, other tasks, frozen and reversed
    videos) and on the questions of stepeval, procvlm and hop, with their right answers from the labels. Stop it at
    any time: the same command resumes. `--model hf/CHECKPOINT` judges with the result.
    """
    check_output(folder, CHECKPOINT, force=force)
    job = VlmJob(
        tuple(datasets),
        folder,
        base=base,
        lora_rank=lora_rank if lora else None,
        steps=steps,
        vision_pretrain_steps=vision_pretrain_steps,
        align_steps=align_steps,
        frozen_vision_steps=frozen_vision_steps,
        seed=seed,
        image_size=image_size,
        lr=lr,
        image_question_fraction=image_question_fraction,
        eval_datasets=tuple(eval_datasets or ()),
        paraphrases=paraphrases,
        frames_dir=frames_dir,
        threads=threads or default_threads(),
    )
    _train(job, max_minutes, json, f"--judge topreward --model {shlex.quote(f'hf/{folder}')}")


@app.command("sarm")
def sarm(
    datasets: sarm_options.Datasets,
    folder: Folder,
    labels: sarm_options.Labels = None,
    sparse_labels: sarm_options.SparseLabels = None,
    encoder: sarm_options.Encoder = SarmJob.encoder,
    mode: sarm_options.Mode = SarmJob.mode,
    progress: sarm_options.Progress = None,
    causal: sarm_options.Causal = False,
    views: sarm_options.Views = None,
    state: sarm_options.State = None,
    steps: sarm_options.Steps = SarmTrainConfig.steps,
    batch_size: sarm_options.BatchSize = SarmTrainConfig.batch_size,
    lr: sarm_options.Lr = SarmTrainConfig.lr,
    rewind_prob: sarm_options.RewindProb = SarmTrainConfig.rewind_prob,
    language_perturbation_prob: sarm_options.LanguagePerturbationProb = SarmTrainConfig.language_perturbation_prob,
    n_obs_steps: sarm_options.NObsSteps = None,
    frame_gap_s: sarm_options.FrameGapS = None,
    hidden_dim: sarm_options.HiddenDim = None,
    n_layers: sarm_options.NLayers = None,
    n_heads: sarm_options.NHeads = None,
    n_augmentations: sarm_options.NAugmentations = SarmJob.n_augmentations,
    eval_datasets: EvalDatasets = None,
    val_fraction: sarm_options.ValFraction = SarmJob.val_fraction,
    features_dir: sarm_options.FeaturesDir = None,
    max_minutes: MaxMinutes = None,
    seed: Seed = SarmTrainConfig.seed,
    threads: Threads = None,
    force: Force = False,
    json: options.Json = False,
) -> None:
    """Train a stage-aware reward model (SARM) that predicts stage and progress from video.

    Every frame is encoded once by a frozen encoder; two small transformers are trained on the features. Stop it at
    any time: the same command resumes. `--judge sarm --model sarm/CHECKPOINT` judges with the result.
    """
    check_output(folder, CHECKPOINT, force=force)
    job = SarmJob(
        tuple(datasets),
        folder,
        labels=labels,
        sparse_labels=sparse_labels,
        encoder=encoder,
        mode=mode,  # type: ignore[arg-type]  # checked there
        progress=progress,
        causal=causal,
        views=tuple(views.split(",")) if views else (),
        state=tuple(state.split(",")) if state else (),
        n_obs_steps=n_obs_steps,
        frame_gap_s=frame_gap_s,
        hidden_dim=hidden_dim,
        n_layers=n_layers,
        n_heads=n_heads,
        n_augmentations=n_augmentations,
        train_config=SarmTrainConfig(
            steps=steps,
            batch_size=batch_size,
            lr=lr,
            rewind_prob=rewind_prob,
            language_perturbation_prob=language_perturbation_prob,
            seed=seed,
        ),
        eval_datasets=tuple(eval_datasets or ()),
        val_fraction=val_fraction,
        features_dir=features_dir,
        threads=threads or default_threads(),
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
