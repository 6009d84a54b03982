"""Fit a success map to a run and labelled success, and test its verdicts on other scenes.

Figures are cross-fitted: scenes are split into folds, and each fold is judged by a map fitted on the others.
The final map is fitted on all. Perturbed copies of an episode (``docs/data/perturbations.md``) join its fold
and the fit, but no figure counts them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis.episode_metrics import task_of
from stepscore.analysis.table_rows import curves_by_episode
from stepscore.episodes.labels import Labels, read_labels
from stepscore.errors import OptionError
from stepscore.judges.common import FittedSuccess, final_score
from stepscore.metrics import (
    SuccessMap,
    balanced_accuracy,
    balanced_brier,
    balanced_ece,
    fit_success_map,
    roc_auc,
)
from stepscore.metrics.stats import error_estimate, rate_estimate, statistic_estimate
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate, FloatArray, SuccessMode

FOLDS = 10
"""Most folds of the scenes."""

WEIGHTS = "successes and failures weigh equally within a task"
SHRINKAGE = "normal, its standard deviation by the greatest marginal likelihood (Laplace)"


@dataclass(frozen=True)
class LabelledScore:
    """One episode's score with its success label.

    Attributes:
        fingerprint: Of its frames; ``None`` if they could not be read.
        score: The judge's score; NaN if unknown.
        success: 1 or 0.
        copy_of: Id of the recording that it is a perturbed copy of, if it is one.
    """

    id: str
    fingerprint: str | None
    task: str
    pair: str | None
    score: float
    success: float
    copy_of: str | None

    @property
    def unit(self) -> str:
        """Return what must stay in one fold: the scene, else the recorded episode."""
        own = self.copy_of or self.id
        return f"episode\0{own}" if self.pair is None else f"scene\0{self.task}\0{self.pair}"


@dataclass(frozen=True)
class TaskVerdicts:
    """The cross-fitted verdicts on one task.

    Attributes:
        own_term: Whether the map has a term for it; otherwise it uses the pooled map.
        balanced: Balanced accuracy.
        rate_error: Success rate by the map minus that by label.
    """

    task: str
    successes: int
    failures: int
    own_term: bool
    balanced: Estimate
    rate_error: Estimate


@dataclass(frozen=True)
class SuccessCalibration:
    """A fitted success map and its cross-fitted figures.

    Attributes:
        balanced: Balanced accuracy of the verdicts at 0.5.
        rate_judge: Success rate by the map; ``rate_error`` is it minus ``rate_label``.
        brier: With successes and failures weighed equally, like ``ece``.
        n: Number of recorded episodes that it was fitted on.
        copies: Number of perturbed copies that it was fitted on.
    """

    fitted: FittedSuccess
    balanced: Estimate
    rate_judge: Estimate
    rate_label: Estimate
    rate_error: Estimate
    auc: Estimate
    brier: float
    ece: float
    by_task: tuple[TaskVerdicts, ...]
    fingerprints: frozenset[str]
    n: int
    copies: int

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        estimates = ("balanced", "rate_judge", "rate_label", "rate_error", "auc")
        return {
            "episodes": self.n,
            **{name: estimate_dict(getattr(self, name)) for name in estimates},
            "brier": finite_or_none(self.brier),
            "ece": finite_or_none(self.ece),
            "by_task": {
                task.task: {
                    "successes": task.successes,
                    "failures": task.failures,
                    "own_term": task.own_term,
                    "balanced": finite_or_none(task.balanced.value),
                    "rate_error": finite_or_none(task.rate_error.value),
                }
                for task in self.by_task
            },
        }


def calibrate_success(
    run: Run,
    *,
    labels: Path | None = None,
    channel: str | None = None,
    mode: SuccessMode | None = None,
    seed: int = 0,
) -> SuccessCalibration | None:
    """Fit a success map on all labelled episodes of a run; ``None`` unless its labels have both classes.

    Args:
        labels: Labels file with success; the run's labels by default.
        channel: Channel of the curve to map: ``margin`` if the judge gives it, else ``progress``.
        mode: Only episodes of this success mode; needed if the labels have both.

    Raises:
        OptionError: The labels have both modes and none was named, or the score does not rise with success.
    """
    name = channel or ("margin" if "margin" in run.curves().column_names else "progress")
    if name == "progress" and any(run.judgements().column("calibrated").to_pylist()):
        name = "raw"
    known, chosen = labelled_scores(run, name, labels, mode)
    outcomes = {e.success for e in known if e.copy_of is None and not math.isnan(e.score)}
    if chosen is None or outcomes != {0.0, 1.0}:
        return None
    fitted = _fit(known)
    if fitted.slope <= 0:
        raise OptionError(
            f"The judge's {name} does not rise with success (slope {fitted.slope:.3g} over {len(known)} labelled "
            "episodes), so no success map can be fitted."
        )
    is_recorded = [e.copy_of is None for e in known]
    recorded = [e for e, own in zip(known, is_recorded, strict=True) if own]
    return _result(recorded, _cross_fitted(known, seed)[is_recorded], fitted, name, chosen, known)


def _fit(episodes: Sequence[LabelledScore]) -> SuccessMap:
    return fit_success_map(
        [e.score for e in episodes], [e.success for e in episodes], [e.task for e in episodes]
    )


def _cross_fitted(episodes: Sequence[LabelledScore], seed: int) -> FloatArray:
    """Return each episode's probability by a map fitted without its scene; NaN if that is not possible."""
    units = sorted({e.unit for e in episodes}, key=lambda u: hashlib.sha256(f"{seed}\0{u}".encode()).digest())
    fold_of = {unit: number % FOLDS for number, unit in enumerate(units)}
    predicted = np.full(len(episodes), np.nan)
    for fold in range(min(FOLDS, len(units))):
        others = [e for e in episodes if fold_of[e.unit] != fold]
        if {e.success for e in others} != {0.0, 1.0}:
            continue
        fitted = _fit(others)
        for number, e in enumerate(episodes):
            if fold_of[e.unit] == fold:
                predicted[number] = fitted.apply([e.score], e.task)[0]
    return predicted


