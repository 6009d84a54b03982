"""Options of commands that read runs."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore._options import DEFAULT_REVISION, SceneChoice
from stepscore.cli.numbers import between

if TYPE_CHECKING:
    from stepscore.runs import Run


RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN", help="One or more run folders.")]
RunSource = Annotated[
    str | None,
    typer.Option(
        "--source",
        metavar="SOURCE",
        help="Path or Hub id of the videos. Default: the runs' source on this machine.",
    ),
]
Revision = Annotated[
    str,
    typer.Option(
        "--revision", metavar="NAME", help="OPD revision: robust, or as published: paper, v1.0, v1.5."
    ),
]
DoneAt = Annotated[
    float | None,
    typer.Option(
        "--done-at",
        callback=between(0, 1, above=True),
        metavar="P",
        help="Progress at which the task counts as done. Default: from the judge, else 0.99.",
    ),
]
GroupBy = Annotated[
    str,
    typer.Option(
        "--by", metavar="A,B", help="Group by any of dataset, robot, task, policy, judge, model, protocol."
    ),
]
TruthFile = Annotated[
    Path | None,
    typer.Option(
        "--labels", metavar="FILE", help="Labelled progress or stages. Default: the run's own labels."
    ),
]
Potential = Annotated[
    str | None,
    typer.Option(
        "--potential", metavar="NAME", help="Progress label that is the truth, where there are several."
    ),
]
HeldOut = Annotated[
    bool,
    typer.Option("--held-out", help="Leave out episodes that the run's calibration map was fitted on."),
]
Scenes = Annotated[
    SceneChoice,
    typer.Option(
        "--scenes",
        metavar="NAME",
        help="Generalize to the tried scenes (fixed) or to similar ones (sample).",
    ),
]
ValidationFile = Annotated[
    Path | None,
    typer.Option(
        "--validation",
        metavar="FILE",
        help="validation.json of an audit of this judge, quoted below its scores.",
    ),
]
MetricFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="FILE.py:NAME",
        help="Your own CurveMetric in a file. Repeatable.",
    ),
]


def keep_validation(runs: Sequence[Run], file: Path | None) -> None:
    """Keep the file of --validation in the runs, where it is given."""
    from stepscore.analysis import add_validation

    if file is not None:
        add_validation(runs, file)


_PUBLISHED = ("paper", "v1.0", "v1.5")


def published_revision_command(runs: Sequence[Run], revision: str = DEFAULT_REVISION) -> str | None:
    """Return the command that measures rollouts in PRM-as-a-Judge's layout as published; ``None`` for others."""
    if revision in _PUBLISHED or not any(run.info.get("reader") == "prm" for run in runs):
        return None
    return f"stepscore metrics {shlex.join(str(run.path) for run in runs)} --revision v1.0"
