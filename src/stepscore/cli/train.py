"""``stepscore train``: judges that learn from labelled rollouts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli.show import err, out, print_json

app = typer.Typer(help="Train a judge on labelled rollouts.", no_args_is_help=True)


@app.command("vlm")
def vlm(
    datasets: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATASET...",
            help="Datasets with labels.parquet and subgoals.yaml, as `stepscore sim` writes.",
        ),
    ],
    folder: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="CHECKPOINT", help="Folder of the checkpoint and its state."),
    ],
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
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", help="Stop after so long; the same command goes on from there."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed, another network.")] = 0,
    size: Annotated[
        int, typer.Option("--size", metavar="PX", help="Pixels a side that the network sees.")
    ] = 96,
    rate: Annotated[float | None, typer.Option("--rate", help="Highest learning rate.")] = None,
    pictures: Annotated[
        float,
        typer.Option("--pictures", help="Share of steps with stepeval's, procvlm's and hop's questions."),
    ] = 0.2,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            "--held-out", metavar="DATASET", help="Check on this one at every save; may be repeated."
        ),
    ] = None,
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
    threads: Annotated[int, typer.Option("--threads", help="Processor threads.")] = 2,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Teach a vision-language model to tell from video what is done.

    Statements about growing prefixes (instruction, subgoals, other tasks, frozen and reversed films) and the
    questions of stepeval, procvlm and hop, with their right answers from the labels. Stop it at any time: the
    same command goes on. `--model hf/CHECKPOINT` judges with the result.
    """
    from stepscore.training.vlm_job import VlmJob

    job = VlmJob(
        tuple(datasets),
        folder,
        base=base,
        lora=rank if lora else None,
        steps=steps,
        look=look,
        seed=seed,
        size=size,
        rate=rate,
        pictures=pictures,
        held_out=tuple(held_out or ()),
        wordings=wordings,
        frames=frames,
        threads=threads,
    )
    done = job.run(minutes, say=lambda text: err().print(text))
    if json:
        print_json(done)
        return
    state = "Finished" if done["finished"] else "Stopped; the same command goes on"
    out().print(
        f"{state} at step {done['step']} of {look + steps}, after {done['seconds'] / 60:.1f} minutes."
    )
    if done["finished"]:
        out().print(f"Next: stepscore judge SOURCE --judge topreward --model hf/{folder} -o RUN")
