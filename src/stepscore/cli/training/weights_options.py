"""The options of ``stepscore weights``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from stepscore._options import MANY, Range
from stepscore.cli.numbers import between
from stepscore.cli.options import KeyGroup
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
        help="Also write LeRobot's static sample weights (Parquet: index, weight).",
    ),
]
MethodOption = Annotated[Method, typer.Option("--method", help="How frames are weighted.")]


@dataclass(frozen=True)
class WeightingKeys:
    """How frames are weighted; the defaults are those of the method.

    Attributes:
        chunk_size: Actions in a chunk of the policy. Required by rabc.
        kappa: rabc: gain over a chunk from which the weight is 1 (0.01).
        fallback_weight: rabc: weight of unknown frames (1).
        tau: awr: exp(tau A), or tau exp(A) (2).
        delta_max: awr: largest weight (2).
        advantage: awr: progress, change or plain-change (change).
        tau_role: awr: inverse-temperature or prefactor (inverse-temperature).
        drop_stalls: Weight 0 if progress stalls for this many seconds.
        still: Largest change of progress within a stall (0.01).
        done: Progress at which the task counts as done (0.95).
        dense_channel: rabc: channel to write as LeRobot's progress_dense.
    """

    chunk_size: Annotated[int | None, Range(1, 1_000_000)] = None
    kappa: Annotated[float | None, Range(-MANY, MANY)] = None
    fallback_weight: Annotated[float | None, Range(0, MANY)] = None
    tau: Annotated[float | None, Range(0, MANY, above=True)] = None
    delta_max: Annotated[float | None, Range(0, MANY, above=True)] = None
    advantage: str | None = None
    tau_role: str | None = None
    drop_stalls: Annotated[float | None, Range(0, MANY, above=True)] = None
    still: Annotated[float | None, Range(0, MANY)] = None
    done: Annotated[float | None, Range(0, 1)] = None
    dense_channel: str | None = None

    def given(self) -> dict[str, Any]:
        """Return the options of the method that are given."""
        others = ("drop_stalls", "still", "done", "dense_channel")
        return {
            name: value for name, value in asdict(self).items() if value is not None and name not in others
        }


Weighting = Annotated[WeightingKeys, KeyGroup("-W", "weighting")]
Top = Annotated[
    float | None,
    typer.Option(
        "--top", callback=between(0, 1, above=True), metavar="SHARE", help="Keep this share of the episodes."
    ),
]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="METRIC", help="Metric to rank the episodes by (`stepscore ls metrics`)."),
]
PerTask = Annotated[bool, typer.Option("--per-task", help="Keep the share of each task.")]
FailuresOption = Annotated[
    Failures, typer.Option("--failures", help="Drop failed episodes, or keep them marked.")
]
SuccessByOption = Annotated[
    SuccessBy, typer.Option("--success-by", help="Success by label, or by the judge.")
]
Channel = Annotated[str, typer.Option("--channel", help="Channel of the curve to use.")]
Revision = Annotated[str, typer.Option("--revision", help="OPD of --by: paper, v1.0, v1.5, robust.")]
PolicyType = Annotated[
    str, typer.Option("--policy-type", help="LeRobot's --policy.type in the printed command.")
]
WriteDataset = Annotated[
    Path | None,
    typer.Option(
        "--write-dataset", metavar="DIR", help="filter: write the kept episodes as a LeRobot dataset."
    ),
]
Plot = Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Plot the weights (.svg or .png).")]
