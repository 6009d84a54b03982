"""The options of ``stepscore train sarm``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli.numbers import MANY, between

Datasets = Annotated[
    list[Path],
    typer.Argument(metavar="DATASET", help="Rollouts with stage or progress labels, success and failure."),
]
Labels = Annotated[
    Path | None,
    typer.Option("--labels", metavar="FILE", help="Labels; default: DATASET/labels.parquet."),
]
SparseLabels = Annotated[
    Path | None,
    typer.Option("--sparse-labels", metavar="FILE", help="With --mode dual: labels of the sparse stages."),
]
Encoder = Annotated[
    str,
    typer.Option("--encoder", help="Frozen encoder: embedded, or hf/PATH-OR-ID of a vision model."),
]
Mode = Annotated[
    str,
    typer.Option("--mode", help="single (no stages), dense (stages), dual (sparse and dense stages)."),
]
Progress = Annotated[
    str | None,
    typer.Option(
        "--progress",
        metavar="NAME",
        help="Labelled progress to train on; or stages, or linear (frame index).",
    ),
]
Causal = Annotated[
    bool,
    typer.Option("--causal", help="Windows of past frames alone, for online use; else bidirectional."),
]
Views = Annotated[str | None, typer.Option("--views", help="Cameras, comma-separated; default: all.")]
State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="COLUMN", help="Columns of the robot's state to train on too, comma-separated."
    ),
]
Steps = Annotated[int, typer.Option("--steps", callback=between(0, MANY), help="Optimizer steps.")]
BatchSize = Annotated[
    int, typer.Option("--batch-size", callback=between(1, 100_000), help="Windows in a step.")
]
Lr = Annotated[float, typer.Option("--lr", callback=between(0, 1000, above=True), help="Peak learning rate.")]
RewindProb = Annotated[
    float,
    typer.Option(
        "--rewind-prob",
        callback=between(0, 1),
        help="Share of windows that end with frames played backwards.",
    ),
]
LanguagePerturbationProb = Annotated[
    float,
    typer.Option(
        "--language-perturbation-prob",
        callback=between(0, 1),
        help="Share of windows with another or a random instruction.",
    ),
]
NObsSteps = Annotated[
    int | None,
    typer.Option(
        "--n-obs-steps",
        callback=between(1, 10_000),
        help="Frames of a window beside the episode's first (8).",
    ),
]
FrameGapS = Annotated[
    float | None,
    typer.Option(
        "--frame-gap-s",
        callback=between(0, 1e6, above=True),
        metavar="S",
        help="Seconds between them; default: the window spans half the median episode.",
    ),
]
HiddenDim = Annotated[
    int | None,
    typer.Option(
        "--hidden-dim",
        callback=between(1, 65_536),
        help="Hidden dim of the transformers (128); the paper's is 768.",
    ),
]
NLayers = Annotated[
    int | None,
    typer.Option(
        "--n-layers", callback=between(1, 1000), help="Layers of each transformer (3); the paper's is 8."
    ),
]
NHeads = Annotated[
    int | None,
    typer.Option(
        "--n-heads", callback=between(1, 1000), help="Attention heads of a layer (4); the paper's is 12."
    ),
]
NAugmentations = Annotated[
    int,
    typer.Option(
        "--n-augmentations",
        callback=between(0, 1000),
        help="Augmented copies of every episode (shifted camera, other light) to train on besides.",
    ),
]
ValFraction = Annotated[
    float,
    typer.Option(
        "--val-fraction",
        callback=between(0, 1),
        help="Without --eval-dataset: share of scenes kept for evaluation.",
    ),
]
FeaturesDir = Annotated[
    Path | None,
    typer.Option(
        "--features-dir", metavar="DIR", help="Folder of encoded frames; default: in the checkpoint."
    ),
]
