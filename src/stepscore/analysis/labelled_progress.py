"""A run's curves with labelled progress at the same times, and a split of its episodes.

Labelled progress is what a labels file states at timestamps, or else what annotated stages imply. The split is
by a hash of the episode's id, episodes of one scene together: none is on both sides, and the order in which
they were judged does not matter.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.analysis.episode_metrics import curves_by_episode, task_of
from stepscore.episodes.labels import Label, Labels, read_labels
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics import truth_trace
from stepscore.runs import Run
from stepscore.types import FloatArray

ProgressSource = Literal["progress labels", "stages"]
"""Where labelled progress is from."""


@dataclass(frozen=True)
class LabelledCurve:
    """One episode's scores and its labelled progress at the same times.

    Attributes:
        id: The episode's id.
        task: Its task, or its instruction where no task is named.
        pair: Scene or seed it shares with other episodes; ``None`` where it shares none.
        scores: Values of the judge's channel, shape (n,); NaN where unknown.
        truth: Labelled progress, 0..1, shape (n,); NaN where unknown.
    """

    id: str
    task: str
    pair: str | None
    scores: FloatArray
    truth: FloatArray

    @property
    def unit(self) -> str:
        """Return what stays on one side of a split: the scene, where several episodes share one."""
        return f"episode\0{self.id}" if self.pair is None else f"scene\0{self.task}\0{self.pair}"


def labelled_curves(
    run: Run, channel: str, path: Path | None, potential: str | None
) -> tuple[list[LabelledCurve], ProgressSource]:
    """Return the episodes with at least one point whose score and label are known, and where the labels are from.

    Args:
        run: The run.
        channel: Series of the curve.
        path: Labels file with progress at timestamps, or stages; the run's own stages if not given.
        potential: Name of the progress labels to use, where the file holds several.
    """
    labels, source = _run_stages(run) if path is None else _read_labels(path, potential)
    joined = _join_labels(run, channel, labels, source)
    return [e for e in joined if np.any(~np.isnan(e.scores + e.truth))], source


def split(
    labelled: Sequence[LabelledCurve], share: float, seed: int
) -> tuple[list[LabelledCurve], list[LabelledCurve]]:
    """Return the episodes to fit on and those to measure on; each side has at least one scene or lone episode.

    Args:
        labelled: The episodes.
        share: Share of the scenes for the first side, between 0 and 1.
        seed: Seed of the split.
    """
    if not 0 < share < 1:
        raise OptionError(f"share is {share}; it must be between 0 and 1.")
    units = sorted({e.unit for e in labelled}, key=lambda u: hashlib.sha256(f"{seed}\0{u}".encode()).digest())
    if len(units) < 2:
        raise OptionError(
            f"{len(labelled)} episodes have a curve and labelled progress, in {len(units)} scene(s). A map is "
            "fitted on some scenes and measured on others: at least 2 are needed."
        )
    first = set(units[: min(max(round(share * len(units)), 1), len(units) - 1)])
    return [e for e in labelled if e.unit in first], [e for e in labelled if e.unit not in first]


def _run_stages(run: Run) -> tuple[Mapping[str, Labels], ProgressSource]:
    """Return the stages that the run's episodes were annotated with."""
    rows = run.episodes().select(["episode_id", "stages"]).to_pylist()
    labels = {
        row["episode_id"]: Labels(
            tuple(Label("stage", stage["name"], stage["start_s"], stage["end_s"]) for stage in row["stages"])
        )
        for row in rows
    }
    if not any(own.rows for own in labels.values()):
        raise OptionError(f"{run.path} has no annotated stages. Give labelled progress: --labels FILE")
    return labels, "stages"


def _read_labels(path: Path, potential: str | None) -> tuple[Mapping[str, Labels], ProgressSource]:
    """Read the labels in a file; of the progress labels, keep those of one potential."""
    rows = read_labels(path)
    names = sorted({row.name for own in rows.values() for row in own if row.kind == "progress"})
    if potential is not None and potential not in names:
        raise UnknownNameError("potential", potential, names, where=str(path))
    if len(names) > 1 and potential is None:
        listed = ", ".join(repr(name) for name in names)
        raise OptionError(f"{path} labels several potentials ({listed}). Name one: --potential NAME")
    if not names:
        return {name: Labels(own) for name, own in rows.items()}, "stages"
    wanted = potential if potential is not None else names[0]
    kept = {
        episode: Labels(tuple(row for row in own if row.kind != "progress" or row.name == wanted))
        for episode, own in rows.items()
    }
    return kept, "progress labels"


def _join_labels(
    run: Run, channel: str, labels: Mapping[str, Labels], source: ProgressSource
) -> Iterator[LabelledCurve]:
    """Iterate over the judged episodes that have labels."""
    curves = dict(curves_by_episode(run.curves(), channel))
    columns = ["episode_id", "task", "instruction", "pair", "success"]
    for row in run.episodes().select(columns).to_pylist():
        name = row["episode_id"]
        if name not in curves or name not in labels:
            continue
        times, scores = curves[name]
        own = labels[name]
        failed = own.success is False if own.success is not None else row["success"] is False
        truth = _stated(own, times) if source == "progress labels" else _implied(own, times, failed=failed)
        scores = np.where(np.isfinite(scores), scores, np.nan)
        yield LabelledCurve(name, task_of(row), row["pair"], scores, truth)


def _stated(labels: Labels, times: FloatArray) -> FloatArray:
    """Return progress between labelled timestamps, linearly; NaN before the first and after the last."""
    at, values = labels.progress()
    known = ~np.isnan(values)
    if not np.any(known):
        return np.full(len(times), np.nan)
    return np.interp(times, at[known], values[known], left=math.nan, right=math.nan)


def _implied(labels: Labels, times: FloatArray, *, failed: bool) -> FloatArray:
    """Return progress by the annotated stages.

    The stages of a failure say what was tried, not that the last one was reached: they give none.
    """
    if failed or not labels.stages:
        return np.full(len(times), np.nan)
    return truth_trace(labels.stages, times)
