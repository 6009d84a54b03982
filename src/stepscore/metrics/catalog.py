"""The metrics that a run is measured with: each takes one curve and returns one or more numbers.

A custom metric is a :class:`CurveMetric`, added by the entry-point group ``stepscore.metrics``, in a script
by ``metric_registry.register("mine")(CurveMetric(...))``, or by ``--metric FILE.py:NAME``. Tables,
comparisons and the page then have its columns. Third-party functions may raise or return anything, so they
are checked when called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Literal

import numpy as np

from stepscore._local_modules import place_in_local_code
from stepscore._options import DEFAULT_REVISION
from stepscore.errors import OptionError, StepScoreError
from stepscore.metrics.opd.revisions import compute_opd
from stepscore.metrics.order import voc
from stepscore.registry import Registry
from stepscore.types import FloatArray


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """One number of an episode: its name in every table, the better direction, its kind and a one-line summary.

    Attributes:
        kind: ``"rate"`` for yes/no values, whose mean is a proportion; ``"share"`` for values in 0..1;
            ``"mean"`` for
        the rest.

    Raises:
        OptionError: A field has an invalid value.
    """

    name: str
    better: Literal["higher", "lower", "neither"]
    kind: Literal["rate", "share", "mean"]
    summary: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[\w.:/@+-]+", self.name):
            raise OptionError(f"name must be a word without spaces, commas or '|', got {self.name!r}.")
        for field, allowed in (
            ("better", ("higher", "lower", "neither")),
            ("kind", ("rate", "share", "mean")),
        ):
            if (value := getattr(self, field)) not in allowed:
                raise OptionError(
                    f"{field} of metric column {self.name!r} must be one of {', '.join(allowed)}; got {value!r}."
                )
        if not isinstance(self.summary, str):
            raise OptionError(f"summary of metric column {self.name!r} must be a text, got {self.summary!r}.")


@dataclass(frozen=True, slots=True)
class CurveMetric:
    """Numbers of one curve: ``func(times, progress)`` returns a value per column, NaN for unknown."""

    columns: tuple[MetricColumn, ...]
    func: Callable[[FloatArray, FloatArray], Mapping[str, float]]

    def __post_init__(self) -> None:
        if not self.columns or not all(isinstance(column, MetricColumn) for column in self.columns):
            raise OptionError(f"columns must be a tuple of one or more MetricColumn, got {self.columns!r}.")
        if not callable(self.func):
            raise OptionError(f"func must be a function of times and progress, got {self.func!r}.")


_OPD = (
    MetricColumn("MC", "higher", "share", "furthest milestone reached: 0, 25, 50, 75 or 100 %"),
    MetricColumn("MC25", "higher", "rate", "reached 25 % of progress"),
    MetricColumn("MC50", "higher", "rate", "reached half"),
    MetricColumn("MC75", "higher", "rate", "reached 75 %"),
    MetricColumn("MC100", "higher", "rate", "reached all of it, by the judge (robust: 75 % and done)"),
    MetricColumn("MP", "higher", "share", "highest progress"),
    MetricColumn(
        "PPL", "higher", "share", "progress gained per progress moved: 100 % is a direct path to the end"
    ),
    MetricColumn("CRA", "lower", "share", "mean drop below the best progress so far (robust: until done)"),
    MetricColumn("STR", "lower", "share", "share of steps without progress (robust: of the time until done)"),
)
_OPD_15 = (
    MetricColumn("DRR", "higher", "share", "share of the deepest drop that was recovered"),
    MetricColumn("FNS", "higher", "share", "nearness to success, failures only"),
    MetricColumn("SQS", "higher", "share", "quality of success, successes only"),
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

    For ``robust``, ``success_probability`` is that of each sample; without it, progress from ``done_at``
    (default .99) counts as done.
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


def registered_metrics() -> list[CurveMetric]:
    """Return every metric that is not built in; errors in its function name the metric."""
    found = []
    for name, metric in metric_registry:
        if not metric_registry.is_builtin(name):
            if not isinstance(metric, CurveMetric):
                raise OptionError(f"Metric {name!r} must be a CurveMetric, got {type(metric).__name__}.")
            found.append(replace(metric, func=partial(_measure, name, metric)))
    return found


def registered_columns() -> tuple[str, ...]:
    """Return the column names of every metric that is not built in; printed tables show them all."""
    return tuple(column.name for metric in registered_metrics() for column in metric.columns)


def _measure(name: str, metric: CurveMetric, times: FloatArray, progress: FloatArray) -> Mapping[str, float]:
    try:
        values = metric.func(times, progress)
    except StepScoreError:
        raise
    except Exception as error:
        place = place_in_local_code(error)
        raise OptionError(f"metric {name!r} raised {type(error).__name__}: {error}{place}") from error
    names = [column.name for column in metric.columns]
    if not isinstance(values, Mapping) or set(values) != set(names):
        got = ", ".join(map(str, values)) if isinstance(values, Mapping) else type(values).__name__
        raise OptionError(f"metric {name!r} must return a value for each of {', '.join(names)}, got {got}.")
    for column in metric.columns:
        value = values[column.name]
        if not isinstance(value, Real | np.bool_) or not (
            math.isnan(value) or _fits(column.kind, float(value))
        ):
            allowed = {
                "rate": "0, 1 or NaN (unknown)",
                "share": "a number from 0 to 1, NaN for unknown",
                "mean": "a number, NaN for unknown",
            }[column.kind]
            raise OptionError(f"metric {name!r}: {column.name} must be {allowed}; got {value!r}.")
    return {column: float(value) for column, value in values.items()}


def _fits(kind: str, value: float) -> bool:
    return kind == "mean" or (value in (0, 1) if kind == "rate" else 0 <= value <= 1)
