"""When a run's curves count as done: by success probability, by the calibration map, by what is asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.analysis import compare, done_rule, grouped_estimates, measure, measure_episodes
from stepscore.errors import OptionError
from stepscore.metrics.opd import compute_opd
from stepscore.runs import Run
from tests.report.made_runs import write_run

PLATEAU = np.r_[np.linspace(0.0, 0.9, 30), np.full(30, 0.9)]
SURE = np.where(np.arange(60) >= 29, 0.8, 0.1)


def made(folder: Path, *, probability: bool = False, options: dict[str, Any] | None = None) -> Run:
    """Two episodes that stay at .9 from the middle on; the second never has a success probability."""

    def plateau(number: int, record: dict[str, Any]) -> None:
        curve = record["judgement"]["curve"]
        curve["progress"] = PLATEAU.tolist()
        if probability:
            values = SURE.tolist() if number == 0 else [None] * 60
            curve["channels"] = {"success_probability": values}

    return write_run(folder, 2, steps=60, tasks=1, policies=2, options=options, change=plateau)


def times(run: Run, number: int = 0) -> np.ndarray:
    """The times of an episode's curve."""
    return np.array(run.curves().column("time_s").to_numpy()[60 * number : 60 * (number + 1)])


def test_without_probability_or_map_the_threshold_is_that_of_v15(tmp_path):
    run = made(tmp_path / "run")
    values = measure_episodes(run, revision="robust").values
    assert values["MC100"].tolist() == [0.0, 0.0]
    assert values["STR"][0] == compute_opd(PLATEAU, "robust", times(run))["STR"] > 0.4


def test_the_success_probability_decides_in_the_episodes_that_have_it(tmp_path):
    run = made(tmp_path / "run", probability=True)
    values = measure_episodes(run, revision="robust").values
    expected = compute_opd(PLATEAU, "robust", times(run), success_probability=SURE)
    assert values["MC100"].tolist() == [1.0, 0.0]
    by_progress = compute_opd(PLATEAU, "robust", times(run, 1))
    assert values["STR"].tolist() == [expected["STR"], by_progress["STR"]]


def test_the_calibration_map_states_the_progress_that_counts_as_done(tmp_path):
    calibration = {"channel": "progress", "x": [0.0, 1.0], "y": [0.0, 1.0], "done_at": 0.88}
    run = made(tmp_path / "run", options={"calibration": calibration})
    assert done_rule(run).at == 0.88
    assert measure_episodes(run, revision="robust").values["MC100"].tolist() == [1.0, 1.0]


def test_what_is_asked_for_comes_before_both(tmp_path):
    run = made(tmp_path / "run", probability=True)
    assert measure_episodes(run, revision="robust", done_at=0.95).values["MC100"].tolist() == [0.0, 0.0]
    assert measure_episodes(run, revision="robust", done_at=0.85).values["MC100"].tolist() == [1.0, 1.0]


def test_a_published_revision_has_no_such_threshold(tmp_path):
    run = made(tmp_path / "run", probability=True)
    before = measure_episodes(run, revision="v1.0").values
    np.testing.assert_array_equal(before["STR"], measure_episodes(run, revision="v1.5").values["STR"])
    with pytest.raises(OptionError, match="--revision robust"):
        measure_episodes(run, revision="v1.0", done_at=0.9)


@pytest.mark.parametrize("revision", ["v1.0", "robust"])
def test_every_row_says_its_revision(tmp_path, revision):
    run = made(tmp_path / "run")
    measured, compared = measure(run, revision=revision), compare(run, revision=revision)
    assert {row["revision"] for row in measured.to_dicts()} == {revision}
    assert {row["revision"] for row in compared.to_dicts()} == {revision}
    rows = grouped_estimates(measure_episodes(run, revision=revision))
    assert {row.to_dict()["revision"] for row in rows} == {revision}
    assert f"OPD {revision}" in measured._repr_html_()
    assert f"OPD {revision}" in compared._repr_html_()


def test_command_line_page_figures_and_python_have_robust_as_their_one_default():
    from stepscore._options import DEFAULT_REVISION
    from stepscore.cli.results import compare as compare_command
    from stepscore.cli.results import metrics, plot, report, view
    from stepscore.cli.training import weights
    from stepscore.metrics import opd
    from stepscore.report import page_data, write_report
    from stepscore.report import plot as plot_files
    from stepscore.server import LivePage

    functions: list[Callable[..., Any]] = [
        metrics.metrics,
        compare_command.compare,
        report.report,
        plot.plot,
        view.view,
        weights.weights,
        stepscore.measure,
        stepscore.compare,
        measure_episodes,
        opd.compute_opd,
        opd.opd_prefixes,
        page_data,
        write_report,
        plot_files,
        stepscore.draw,
        LivePage,
    ]
    assert DEFAULT_REVISION == "robust"
    for function in functions:
        assert inspect.signature(function).parameters["revision"].default == DEFAULT_REVISION, function
