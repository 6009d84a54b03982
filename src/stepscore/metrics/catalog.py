"""The metrics that a run is measured with: each takes one curve and returns one or more numbers.

A metric of your own is a :class:`CurveMetric`, added by the entry-point group ``stepscore.metrics`` or, in a
script, by ``metric_registry.register("mine")(CurveMetric(...))``; every table then has its columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from stepscore._defaults import DEFAULT_REVISION
from stepscore.metrics.opd.revisions import compute_opd
from stepscore.metrics.order import voc
from stepscore.registry import Registry
from stepscore.types import FloatArray


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One number of an episode.

    Attributes:
        name: Its name in every table.
        better: Which direction is better.
        kind: ``"rate"`` for yes/no values, whose mean is a proportion; ``"mean"`` for the rest.
        summary: Its meaning, in one line.
    """

    name: str
    better: Literal["higher", "lower", "neither"]
    kind: Literal["rate", "mean"]
    summary: str


@dataclass(frozen=True, slots=True)
class CurveMetric:
    """Numbers of one curve: ``func(times, progress)`` returns a value per column, NaN for unknown."""

    columns: tuple[MetricColumn, ...]
    func: Callable[[FloatArray, FloatArray], Mapping[str, float]]


_OPD = (
    MetricColumn("MC", "higher", "mean", "furthest milestone reached: 0, 25, 50, 75 or 100 %"),
    MetricColumn("MC25", "higher", "rate", "reached 25 % of progress"),
    MetricColumn("MC50", "higher", "rate", "reached half"),
    MetricColumn("MC75", "higher", "rate", "reached 75 %"),
    MetricColumn("MC100", "higher", "rate", "reached all of it, by the judge (robust: 75 % and done)"),
    MetricColumn("MP", "higher", "mean", "highest progress"),
    MetricColumn(
        "PPL", "higher", "mean", "progress gained per progress moved: 100 % is a direct path to the end"
    ),
    MetricColumn("CRA", "lower", "mean", "mean drop below the best progress so far (robust: until done)"),
    MetricColumn("STR", "lower", "mean", "share of steps without progress (robust: of the time until done)"),
)
_OPD_15 = (
    MetricColumn("DRR", "higher", "mean", "share of the deepest drop that was recovered"),
    MetricColumn("FNS", "higher", "mean", "nearness to success, failures only"),
    MetricColumn("SQS", "higher", "mean", "quality of success, successes only"),
)


def _opd(
    times: FloatArray,
    progress: FloatArray,
    *,
    revision: str,
    success_probability: FloatArray | None,
    done_at: float | None,
) -> Mapping[str, float]:
    return compute_opd(progress, revision, times, success_probability=success_probability, done_at=done_at)


def _order(times: FloatArray, progress: FloatArray) -> Mapping[str, float]:
    return {"VOC": voc(progress)}


def opd_metric(
    revision: str, *, success_probability: FloatArray | None = None, done_at: float | None = None
) -> CurveMetric:
    """Return the OPD metrics in one revision: ``paper``, ``v1.0``, ``v1.5`` or ``robust``.

    Args:
        revision: The revision.
        success_probability: For ``robust``, that of each sample of the curve to measure, where the judge gives one.
        done_at: For ``robust`` without it, the progress that counts as done; .99 by default.
    """
    func = partial(_opd, revision=revision, success_probability=success_probability, done_at=done_at)
    return CurveMetric(_OPD + (_OPD_15 if revision == "v1.5" else ()), func)


ORDER = CurveMetric(
    (
        MetricColumn(
            "VOC", "higher", "mean", "rank correlation of progress with time; high on a rising clock too"
        ),
    ),
    _order,
)
OPD_DEFAULT = opd_metric(DEFAULT_REVISION)

metric_registry: Registry[CurveMetric] = Registry(
    "metric",
    {"opd": "stepscore.metrics.catalog:OPD_DEFAULT", "order": "stepscore.metrics.catalog:ORDER"},
    group="stepscore.metrics",
)