def _result(
    recorded: Sequence[LabelledScore],
    probability: FloatArray,
    fitted: SuccessMap,
    channel: str,
    mode: SuccessMode,
    fitted_on: Sequence[LabelledScore],
) -> SuccessCalibration:
    truth = np.array([e.success for e in recorded])
    verdicts = np.where(np.isnan(probability), np.nan, probability >= 0.5)
    groups: dict[str, Any] = {"clusters": [e.pair for e in recorded], "strata": [e.task for e in recorded]}
    figures: dict[str, Any] = {
        "balanced": statistic_estimate(balanced_accuracy, (verdicts, truth), **groups),
        "rate_judge": rate_estimate(verdicts, **groups),
        "rate_label": rate_estimate(truth, **groups),
        "rate_error": error_estimate(verdicts - truth, **groups),
        "auc": statistic_estimate(roc_auc, (probability, truth), **groups),
        "brier": balanced_brier(probability, truth),
        "ece": balanced_ece(probability, truth),
        "by_task": _by_task(recorded, verdicts, truth, fitted),
    }
    counts: dict[str, Any] = {
        "fingerprints": frozenset(e.fingerprint for e in fitted_on if e.fingerprint is not None),
        "n": len(recorded),
        "copies": len(fitted_on) - len(recorded),
    }
    fit = {
        "episodes": len(recorded),
        "copies": counts["copies"],
        "successes": int(truth.sum()),
        "weights": WEIGHTS,
        "shrinkage": SHRINKAGE,
        "task_sd": finite_or_none(fitted.task_sd),
        "folds": FOLDS,
    }
    found = SuccessCalibration(FittedSuccess(fitted, channel, mode, fit), **figures, **counts)
    return replace(found, fitted=replace(found.fitted, figures=found.to_dict()))


def _by_task(
    recorded: Sequence[LabelledScore], verdicts: FloatArray, truth: FloatArray, fitted: SuccessMap
) -> tuple[TaskVerdicts, ...]:
    found = []
    for task in sorted({e.task for e in recorded}):
        mine = np.array([e.task == task for e in recorded])
        clusters = [e.pair for e in recorded if e.task == task]
        found.append(
            TaskVerdicts(
                task,
                int(np.sum(truth[mine] == 1)),
                int(np.sum(truth[mine] == 0)),
                task in fitted.task_terms,
                statistic_estimate(balanced_accuracy, (verdicts[mine], truth[mine]), clusters=clusters),
                error_estimate((verdicts - truth)[mine], clusters=clusters),
            )
        )
    return tuple(found)


def labelled_scores(
    run: Run, channel: str, path: Path | None, mode: SuccessMode | None
) -> tuple[list[LabelledScore], SuccessMode | None]:
    """Return the episodes with a curve and a success label, and their success mode.

    Args:
        path: Labels file with success; the run's labels by default.
        mode: Only episodes of this success mode; needed if the labels have both.
    """
    stated = {} if path is None else {name: Labels(own) for name, own in read_labels(path).items()}
    curves = dict(curves_by_episode(run.curves(), channel))
    columns = [
        "episode_id",
        "fingerprint",
        "task",
        "instruction",
        "pair",
        "success",
        "success_mode",
        "metadata",
    ]
    rows: list[tuple[dict[str, Any], float, SuccessMode]] = []
    for row in run.episodes().select(columns).to_pylist():
        own = stated.get(row["episode_id"])
        success, counts = row["success"], row["success_mode"]
        if own is not None and own.success is not None:
            success, counts = own.success, own.success_mode
        if success is not None and row["episode_id"] in curves:
            rows.append((row, float(success), "ever" if counts == "ever" else "holds"))
    modes: list[SuccessMode] = sorted({counts for _, _, counts in rows})
    if len(modes) > 1 and mode is None:
        raise OptionError(
            "Some labels count success at some time (ever), others at the end (holds). A map fits only one of them: "
            "--success-mode ever or --success-mode holds"
        )
    chosen = mode or (modes[0] if modes else None)
    return [
        LabelledScore(
            row["episode_id"],
            row["fingerprint"],
            task_of(row),
            row["pair"],
            final_score(curves[row["episode_id"]][1], counts),
            success,
            _copy_of(row["metadata"]),
        )
        for row, success, counts in rows
        if counts == chosen
    ], chosen


def _copy_of(metadata: str | None) -> str | None:
    found = json.loads(metadata) if metadata else None
    return str(found["changed_from"]) if isinstance(found, dict) and "changed_from" in found else None


def estimate_dict(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON values; ``None`` where not known."""
    ends = {name: finite_or_none(getattr(estimate, name)) for name in ("value", "lo", "hi", "coverage")}
    return {**ends, "n": estimate.n, "clusters": estimate.clusters, "method": estimate.method}
