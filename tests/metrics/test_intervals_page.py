"""The page on intervals and comparisons says what the code does."""

from __future__ import annotations

import doctest

import numpy as np
from scipy import stats

import stepscore.metrics.stats
from stepscore.metrics.stats import wilson_interval
from tests.paths import DOCS

PAGE = DOCS / "methods/intervals.md"
MEASURED = DOCS / "measurements/intervals.md"


def test_every_example_prints_what_the_page_shows():
    found = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert found.attempted >= 10
    assert found.failed == 0


def test_every_public_function_stands_on_the_page():
    text = PAGE.read_text(encoding="utf-8")
    for name in stepscore.metrics.stats.__all__:
        assert f"`{name}" in text or name[0].isupper(), f"{name} is missing from {PAGE.name}"


def test_the_exact_table_is_the_one_that_is_measured():
    rates = np.arange(5, 96) / 100
    means, lowest = [], []
    for n in range(10, 201):
        ends = np.array([wilson_interval(k, n) for k in range(n + 1)])
        inside = (ends[:, :1] <= rates) & (rates <= ends[:, 1:])
        coverage = (stats.binom.pmf(np.arange(n + 1)[:, None], n, rates) * inside).sum(axis=0)
        means.append(coverage.mean())
        lowest.append(coverage.min())
    row = f"| wilson | {100 * min(means):.1f} | {100 * max(means):.1f} | {100 * min(lowest):.1f} |"
    assert row in MEASURED.read_text(encoding="utf-8")
