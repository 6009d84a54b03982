"""Tables of simulations in docs/measurements/intervals.md hold what their commands print: cheap rows, drawn again."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.tables import few_scenes, judge_errors, small_samples
from stepscore.metrics.stats import mean_estimate
from tests.paths import ROOT

MEASURED = json.loads((ROOT / "benchmarks/measurements/intervals.json").read_text(encoding="utf-8"))


def rows_of(title: str) -> list[list[str]]:
    """The rows of a table, without its header."""
    (table,) = [table for table in MEASURED["tables"] if table["title"] == title]
    return table["rows"]


def cells(title: str, *names: str) -> list[str]:
    """The cells of the row that begins with these names."""
    (row,) = [row for row in rows_of(title) if row[: len(names)] == list(names)]
    return row[len(names) :]


def percent(*shares: float) -> list[str]:
    return [f"{100 * share:.1f}" for share in shares]


@pytest.mark.parametrize("name", ["4 scenes of 3", "4 scenes of 1, 2, 3, 6; of 3"])
def test_rates_on_these_scenes(name: str) -> None:
    drawn = [
        [few_scenes.rate_coverage(few_scenes.DESIGNS[name][0], base, sd, 4000) for base in few_scenes.RATES]
        for sd in few_scenes.DEVIATIONS
    ]
    title = "Rate on these scenes: average and lowest coverage over rates 0.05 to 0.95"
    expected = percent(*(float(np.mean(found)) for found in drawn), *map(min, drawn))
    assert cells(title, name.partition(";")[0]) == expected


def test_differences_on_these_scenes() -> None:
    design = few_scenes.DESIGNS["2 scenes of 6"]
    pairs = [(0.5 + gap / 2, 0.5 - gap / 2) for gap in few_scenes.GAPS]
    lowest = min(few_scenes.covered(design, pair, 0.0, 500) for pair in pairs)
    title = "Difference of two rates: lowest coverage over differences of 0, 0.2, 0.5 and 0.8"
    assert cells(title, "2 scenes of 6")[0] == percent(lowest)[0]


@pytest.mark.parametrize("name", ["4 scenes of 3", "2 scenes of 6"])
def test_false_alarms_on_these_scenes(name: str) -> None:
    drawn = [
        [few_scenes.false_alarms(few_scenes.DESIGNS[name], base, sd, 1000) for base in few_scenes.BASES]
        for sd in few_scenes.DEVIATIONS
    ]
    highest = [max(found[test] for found in of_sd) for test in (0, 1) for of_sd in drawn]
    title = "False alarms of equal policies at 0.05: highest over rates 0.1, 0.3 and 0.5"
    assert cells(title, name) == percent(*highest)


def test_decided_of_ten_against_ninety_three_percent() -> None:
    title = "10 % against 93 %, 12 trials each: share that is decided"
    assert [row[0] for row in rows_of(title)] == [*few_scenes.TWELVE]
    for name in ("2 scenes of 6", "4 scenes of 3"):
        found = [few_scenes.decided(few_scenes.TWELVE[name], sd, 4000) for sd in (0.0, 0.2)]
        assert cells(title, name) == percent(*found)


def test_errors_of_a_judge() -> None:
    for side in judge_errors.SIDES:
        found = [judge_errors.independent(25, rate, side) for rate in judge_errors.RATES]
        for i, name in enumerate(("as a rate", "Bonett-Price")):
            expected = percent(*(shares[i] for shares in found))
            assert cells("Errors of a judge, independent episodes (exact)", "25", side, name) == expected


def test_errors_of_a_judge_in_scenes() -> None:
    design, side = "100 in 50 scenes of 2", "one-sided"
    lowest = min(judge_errors.clustered(design, 0.10, icc, side, 1000) for icc in judge_errors.ICCS)
    title = "Errors of a judge, episodes in scenes: lowest over ICC 0, 0.2, 0.5 and 0.8"
    assert cells(title, design, side)[-1] == percent(lowest)[0]


def test_what_draws_leave_open() -> None:
    values = np.random.default_rng(0).beta(1, 4, 20)
    found = small_samples.ends_by_seed(
        lambda seed: mean_estimate(values, resamples=2000, seed=seed), seeds=100
    )
    title = "What draws leave open: ends of intervals"
    assert cells(title, "mean, BCa, 2,000 draws", "20") == percent(*found)
