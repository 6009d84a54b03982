"""Metrics from outside of the package: from another package, a script, or a file of the user's own.

Their functions may raise anything and return anything, so each is checked where it is called.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from numbers import Real

import numpy as np

from stepscore._local_modules import place_in_local_code
from stepscore.errors import OptionError, StepScoreError
from stepscore.metrics.catalog import CurveMetric, metric_registry
from stepscore.types import FloatArray


def registered_metrics() -> list[CurveMetric]:
    """Return every metric that is not built in, by name; what its function raises or returns wrongly names it."""
    found = []
    for name, metric in metric_registry:
        if not metric_registry.is_builtin(name):
            if not isinstance(metric, CurveMetric):
                raise OptionError(f"Metric {name!r} must be a CurveMetric, got {type(metric).__name__}.")
            found.append(replace(metric, func=partial(_measure, name, metric)))
    return found


def registered_columns() -> tuple[str, ...]:
    """Return the names of the columns of every metric that is not built in; tables for people show them all."""
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
