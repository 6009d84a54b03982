"""A run's curves with labelled progress at the same times, and a split of its episodes.

Labelled progress is that of :mod:`stepscore.analysis.run_truth`. The split is by a hash of the scene, or of
the id of an episode without one, so the order of episodes does not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore.analysis.episode_metrics import task_of
from stepscore.analysis.run_truth import ProgressTruths, progress_truths
from stepscore.analysis.table_rows import EpisodeRow, curves_by_episode
from stepscore.errors import OptionError
from stepscore.runs import Run
from stepscore.types import FloatArray


@dataclass(frozen=True)
class LabelledCurve:
    """One episode's scores and its labelled progress at the same times, NaN where unknown."""

    id: str
    task: str
    pair: str | None
    scores: FloatArray
    truth: FloatArray

    @property
    def unit(self) -> str:
        """Return what must stay on one side of a split: the scene, else the episode."""
        return f"episode\0{self.id}" if self.pair is None else f"scene\0{self.task}\0{self.pair}"


def labelled_curves(
    run: Run, channel: str, path: Path | None, potential: str | None
) -> tuple[list[LabelledCurve], str]:
    """Return the episodes with a point whose score and label are known, and the source of the labels.

    Args:
        path: Labels file with progress or stages; the run's own labels by default.
        potential: Name of the progress labels, if there are several.
    """
    columns = ["episode_id", "task", "instruction", "pair", "success", "success_mode", "stages", "subgoals"]
    rows = [{**row, "run": str(run.path)} for row in run.episodes().select(columns).to_pylist()]
    truths = progress_truths([run], rows, labels=path, potential=potential)
    if truths.ambiguous:
        listed = ", ".join(repr(name) for name in truths.ambiguous)
        raise OptionError(
            f"{path or run.path} labels several potentials ({listed}). Name one: --potential NAME"
        )
    if not any(truth.source for truth in truths.by_episode.values()):
        raise OptionError(
            f"{run.path} has no labelled progress and no annotated stages of a known procedure. "
            "Give labelled progress: --labels FILE"
        )
    curves = dict(curves_by_episode(run.curves(), channel))
    joined = [
        (truths.of(row).source, _join(row, truths, *curves[row["episode_id"]]))
        for row in rows
        if row["episode_id"] in curves
    ]
    usable = [(source, e) for source, e in joined if np.any(~np.isnan(e.scores + e.truth))]
    sources = sorted({source for source, _ in usable if source is not None})
    return [e for _, e in usable], " and ".join(sources)


def split(
    labelled: Sequence[LabelledCurve], share: float, seed: int
) -> tuple[list[LabelledCurve], list[LabelledCurve]]:
    """Return the episodes to fit on (a share of the scenes) and those to measure on; neither side is empty."""
    if not 0 < share < 1:
        raise OptionError(f"share must be between 0 and 1, got {share}.")
    units = sorted({e.unit for e in labelled}, key=lambda u: hashlib.sha256(f"{seed}\0{u}".encode()).digest())
    if len(units) < 2:
        raise OptionError(
            f"{len(labelled)} episodes have a curve and labelled progress, in {len(units)} scene(s). A map is "
            "fitted on some scenes and measured on others, so it needs at least 2."
        )
    first = set(units[: min(max(round(share * len(units)), 1), len(units) - 1)])
    return [e for e in labelled if e.unit in first], [e for e in labelled if e.unit not in first]


def _join(row: EpisodeRow, truths: ProgressTruths, times: FloatArray, scores: FloatArray) -> LabelledCurve:
    known = np.where(np.isfinite(scores), scores, np.nan)
    return LabelledCurve(row["episode_id"], task_of(row), row["pair"], known, truths.of(row).at(times))
