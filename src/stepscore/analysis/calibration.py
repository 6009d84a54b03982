"""A run and labelled progress into a calibration map, and what the map is worth on other episodes.

The map is fitted on one part of the episodes; every figure is of the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.analysis.labelled_progress import LabelledCurve, labelled_progress, split
from stepscore.errors import OptionError
from stepscore.judges.common import FittedMap
from stepscore.metrics import MonotoneMap, Reliability, brier, fit_calibration, mae, reliability
from stepscore.metrics.stats import mean_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray


@dataclass(frozen=True)
class CalibrationMetrics:
    """How far values are from labelled progress, over held-out episodes.

    Attributes:
        mae: Mean absolute error of an episode, averaged over episodes, 0..1.
        ccc: Concordance over all their points, -1..1; the interval resamples episodes.
        ece: Expected calibration error over ten bins, 0..1.
        brier: Mean squared error over all points, 0..1.
    """

    mae: Estimate
    ccc: Estimate
    ece: float
    brier: float

    def row(self) -> dict[str, Any]:
        """As JSON values; null where not known."""
        return {
            "mae": _plain(self.mae),
            "ccc": _plain(self.ccc),
            "ece": _number(self.ece),
            "brier": _number(self.brier),
        }


@dataclass(frozen=True)
class CalibrationResult:
    """A fitted map and how it does on the episodes it has not seen.

    Attributes:
        fitted: The map, ready to be written.
        before: CalibrationMetrics of the channel as it is; ``None`` for a channel that is not in 0..1.
        after: CalibrationMetrics of what the map makes of it.
        reliability: What the map says against the labels, by bins.
        n_fit: Episodes it was fitted on.
        n_held_out: Episodes behind the figures.
        left_out: Judged episodes without a usable label or curve.
    """

    fitted: FittedMap
    before: CalibrationMetrics | None
    after: CalibrationMetrics
    reliability: Reliability
    n_fit: int
    n_held_out: int
    left_out: int


def calibrate(
    run: Run,
    *,
    labels: Path | None = None,
    channel: str = "progress",
    potential: str | None = None,
    share: float = 0.5,
    seed: int = 0,
) -> CalibrationResult:
    """Fit a monotone map from a judge's score to labelled progress on one split, and measure it on the other.

    Args:
        run: An uncalibrated run.
        labels: Labels file with progress at moments, or stages; the run's own stages if not given.
        channel: Series of the curve to map.
        potential: Name of the progress labels to use, where the file holds several.
        share: Share of the episodes to fit on; of the scenes, where episodes share them.
        seed: Another seed gives another split.
    """
    if channel == "progress" and any(run.judgements().column("calibrated").to_pylist()):
        raise OptionError(
            f"{run.path} is calibrated already. Judge without calibration, or use --channel raw."
        )
    found, kind = labelled_progress(run, channel, labels, potential)
    fit, held = split(found, share, seed)
    monotone = _fit(fit)
    said = [monotone.apply(e.scores) for e in held]
    after = _figures(held, said)
    scores = np.concatenate([e.scores for e in held])
    absolute = not np.any((scores < 0) | (scores > 1))
    provenance = {
        "truth": kind,
        "share": share,
        "seed": seed,
        "episodes": sorted(e.id for e in fit),
        "points": int(sum(np.sum(~np.isnan(e.scores + e.truth)) for e in fit)),
    }
    return CalibrationResult(
        _fitted(run, monotone, channel, provenance, {"episodes": len(held), **after.row()}),
        before=_figures(held, [e.scores for e in held]) if absolute else None,
        after=after,
        reliability=reliability(np.concatenate(said), np.concatenate([e.truth for e in held])),
        n_fit=len(fit),
        n_held_out=len(held),
        left_out=run.judgements().num_rows - len(found),
    )


def _fit(episodes: Sequence[LabelledCurve]) -> MonotoneMap:
    # Every episode counts the same, however many points it has.
    weights = [np.full(len(e.scores), 1 / max(1, np.sum(~np.isnan(e.scores + e.truth)))) for e in episodes]
    scores, truth = (np.concatenate([getattr(e, name) for e in episodes]) for name in ("scores", "truth"))
    return fit_calibration(scores, truth, np.concatenate(weights))


def _fitted(
    run: Run, monotone: MonotoneMap, channel: str, fit: Mapping[str, Any], figures: Mapping[str, Any]
) -> FittedMap:
    judge = run.protocol.content["judge"]
    assert isinstance(judge, Mapping)
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
    )


def _figures(episodes: Sequence[LabelledCurve], said: Sequence[FloatArray]) -> CalibrationMetrics:
    groups: dict[str, Any] = {"clusters": [e.pair for e in episodes], "strata": [e.task for e in episodes]}
    pairs = [(values, e.truth) for e, values in zip(episodes, said, strict=True)]
    points, truth = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return CalibrationMetrics(
        mean_estimate([mae(values, true) for values, true in pairs], **groups),
        statistic_estimate(_pooled_ccc, np.array([_sums(values, true) for values, true in pairs]), **groups),
        reliability(points, truth).ece,
        brier(points, truth),
    )


def _sums(said: FloatArray, truth: FloatArray) -> list[float]:
    """An episode's share in the pooled concordance; NaN where no point is known."""
    known = ~np.isnan(said + truth)
    a, b = said[known], truth[known]
    sums = [len(a), a.sum(), b.sum(), a @ a, b @ b, a @ b]
    return [float(value) if len(a) else math.nan for value in sums]


def _pooled_ccc(*sums: FloatArray) -> float:
    """Concordance (Lin 1989; see ``metrics.order.ccc``) of all points of the episodes, from their sums.

    From sums, because what is resampled is episodes, and they differ in how many points they have.
    """
    n, a, b, aa, bb, ab = (float(np.sum(column)) for column in sums)
    mean_a, mean_b = a / n, b / n
    spread = aa / n - mean_a**2 + bb / n - mean_b**2 + (mean_a - mean_b) ** 2
    return 2 * (ab / n - mean_a * mean_b) / spread if spread > 1e-12 else math.nan


def _plain(estimate: Estimate) -> dict[str, Any]:
    ends = {name: _number(getattr(estimate, name)) for name in ("value", "lo", "hi", "coverage")}
    return {**ends, "n": estimate.n, "clusters": estimate.clusters, "method": estimate.method}


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
