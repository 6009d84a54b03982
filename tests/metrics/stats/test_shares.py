"""Means of values in 0..1: the bootstrap-t between Wilson's form and a rate's interval, and its coverage."""

from __future__ import annotations

from math import isnan

import numpy as np
import pytest

from benchmarks.tables.small_samples import DESIGNS, SCENES, TASKS, alone, in_tasks
from stepscore.metrics.stats import mean_estimate, rate_estimate, share_estimate, wilson_interval
from stepscore.metrics.stats.intervals import robust_score_interval
from stepscore.metrics.stats.sample import draw_sample, mean_of
from stepscore.metrics.stats.studentised import bootstrap_t_interval

DROPS = np.array([0, 0, 0.02, 0, 0.31, 0, 0.05, 0, 0.12, 0.2])


def covered(truth, draw, draws, seed=0):
    """How often the interval before and the one now hold the truth."""
    rng, hits = np.random.default_rng(seed), np.zeros(2)
    for _ in range(draws):
        values, scenes, tasks = draw(rng)
        for i, make in enumerate((mean_estimate, share_estimate)):
            found = make(values, clusters=scenes, strata=tasks)
            hits[i] += found.lo <= truth <= found.hi
    return hits / draws


def test_ten_skewed_values_are_covered():
    laws = ("CRA: beta(0.3, 4)", "CRA: beta(0.5, 8)")
    before, now = np.mean([covered(*alone(name, 10), draws=150, seed=1) for name in laws], axis=0)
    assert before < 0.93
    assert now >= 0.94


def test_ten_scenes_are_covered():
    truth, made = SCENES["MP: 85 % at 1, ICC 0.5"]
    before, now = covered(truth, made(DESIGNS["10 of 6"]), draws=100)
    assert before <= 0.92
    assert now >= 0.95


def test_two_episodes_a_task_are_covered():
    before, now = covered(
        *in_tasks("STR: 70 % at 0, else beta(1, 3), in both", TASKS["5 tasks of 2"]), draws=100
    )
    assert before < 0.8
    assert now > before + 0.1


def test_the_interval_is_the_bootstrap_t_within_what_a_rate_could_have():
    found, mean = share_estimate(DROPS), mean_of(draw_sample(DROPS))
    lo, hi = bootstrap_t_interval(mean, 0.95, draws=9_999)
    assert found.value == DROPS.mean()
    assert found.hi == pytest.approx(hi)
    assert found.lo == pytest.approx(max(lo, 0.0), abs=0.01)
    assert found.method == "bootstrap-t 95% (9999 draws, seed 0) in 0..1"
    flat = np.array([0.0] * 9 + [0.3])  # most resamples have no spread: the bootstrap-t alone has no end
    assert np.isinf(bootstrap_t_interval(mean_of(draw_sample(flat)), 0.95)[1])
    assert 0 < share_estimate(flat).lo < share_estimate(flat).hi < 0.5


@pytest.mark.parametrize("tasks", [None, np.arange(20) // 2], ids=["one task", "tasks of two"])
def test_it_is_never_narrower_than_wilsons_form(tasks):
    for seed in range(20):
        values = np.random.default_rng(seed).beta(0.5, 2, 20)
        found = share_estimate(values, strata=tasks)
        lo, hi = robust_score_interval(mean_of(draw_sample(values, strata=tasks)), 20, 0.95)
        assert found.lo <= lo < hi <= found.hi


def test_no_law_in_0_to_1_is_wider_than_a_rate():
    for seed in range(20):
        values = np.random.default_rng(seed).beta(0.2, 0.6, 10)
        found, q = share_estimate(values), 2.262157  # t of 9 degrees of freedom
        n, mean = 10, values.mean()
        half = q * np.sqrt((mean * (1 - mean) + q**2 / n / 4) / n) / (1 + q**2 / n)
        centre = (mean + q**2 / n / 2) / (1 + q**2 / n)
        assert centre - half - 1e-6 <= found.lo
        assert found.hi <= centre + half + 1e-6


def test_a_mean_where_nothing_is_known_of_the_range_and_a_rate_where_all_is_yes_or_no():
    beyond = np.append(DROPS, 1.2)
    assert share_estimate(beyond) == mean_estimate(beyond)
    answers = [1, 0, 1, 1, 1, 0, 1, 1]
    assert share_estimate(answers) == rate_estimate(answers)
    assert share_estimate(answers).lo == wilson_interval(6, 8)[0]
    many = np.random.default_rng(0).random(1_000)
    assert share_estimate(many) == mean_estimate(many)
    for values in ([0.1, 0.2], [0.5] * 8, []):
        assert isnan(share_estimate(values).lo)
        assert share_estimate(values).method == mean_estimate(values).method


def test_the_order_of_episodes_changes_nothing():
    order = np.random.default_rng(1).permutation(10)
    assert share_estimate(DROPS[order]) == share_estimate(DROPS)
