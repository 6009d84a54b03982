"""Commands that build the embedded judge and its domain gate.

::

    python -m stepscore.training.embedded build WORK [--seed 0] [--max-minutes 20]
    python -m stepscore.training.embedded install WORK/judge-0
    python -m stepscore.training.embedded gate CHECKPOINT --in-distribution DATASET --out-of-distribution DATASET
    python -m stepscore.training.embedded gate-cameras CHECKPOINT
    python -m stepscore.training.embedded calibrate DATASET [DATASET ...]
    python -m stepscore.training.embedded evaluate-gate CHECKPOINT --in-distribution DATASET \
        --out-of-distribution NAME=SOURCE
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stepscore.errors import OptionError, StepScoreError
from stepscore.training.embedded.build import build_judge, install_judge
from stepscore.training.embedded.tasks import PARAPHRASES_FILE, VIEW
from stepscore.training.gate.config import CameraConfig, GateConfig

app = typer.Typer(help="Build the embedded judge and its domain gate.", no_args_is_help=True)

Checkpoint = Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="Folder of the judge.")]
Paraphrases = Annotated[
    Path, typer.Option("--paraphrases", metavar="FILE", help="Paraphrases of the trained instructions.")
]


@app.command("build")
def build(
    work: Annotated[Path, typer.Argument(metavar="WORK", help="Folder of datasets and checkpoints.")],
    seed: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0,
    max_minutes: Annotated[
        float | None, typer.Option("--max-minutes", help="Stop training after this long.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", help="Processes of the simulator.")] = 1,
    threads: Annotated[int, typer.Option("--threads", help="CPU threads of training.")] = 1,
) -> None:
    """Build the judge from nothing into WORK/judge-SEED: simulate, train, add gate and calibration maps.

    Stop it at any time: the same command resumes. The weights depend on the seed and the number of threads.
    """
    folder = build_judge(
        work, seed, threads=threads, workers=workers, max_minutes=max_minutes, log=typer.echo
    )
    typer.echo("Stopped; the same command resumes." if folder is None else f"Finished: {folder}")


@app.command("install")
def install(
    folder: Annotated[Path, typer.Argument(metavar="JUDGE", help="Folder that `build` finished.")],
) -> None:
    """Put a finished judge into the package."""
    install_judge(folder)


@app.command("gate")
def gate(
    checkpoint: Checkpoint,
    in_distribution: Annotated[
        list[str],
        typer.Option("--in-distribution", metavar="DATASET", help="The judge was trained on it; repeatable."),
    ],
    ood: Annotated[
        list[str],
        typer.Option("--out-of-distribution", metavar="DATASET", help="Other scenes; repeatable."),
    ],
    views: Annotated[
        str, typer.Option("--views", help="Cameras the judge was trained with, comma-separated.")
    ] = ",".join(GateConfig.views),
    paraphrases: Paraphrases = PARAPHRASES_FILE,
    seed: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: in the checkpoint's folder.")
    ] = None,
) -> None:
    """Train the domain gate of a checkpoint, write it, and print how many images it refuses.

    Views that the judge was not trained with are out of distribution in both kinds of dataset.
    """
    from stepscore.training.gate.training import build_gate

    config = GateConfig(views=tuple(views.split(",")), seed=seed)
    path, built = build_gate(checkpoint, in_distribution, ood, config, paraphrases=paraphrases, out=out)
    typer.echo(f"{path}: " + ", ".join(f"{name} {value}" for name, value in built.facts.items()))


@app.command("gate-cameras")
def gate_cameras(
    checkpoint: Checkpoint,
    seed: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: in the checkpoint's folder.")
    ] = None,
) -> None:
    """Add the camera check to a checkpoint's domain gate: train it on scenes rendered here, about 4 CPU minutes."""
    from stepscore.training.gate.camera_training import add_camera_check

    path, check = add_camera_check(checkpoint, CameraConfig(seed=seed), out=out)
    typer.echo(f"{path}: " + ", ".join(f"{name} {value}" for name, value in check.facts.items()))


@app.command("calibrate")
def calibrate(
    datasets: Annotated[
        list[Path], typer.Argument(metavar="DATASET", help="Simulated rollouts that serve nothing else.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Default: the map in the package.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", metavar="RUN", help="Keep the run here; a stopped one is resumed.")
    ] = None,
    *,
    causal: Annotated[bool, typer.Option("--causal", help="Of causal sampling, for live sessions.")] = False,
) -> None:
    """Fit the calibration maps of the packaged judge to progress and success, and write them."""
    from stepscore.judges.common import write_calibration
    from stepscore.models.embedded import CALIBRATION, CAUSAL_CALIBRATION
    from stepscore.training.embedded.calibration import fit_maps

    out = out or (CAUSAL_CALIBRATION if causal else CALIBRATION)
    result = fit_maps(datasets, run, sampling="causal" if causal else "spread")
    write_calibration(result.fitted, out)
    typer.echo(f"{out}: progress, MAE {result.after.mae} on {result.n_held_out} other episodes")
    if result.success is not None:
        found = result.success
        typer.echo(
            f"success, cross-fitted on {found.n} episodes: balanced accuracy {found.balanced}, "
            f"judge minus label {found.rate_error}, AUC {found.auc}"
        )


@app.command("evaluate-gate")
def evaluate_gate(
    checkpoint: Checkpoint,
    in_distribution: Annotated[
        list[str],
        typer.Option("--in-distribution", metavar="DATASET", help="Held-out trained scenes; repeatable."),
    ],
    ood: Annotated[
        list[str] | None,
        typer.Option("--out-of-distribution", metavar="NAME=SOURCE", help="Other videos; repeatable."),
    ] = None,
    view: Annotated[str, typer.Option("--view", help="Camera of --in-distribution.")] = VIEW,
    paraphrases: Paraphrases = PARAPHRASES_FILE,
    gate_file: Annotated[
        Path | None, typer.Option("--gate", metavar="FILE", help="Default: in the checkpoint's folder.")
    ] = None,
) -> None:
    """Print how often a domain gate refuses, by perturbation and by kind, with intervals."""
    from stepscore.training.gate.evaluation import evaluate_checkpoint

    sources = [_named_source(text) for text in ood or ()]
    rows = evaluate_checkpoint(
        checkpoint, in_distribution, sources, view=view, paraphrases=paraphrases, gate_file=gate_file
    )
    for refusals in rows:
        row = refusals.row()
        typer.echo(
            f"{refusals.side:19s} {refusals.kind:55.55s} {refusals.refused:4d} of {refusals.n:4d} refused = "
            f"{row['share']:6.3f} [{row['lo']:.3f}, {row['hi']:.3f}]"
        )


def _named_source(text: str) -> tuple[str, str]:
    name, equals, source = text.partition("=")
    if not equals:
        raise OptionError(f"Invalid --out-of-distribution {text!r}: give NAME=SOURCE.")
    return name, source


def main() -> None:
    """Run the command; print an error of the package without a traceback."""
    # Some CPUs crash on oneDNN's newer bfloat16 kernels. Set before torch is imported.
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
    try:
        app()
    except StepScoreError as error:
        typer.echo(f"Error: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
