"""Metrics that users register: what they declare and what they return is checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.errors import OptionError
from stepscore.metrics import CurveMetric, MetricColumn, metric_registry, registered_metrics
from stepscore.runs import Run
from stepscore.testing import write_toy_rollouts

COLUMN = MetricColumn("mine", "lower", "mean", "a number")


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(metric_registry, "_targets", dict(metric_registry._targets))


def register(make: Callable[..., object], column: MetricColumn = COLUMN) -> None:
    metric_registry.register("registered")(CurveMetric((column,), make))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("mine", "lowr", "mean", "x"),
            "better of .*'mine' must be one of higher, lower, neither; got 'lowr'",
        ),
        (("mine", "lower", "median", "x"), "kind of .*'mine' must be one of rate, share, mean; got 'median'"),
        (("a,b", "lower", "mean", "x"), "name must be a word .*got 'a,b'"),
        (("PPL|success", "lower", "mean", "x"), "name must be a word"),
        (("mine", "lower", "mean", 3), "summary of .*'mine' must be a text, got 3"),
    ],
)
def test_a_column_checks_its_arguments(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        MetricColumn(*arguments)  # type: ignore[arg-type]


def test_a_metric_checks_its_columns_and_function() -> None:
    with pytest.raises(OptionError, match="one or more MetricColumn"):
        CurveMetric((), lambda times, progress: {})
    with pytest.raises(OptionError, match="one or more MetricColumn"):
        CurveMetric(("mine",), lambda times, progress: {})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="func must be a function"):
        CurveMetric((COLUMN,), 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        ({}, "mean", "must return a value for each of mine, got ."),
        ({"mien": 1.0}, "mean", "must return a value for each of mine, got mien"),
        (1.0, "mean", "must return a value for each of mine, got float"),
        ({"mine": None}, "mean", "mine must be a number, NaN for unknown; got None"),
        ({"mine": 0.5}, "rate", r"mine must be 0, 1 or NaN \(unknown\); got 0.5"),
        ({"mine": 1.5}, "share", r"mine must be a number from 0 to 1, NaN for unknown; got 1.5"),
    ],
)
def test_what_it_returns_wrongly_names_the_metric(value: object, kind: str, message: str) -> None:
    register(lambda times, progress: value, MetricColumn("mine", "lower", kind, "x"))  # type: ignore[arg-type]
    (metric,) = registered_metrics()
    with pytest.raises(OptionError, match=f"metric 'registered'.*{message}"):
        metric.func(np.arange(2.0), np.zeros(2))


@pytest.mark.parametrize("value", [np.float32(1), np.int64(1), True, np.bool_(True), np.nan])
def test_numbers_of_numpy_and_unknown_values_are_returned_as_floats(value: Any) -> None:
    register(lambda times, progress: {"mine": value}, MetricColumn("mine", "lower", "rate", "x"))
    (metric,) = registered_metrics()
    found = metric.func(np.arange(2.0), np.zeros(2))["mine"]
    assert type(found) is float
    assert found == 1 or np.isnan(found)


def test_what_it_raises_names_the_metric_and_the_episode(tmp_path: Path) -> None:
    made = run_of_toys(tmp_path)
    register(lambda times, progress: {"mine": 1 / 0})
    with pytest.raises(
        OptionError, match=r"Episode \S+: metric 'registered' raised ZeroDivisionError: division by zero"
    ):
        stepscore.measure(made)


def test_a_name_that_another_metric_has_is_refused(tmp_path: Path) -> None:
    made = run_of_toys(tmp_path)
    register(lambda times, progress: {"VOC": 1.0}, MetricColumn("VOC", "lower", "mean", "x"))
    with pytest.raises(OptionError, match="Two metrics have a column 'VOC'"):
        stepscore.measure(made)


def test_the_tables_of_metrics_and_of_comparisons_have_its_column(tmp_path: Path) -> None:
    made = run_of_toys(tmp_path)
    register(lambda times, progress: {"mine": float(progress[0])})
    assert "mine" in stepscore.measure(made).to_markdown()
    compared = stepscore.compare(made)
    assert "mine" in {row.metric for row in compared}
    assert "mine ↓" in compared.to_markdown()


def run_of_toys(folder: Path) -> Run:
    episodes = stepscore.open_episodes(write_toy_rollouts(folder / "toys", scenes=1))
    return stepscore.score(episodes, stepscore.get_judge("recorded"), out=folder / "run")
