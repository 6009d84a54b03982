"""Fit a calibration map to a run and labelled progress, and measure its error on other episodes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis.labelled_progress import LabelledCurve, labelled_curves, split
from stepscore.analysis.success_calibration import (
    SuccessCalibration,
    calibrate_success,
    estimate_dict,
    labelled_scores,
)
from stepscore.episodes.labels import read_labels
from stepscore.errors import OptionError
from stepscore.judges.common import FittedMap, model_identity
from stepscore.metrics import (
    MonotoneMap,
    Reliability,
    brier,
    fit_calibration,
    mae,
    reliability,
)
from stepscore.metrics.opd import fit_done_at
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate, FloatArray, SuccessMode


@dataclass(frozen=True)
class CalibrationMetrics:
    """The distance of values from labelled progress, over held-out episodes, all 0..1 but for ``ccc``.

    Attributes:
        mae: Mean absolute error per episode.
        ccc: Concordance over all points; the interval resamples episodes.
        ece: Expected calibration error over ten bins.
        brier: Mean squared error over all points.
    """

    mae: Estimate
    ccc: Estimate
    ece: float
    brier: float

    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; ``None`` if unknown."""
        return {
            "mae": estimate_dict(self.mae),
            "ccc": estimate_dict(self.ccc),
            "ece": finite_or_none(self.ece),
            "brier": finite_or_none(self.brier),
        }


@dataclass(frozen=True)
class CalibrationResult:
    """A fitted map and its error on held-out episodes.

    Attributes:
        before: Error of the unmapped channel; ``None`` for a channel outside 0..1.
        reliability: Mean mapped value and mean label by bins of the mapped value.
        left_out: Number of judged episodes without a usable label or curve.
        success: The success map; ``None`` if the labels lack successes or failures.
    """

    fitted: FittedMap
    before: CalibrationMetrics | None
    after: CalibrationMetrics
    reliability: Reliability
    n_fit: int
    n_held_out: int
    left_out: int
    success: SuccessCalibration | None = None


def calibrate(
    run: Run,
    *,
    labels: Path | None = None,
    channel: str = "progress",
    potential: str | None = None,
    share: float = 0.5,
    seed: int = 0,
    success_channel: str | None = None,
    success_mode: SuccessMode | None = None,
) -> CalibrationResult:
    """Fit a judge's score to labelled progress on one split, measured on the other, and to labelled success.

    The map to progress is monotone; the map to success is logistic with cross-fitted figures (see
    :func:`calibrate_success`). With labels of one kind, only that map is fitted.

    Args:
        run: An uncalibrated run.
        labels: Labels file with progress or stages; the run's own labels by default.
        channel: Channel of the curve to map.
        potential: Name of the progress labels, if the file has several.
        share: Share of the scenes to fit on.
        success_channel: Channel for success; ``margin`` if the judge gives it, else ``progress``.
        success_mode: When success counts, if the labels have both modes.

    Raises:
        OptionError: The run is already calibrated, or too few episodes have labels.
    """
    if channel == "progress" and any(run.judgements().column("calibrated").to_pylist()):
        raise OptionError(
            f"{run.path} is calibrated already. Judge without calibration, or use --channel raw."
        )
    success = calibrate_success(run, labels=labels, channel=success_channel, mode=success_mode, seed=seed)
    if success is not None and not _has_progress(run, labels):
        return _success_only(run, channel, success)
    labelled, source = labelled_curves(run, channel, labels, potential)
    fit, held = split(labelled, share, seed)
    monotone = _fit(fit)
    mapped = [monotone.apply(e.scores) for e in held]
    after = _errors(held, mapped)
    scores = np.concatenate([e.scores for e in held])
    absolute = not np.any((scores < 0) | (scores > 1))
    provenance = {
        "truth": source,
        "share": share,
        "seed": seed,
        "episodes": sorted(e.id for e in fit),
        "points": int(sum(np.sum(~np.isnan(e.scores + e.truth)) for e in fit)),
    }
    figures = {"episodes": len(held), **after.to_dict()}
    fitted = _fitted(run, monotone, channel, provenance, figures, success, {e.id for e in fit})
    if success is not None:
        fitted = replace(fitted, done_at=_done_at(run, monotone, channel, labels, success.fitted.mode))
    return CalibrationResult(
        fitted,
        before=_errors(held, [e.scores for e in held]) if absolute else None,
        after=after,
        reliability=reliability(np.concatenate(mapped), np.concatenate([e.truth for e in held])),
        n_fit=len(fit),
        n_held_out=len(held),
        left_out=run.judgements().num_rows - len(labelled),
        success=success,
    )


