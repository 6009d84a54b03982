"""The truth that the page draws is the labelled one, in the few points that its shape needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import measure_episodes
from stepscore.report.page.data import page_data
from stepscore.report.page.packing import unpack
from stepscore.report.page.signals import truth
from stepscore.report.page.signals.truth import TOLERANCE, straight_points
from stepscore.runs import Run
from stepscore.types import FloatArray
from tests.report.made_runs import write_run


def drawn(page: Any) -> dict[str, tuple[FloatArray, FloatArray, str]]:
    """Episode id to the times, values and name of what is drawn."""
    table = page["truth"]
    ends = np.cumsum(table["length"])
    times, values = unpack(table["times"]), unpack(table["progress"])
    return {
        page["episodes"]["id"][place]: (
            times[end - n : end],
            values[end - n : end],
            table["source"]["values"][code],
        )
        for place, n, end, code in zip(
            table["episode"], table["length"], ends, table["source"]["codes"], strict=True
        )
    }


@pytest.mark.parametrize("seed", range(5))
def test_lines_between_the_kept_points_are_as_near_as_asked(seed: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(0, 9, 300))
    values = np.clip(np.cumsum(rng.normal(0, 0.02, 300)) + 0.4, 0, 1)
    kept = straight_points(times, values, 0.01)
    assert len(kept) < 300
    off = np.abs(np.interp(times, times[kept], values[kept]) - values)
    assert off.max() <= 0.01
    # None of them is there for nothing: without it the line is too far off, or it is an end.
    assert {0, 299} <= set(kept)


def test_a_straight_line_is_two_points_and_unknown_ones_stay() -> None:
    times = np.arange(50.0)
    assert straight_points(times, times / 50, 0.001) == [0, 49]
    gap = np.where(times == 20, np.nan, times / 50)
    assert straight_points(times, gap, 0.001) == [0, 19, 20, 21, 49]


def test_the_drawn_truth_is_that_of_the_metrics(tiny_run: Run, tiny_page: dict[str, Any]) -> None:
    shown = drawn(tiny_page)
    rows = {row["episode_id"]: row for row in measure_episodes([tiny_run]).episodes if row["truth"].source}
    assert shown.keys() == rows.keys()
    assert rows
    for name, (times, values, source) in shown.items():
        own = rows[name]["truth"]
        assert (
            source
            == {"progress labels": "labelled progress", "stages": "progress by labelled stages"}[own.source]
        )
        at = np.unique(np.r_[0.0, rows[name]["duration_s"]]) if own.labelled is None else own.labelled[0]
        inside = np.clip(times, at[0], at[-1])  # times are kept over their range in 2 bytes
        np.testing.assert_allclose(values, own.at(inside), atol=2e-3)
        if own.labelled is not None:
            at, labelled = own.labelled
            np.testing.assert_allclose(np.interp(at, times, values), labelled, atol=TOLERANCE + 2e-3)


def test_an_episode_without_labels_has_no_row(tmp_path: Path) -> None:
    def label(number: int, record: dict[str, Any]) -> None:
        if number == 1:
            points = {"time_s": [0.0, 1.0, 2.0], "progress": [0.0, None, 1.0]}
            record["episode"]["labelled_progress"] = {"potential": points}

    page = page_data([write_run(tmp_path / "run", 3, steps=4, change=label)])
    ((times, values, name),) = drawn(page).values()
    np.testing.assert_allclose(times, [0, 1, 2], atol=1e-4)
    np.testing.assert_array_equal(values, [0, np.nan, 1])
    assert name == "labelled progress"


def test_what_does_not_fit_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def label(number: int, record: dict[str, Any]) -> None:
        points = {"time_s": [0.0, 1.0], "progress": [0.0, 1.0]}
        record["episode"]["labelled_progress"] = {"potential": points}

    monkeypatch.setattr(truth, "MAX_POINTS", 5)
    page = page_data([write_run(tmp_path / "run", 4, steps=4, change=label)])
    assert (page["truth"]["length"], page["truth"]["left_out"]) == ([2, 2], 2)
