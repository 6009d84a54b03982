"""The calibration maps of the embedded judge, fitted on simulated rollouts that serve nothing else."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from stepscore.analysis import CalibrationResult, calibrate
from stepscore.episodes import Episode, open_episodes
from stepscore.judges import get_judge
from stepscore.models import get_model
from stepscore.runs import CallOptions, score
from stepscore.training.embedded.tasks import VIEW

SHARE = 0.9
"""Share of the scenes that the map to progress is fitted on; its file states the error on the others."""


def read_rollouts(datasets: Sequence[Path]) -> list[Episode]:
    """Read simulated datasets by the main camera; an id begins with its dataset's folder."""
    return [
        replace(episode, id=f"{dataset.name}/{episode.id}").with_views([VIEW])
        for dataset in datasets
        for episode in open_episodes(
            dataset, labels=dataset / "labels.parquet", subgoals=dataset / "subgoals.yaml"
        )
    ]


def fit_maps(
    datasets: Sequence[Path],
    run: Path | None = None,
    checkpoint: Path | None = None,
    *,
    sampling: Literal["spread", "causal"] = "spread",
) -> CalibrationResult:
    """Judge rollouts with the embedded judge's own options, without a map, and fit both maps.

    Args:
        datasets: Simulated datasets, with the simulator's labels.
        run: Where the run is kept, so that a stopped one is resumed; a temporary folder by default.
        checkpoint: Folder of the judge; that in the package by default.
        sampling: How topreward samples frames; live sessions use ``causal``.
    """
    episodes = [replace(episode, subgoals=()) for episode in read_rollouts(datasets)]
    options = {} if checkpoint is None else {"checkpoint": str(checkpoint)}
    model = get_model("embedded", **options)
    judge = get_judge("topreward", model=model, calibration=None, sampling=sampling)
    with tempfile.TemporaryDirectory() as folder:
        judged = score(episodes, judge, run or Path(folder) / "run", call_options=CallOptions(cache=False))
        return calibrate(judged, channel="margin", share=SHARE)
