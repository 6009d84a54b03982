"""The options of ``stepscore weights``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from stepscore.cli.numbers import MANY, between
from stepscore.cli.outputs import new_table


class Method(StrEnum):
    """How frames are weighted."""

    RABC = "rabc"
    AWR = "awr"
    FILTER = "filter"


class Failures(StrEnum):
    """Whether failed episodes are kept."""

    KEEP = "keep"
    DROP = "drop"


class SuccessBy(StrEnum):
    """Where success comes from."""

    LABEL = "label"
    JUDGE = "judge"


Out = Annotated[
    Path,
    typer.Option(
        "--out", "-o", callback=new_table, metavar="FILE", help="Parquet: progress for LeRobot, or weights."
    ),
]
Static = Annotated[
    Path | None,
    typer.Option(
        "--static",
        metavar="FILE",
        help="Also write the weights as LeRobot's static sample weighting reads them (Parquet: index, weight).",
    ),
]
MethodOption = Annotated[Method, typer.Option("--method", help="How frames are weighted.")]
ChunkSize = Annotated[
    int | None,
    typer.Option(
        "--chunk-size",
        callback=between(1, 1_000_000),
        metavar="N",
        help="Actions in a chunk of the policy. rabc needs it.",
    ),
]
Kappa = Annotated[
    float | None,
    typer.Option(
        "--kappa",
        callback=between(-MANY, MANY),
        help="rabc: progress gained over a chunk from which the weight is 1 (0.01).",
    ),
]
FallbackWeight = Annotated[
    float | None,
    typer.Option("--fallback-weight", callback=between(0, MANY), help="rabc: weight of unknown frames (1)."),
]
Done = Annotated[
    float | None,
    typer.Option(
        "--done", callback=between(0, 1), help="Progress from which the task counts as done (0.95)."
    ),
]
Tau = Annotated[
    float | None,
    typer.Option("--tau", callback=between(0, MANY, above=True), help="awr: exp(tau A), or tau exp(A) (2)."),
]
DeltaMax = Annotated[
    float | None,
    typer.Option("--delta-max", callback=between(0, MANY, above=True), help="awr: largest weight (2)."),
]
AdvantageOption = Annotated[
    str | None,
    typer.Option(
        "--advantage",
        help="awr: progress or change less the dataset's mean, or plain-change (change).",
    ),
]
TauRole = Annotated[
    str | None,
    typer.Option("--tau-role", help="awr: inverse-temperature or prefactor (inverse-temperature)."),
]
Top = Annotated[
    float | None,
    typer.Option(
        "--top", callback=between(0, 1, above=True), metavar="SHARE", help="Keep this share of the episodes."
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="METRIC", help="Metric to rank them by; see `stepscore ls metrics`."),
]
PerTask = Annotated[bool, typer.Option("--per-task", help="Keep the share of each task.")]
FailuresOption = Annotated[
    Failures, typer.Option("--failures", help="Drop failed episodes, or keep them marked.")
]
SuccessByOption = Annotated[
    SuccessBy, typer.Option("--success-by", help="Success by label, or by the judge.")
]
Stalls = Annotated[
    float | None,
    typer.Option(
        "--drop-stalls",
        callback=between(0, MANY, above=True),
        metavar="SECONDS",
        help="Weight 0 where progress stalls for this long.",
    ),
]
Still = Annotated[
    float | None,
    typer.Option(
        "--still", callback=between(0, MANY), help="Largest change of progress within a stall (0.01)."
    ),
]
Channel = Annotated[str, typer.Option("--channel", help="Channel of the curve to use.")]
Dense = Annotated[
    str | None, typer.Option("--dense-channel", help="Channel written as LeRobot's progress_dense.")
]
Revision = Annotated[str, typer.Option("--revision", help="OPD of --by: paper, v1.0, v1.5, robust.")]
PolicyType = Annotated[
    str, typer.Option("--policy-type", help="LeRobot's --policy.type in the printed command.")
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Plot the weights (.svg or .png).")]
