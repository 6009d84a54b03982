"""``stepscore train``: judges that learn from labelled rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.tables import err, out, print_json

if TYPE_CHECKING:
    from stepscore.training.sarm import SarmJob
    from stepscore.training.vlm import VlmJob

app = typer.Typer(help="Train a judge on labelled rollouts.", no_args_is_help=True)

Folder = Annotated[
    Path, typer.Option("--out", "-o", metavar="CHECKPOINT", help="Folder of the checkpoint and its state.")
]
HeldOut = Annotated[
    list[Path] | None,
    typer.Option("--held-out", metavar="DATASET", help="Check on this one at every save; may be repeated."),
]
Minutes = Annotated[
    float | None, typer.Option("--minutes", help="Stop after so long; the same command goes on from there.")
]
Seed = Annotated[int, typer.Option("--seed", help="Another seed, another network.")]
Threads = Annotated[int, typer.Option("--threads", help="Processor threads.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("vlm")
def vlm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET...",
            help="Datasets with labels.parquet and subgoals.yaml, as `stepscore sim` writes.",
        ),
    ],
    folder: Folder,
    base: Annotated[
        str | None,
        typer.Option(
            "--base", metavar="hf/...", help="Go on from this Qwen3-VL checkpoint; else from nothing."
        ),
    ] = None,
    lora: Annotated[
        bool,
        typer.Option("--lora", help="With --base: train LoRA adapters alone, and merge them at the end."),
    ] = False,
    rank: Annotated[int, typer.Option("--rank", help="Rank of the LoRA adapters.")] = 16,
    steps: Annotated[int, typer.Option("--steps", help="Steps, of about 40 pairs of frames each.")] = 6000,
    look: Annotated[
        int, typer.Option("--look", help="Steps before them in which the vision tower learns alone.")
    ] = 0,
    read: Annotated[
        int,
        typer.Option("--read", help="Steps between the two in which the language model learns to read it."),
    ] = 0,
    settled: Annotated[
        int,
        typer.Option("--settled", help="How many of the steps, at the end, leave the vision tower as it is."),
    ] = 0,
    minutes: Minutes = None,
    seed: Seed = 0,
    size: Annotated[
        int, typer.Option("--size", metavar="PX", help="Pixels a side that the network sees.")
    ] = 96,
    rate: Annotated[float | None, typer.Option("--rate", help="Highest learning rate.")] = None,
    pictures: Annotated[
        float,
        typer.Option("--pictures", help="Share of steps with stepeval's, procvlm's and hop's questions."),
    ] = 0.2,
    held_out: HeldOut = None,
    wordings: Annotated[
        Path | None,
        typer.Option(
            "--wordings", metavar="FILE", help="Other words for instructions (YAML: text and a list)."
        ),
    ] = None,
    frames: Annotated[
        Path | None,
        typer.Option(
            "--frames", metavar="DIR", help="Where decoded pictures are kept; else in the checkpoint."
        ),
    ] = None,
    threads: Threads = 2,
    json: Json = False,
) -> None:
    """Teach a vision-language model to tell from video what is done.

    Statements about growing prefixes (instruction, subgoals, other tasks, frozen and reversed films) and the
    questions of stepeval, procvlm and hop, with their right answers from the labels. Stop it at any time: the
    same command goes on. `--model hf/CHECKPOINT` judges with the result.
    """
    from stepscore.training.vlm import VlmJob

    job = VlmJob(
        tuple(datasets),
        folder,
        base=base,
        lora=rank if lora else None,
        steps=steps,
        look=look,
        read=read,
        settled=settled,
        seed=seed,
        size=size,
        rate=rate,
        pictures=pictures,
        held_out=tuple(held_out or ()),
        wordings=wordings,
        frames=frames,
        threads=threads,
    )
    _train(job, minutes, json, f"--judge topreward --model hf/{folder}")


@app.command("sarm")
def sarm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET...", help="Rollouts with stage or progress labels, success and failure."
        ),
    ],
    folder: Folder,
    labels: Annotated[
        Path | None,
        typer.Option("--labels", metavar="FILE", help="Labels; else DATASET/labels.parquet."),
    ] = None,
    sparse_labels: Annotated[
        Path | None,
        typer.Option(
            "--sparse-labels", metavar="FILE", help="With --mode dual: labels of the sparse stages."
        ),
    ] = None,
    encoder: Annotated[
        str,
        typer.Option("--encoder", help="What it sees with: embedded, or hf/PATH-OR-ID of a vision model."),
    ] = "embedded",
    mode: Annotated[
        str,
        typer.Option("--mode", help="single (no stages), dense (stages), dual (sparse and dense stages)."),
    ] = "dense",
    progress: Annotated[
        str | None,
        typer.Option(
            "--progress",
            metavar="NAME",
            help="Learn this labelled progress; or stages, or linear (frame index).",
        ),
    ] = None,
    causal: Annotated[
        bool, typer.Option("--causal", help="Look at the past alone, for online use; else on both sides.")
    ] = False,
    views: Annotated[str | None, typer.Option("--views", help="Cameras, by commas; else all.")] = None,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="COLUMN", help="Recorded columns to look at too, by commas."),
    ] = None,
    steps: Annotated[int, typer.Option("--steps", help="Steps of training.")] = 2000,
    batch: Annotated[int, typer.Option("--batch", help="Windows in a step.")] = 32,
    rate: Annotated[float, typer.Option("--rate", help="Highest learning rate.")] = 3e-4,
    rewind: Annotated[float, typer.Option("--rewind", help="Share of windows that are rewound.")] = 0.8,
    wrong_text: Annotated[
        float, typer.Option("--wrong-text", help="Share of windows with the text of something else.")
    ] = 0.2,
    frames: Annotated[int, typer.Option("--frames", help="Frames of a window beside the first one.")] = 8,
    gap: Annotated[
        float | None,
        typer.Option(
            "--gap", metavar="S", help="Seconds between them; else half of the median episode is seen."
        ),
    ] = None,
    width: Annotated[int, typer.Option("--width", help="Numbers of a token; the paper's is 768.")] = 128,
    layers: Annotated[int, typer.Option("--layers", help="Layers of each network; the paper's is 8.")] = 3,
    heads: Annotated[int, typer.Option("--heads", help="Attention heads; the paper's is 12.")] = 4,
    copies: Annotated[
        int,
        typer.Option("--copies", help="Copies with shifted camera and other light to learn from besides."),
    ] = 0,
    held_out: HeldOut = None,
    hold: Annotated[
        float, typer.Option("--hold", help="Without --held-out: share of scenes kept apart to check on.")
    ] = 0.1,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", metavar="DIR", help="Where encoded frames are kept; else in the checkpoint."),
    ] = None,
    minutes: Minutes = None,
    seed: Seed = 0,
    threads: Threads = 2,
    json: Json = False,
) -> None:
    """Teach a stage-aware reward model (SARM) to tell stage and progress from video.

    Every frame is encoded once by a frozen encoder; the two small networks learn from what it saw. Stop it at any
    time: the same command goes on. `--judge sarm --model sarm/CHECKPOINT` judges with the result.
    """
    from stepscore.training.sarm import SarmJob

    recipe = {"steps": steps, "batch": batch, "rate": rate, "rewind": rewind, "wrong_text": wrong_text}
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
        frames=frames,
        gap_s=gap,
        width=width,
        layers=layers,
        attention_heads=heads,
        copies=copies,
        recipe={**recipe, "seed": seed},
        held_out=tuple(held_out or ()),
        hold=hold,
        cache=cache,
        threads=threads,
    )
    _train(job, minutes, json, f"--judge sarm --model sarm/{folder}")


def _train(job: VlmJob | SarmJob, minutes: float | None, json: bool, judge: str) -> None:
    """Train with a bar in a terminal and a line now and then elsewhere, and say what came of it."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = err()
    bar = Progress(
        TextColumn("step"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("loss {task.fields[loss]:.4f}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    with bar:
        row = bar.add_task("", total=None, loss=float("nan"))

        def told(step: int, last: int, loss: float) -> None:
            bar.update(row, completed=step, total=last, loss=loss)
            if bar.disable and (step % 50 == 0 or step == last):
                console.print(f"step {step} of {last}, loss {loss:.4f}")

        done = job.run(minutes, log=lambda text: console.print(text), on_step=told)
    if json:
        print_json(done)
        return
    state = "Finished" if done["finished"] else "Stopped; the same command resumes"
    out().print(f"{state} at step {done['step']}, after {done['seconds'] / 60:.1f} minutes.")
    if done["finished"]:
        out().print(f"Next: stepscore judge SOURCE {judge} -o RUN")