def _done_at(
    run: Run, monotone: MonotoneMap, channel: str, labels: Path | None, mode: SuccessMode
) -> float | None:
    """Return the final progress that best separates success from failure; ``None`` if none beats a constant."""
    known, _ = labelled_scores(run, channel, labels, mode)
    mapped = monotone.apply([e.score for e in known])
    return fit_done_at(mapped, [e.success for e in known])


def _success_only(run: Run, channel: str, success: SuccessCalibration) -> CalibrationResult:
    """Return only a success map: no progress is labelled."""
    unknown = mean_estimate([])
    nothing = CalibrationMetrics(unknown, unknown, math.nan, math.nan)
    fitted = _fitted(run, None, channel, {}, {}, success, set())
    return CalibrationResult(fitted, None, nothing, reliability([], []), 0, 0, 0, success)


def _has_progress(run: Run, labels: Path | None) -> bool:
    """Return whether progress is labelled, by values or by stages."""
    if labels is None:
        return run.labelled_progress().num_rows > 0 or any(run.episodes().column("stages").to_pylist())
    return any(row.kind in ("progress", "stage") for own in read_labels(labels).values() for row in own)


def _fit(episodes: Sequence[LabelledCurve]) -> MonotoneMap:
    # Every episode counts the same, however many points it has.
    weights = [np.full(len(e.scores), 1 / max(1, np.sum(~np.isnan(e.scores + e.truth)))) for e in episodes]
    scores, truth = (np.concatenate([getattr(e, name) for e in episodes]) for name in ("scores", "truth"))
    return fit_calibration(scores, truth, np.concatenate(weights))


def _fitted(
    run: Run,
    monotone: MonotoneMap | None,
    channel: str,
    fit: Mapping[str, Any],
    figures: Mapping[str, Any],
    success: SuccessCalibration | None,
    fitted_on: Collection[str],
) -> FittedMap:
    judge, model = run.protocol.content["judge"], run.protocol.content.get("model")
    assert isinstance(judge, Mapping)
    rows = run.episodes().select(["episode_id", "fingerprint"]).to_pylist()
    fingerprints = {row["fingerprint"] for row in rows if row["episode_id"] in fitted_on} - {None}
    return FittedMap(
        monotone,
        channel,
        judge=str(judge["name"]),
        version=int(judge["version"]),
        options={name: value for name, value in judge["options"].items() if name != "calibration"},
        model=run.model,
        protocol=run.protocol.hash,
        fit=fit,
        figures=figures,
        identity=model_identity(model) if isinstance(model, Mapping) else None,
        success=None if success is None else success.fitted,
        fingerprints=frozenset(fingerprints | (set() if success is None else success.fingerprints)),
    )


def _errors(episodes: Sequence[LabelledCurve], predicted: Sequence[FloatArray]) -> CalibrationMetrics:
    resampling: dict[str, Any] = {
        "clusters": [e.pair for e in episodes],
        "strata": [e.task for e in episodes],
    }
    pairs = [(values, e.truth) for e, values in zip(episodes, predicted, strict=True)]
    points, truth = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return CalibrationMetrics(
        mean_estimate([mae(values, true) for values, true in pairs], **resampling),
        statistic_estimate(
            _pooled_ccc, np.array([_sums(values, true) for values, true in pairs]), **resampling
        ),
        reliability(points, truth).ece,
        brier(points, truth),
    )


def _sums(predicted: FloatArray, truth: FloatArray) -> list[float]:
    """Return an episode's part of the pooled concordance; NaN without known points."""
    known = ~np.isnan(predicted + truth)
    a, b = predicted[known], truth[known]
    sums = [len(a), a.sum(), b.sum(), a @ a, b @ b, a @ b]
    return [float(value) if len(a) else math.nan for value in sums]


def _pooled_ccc(*sums: FloatArray) -> float:
    """Return the concordance (Lin 1989; see ``metrics.order.ccc``) of all points, from the episodes' sums.

    Sums, because episodes are resampled and differ in their number of points.
    """
    n, a, b, aa, bb, ab = (float(np.sum(column)) for column in sums)
    mean_a, mean_b = a / n, b / n
    spread = aa / n - mean_a**2 + bb / n - mean_b**2 + (mean_a - mean_b) ** 2
    return 2 * (ab / n - mean_a * mean_b) / spread if spread > 1e-12 else math.nan
