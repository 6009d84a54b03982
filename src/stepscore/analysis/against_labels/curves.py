"""A judge's curves against labelled progress and annotated stages, episode by episode.

======================  ===================================================================================
progress MAE, CCC       distance to, and concordance with, the labelled progress at the curve's points
progress tau            Kendall's tau-b with it: only the order counts
progress EPR            effective progress resolution in bits (ProcVLM), and that of the labels at the same points
boundary F1             judged against annotated changes of stage, within 5 % of the length (ProcVLM's BF1@5)
stage error             mean distance in stages between the judge's stage and the annotated one
======================  ===================================================================================

The judge's stage is its channel ``stage`` if it has as many stages as the task, else the stage in which its
progress lies if all stages are equal shares.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stepscore._progress import track
from stepscore.analysis.episode_metrics import EpisodeMetrics, task_of
from stepscore.analysis.estimates import GroupEstimate, episode_groups
from stepscore.analysis.table_rows import EpisodeCurve, EpisodeRow, curves_by_episode
from stepscore.metrics import boundary_f1, epr, kendall_tau
from stepscore.metrics.stats import mean_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

MEASURES = (
    "progress MAE",
    "progress CCC",
    "progress tau",
    "progress EPR",
    "progress EPR of labels",
    "boundary F1",
    "stage error",
)
BOUNDARY_TOLERANCE = 0.05
"""Share of an episode's length within which a boundary counts as found (ProcVLM's BF1@5)."""

Stages = Mapping[tuple[str, str], FloatArray]
"""By run folder and episode: the judge's stage number at each point of its curve."""


def judged_stages(run: Run) -> Stages:
    """Return the stages that a run's judge states itself; empty if it states none."""
    if "stage" not in run.channels:
        return {}
    return {(str(run.path), name): values for name, (_, values) in curves_by_episode(run.curves(), "stage")}


def curve_agreement(
    judge: str,
    metrics: EpisodeMetrics,
    by: Sequence[str] = (),
    stages: Stages | None = None,
) -> list[GroupEstimate]:
    """Estimate how far a judge's curves agree with labelled progress and stages; empty without such labels.

    ``stages`` are the judge's own, from :func:`judged_stages`.
    """
    values = {name: np.full(len(metrics), np.nan) for name in MEASURES}
    values["progress MAE"], values["progress CCC"] = (
        metrics.values["stage_MAE"],
        metrics.values["stage_CCC"],
    )
    pairs = zip(metrics.episodes, metrics.curves, strict=True)
    for i, (row, curve) in enumerate(track(pairs, f"Curves of {judge} against labels", len(metrics))):
        for name, value in _measure(row, curve, stages or {}).items():
            values[name][i] = value
    rows = []
    for group, chosen in episode_groups(metrics, by):
        members = [metrics.episodes[i] for i in np.flatnonzero(chosen)]
        resampling: dict[str, Any] = {
            "clusters": [m["pair"] for m in members],
            "strata": [task_of(m) for m in members],
        }
        rows += [
            GroupEstimate(
                {"judge": judge, **group}, f"judge:{name}", level_estimate(known[chosen], resampling)
            )
            for name, known in values.items()
            if np.any(~np.isnan(known[chosen]))
        ]
    return rows


def _measure(row: EpisodeRow, curve: EpisodeCurve, stages: Stages) -> dict[str, float]:
    times, progress = curve
    truth = row["truth"]
    if not len(times) or truth.source is None:
        return {}
    true = truth.at(times)
    both = ~np.isnan(progress + true)
    found = {"progress tau": kendall_tau(progress[both], true[both])}
    if both.sum() > 1:
        found |= {"progress EPR": epr(progress[both]), "progress EPR of labels": epr(true[both])}
    places = {name: place for place, name in enumerate(truth.procedure)}
    if len(places) > 1 and truth.stages and all(span[0] in places for span in truth.stages):
        said = _stage_numbers(progress, len(places), stages.get((row["run"], row["episode_id"])))
        found |= _stage_measures(times, said, truth.stages, places)
    return found


def _stage_numbers(progress: FloatArray, n_stages: int, stated: FloatArray | None) -> FloatArray:
    """Return the judge's stage number at each point; NaN where unknown."""
    if stated is not None and np.nanmax(stated, initial=-1.0) < n_stages:
        return stated
    return np.asarray(np.minimum(np.floor(progress * n_stages), n_stages - 1))


def _stage_measures(
    times: FloatArray, said: FloatArray, spans: Sequence[tuple[str, float, float]], places: Mapping[str, int]
) -> dict[str, float]:
    annotated = np.full(len(times), np.nan)
    for name, start, end in spans:
        annotated[(times >= start) & (times < end)] = places[name]
    gaps = np.abs(said - annotated)
    known = ~np.isnan(said)
    changed = np.flatnonzero(np.diff(said[known]) != 0) + 1
    true_times = [start for (_, start, _) in spans[1:]]
    length = float(times[-1] - times[0])
    if not known.any() or not length > 0:
        return {}
    found = boundary_f1(true_times, times[known][changed], BOUNDARY_TOLERANCE * length)
    return {
        "boundary F1": found.f1,
        "stage error": float(np.nanmean(gaps)) if np.any(~np.isnan(gaps)) else math.nan,
    }


def level_estimate(values: FloatArray, groups: dict[str, Any]) -> Estimate:
    """Estimate a mean of levels; unlike answers, levels that are all 0 or all 1 do not vary."""
    estimate, known = mean_estimate(values, **groups), values[~np.isnan(values)]
    if len(known) and not np.ptp(known):
        return replace(estimate, lo=math.nan, hi=math.nan, method="no variation")
    return estimate
