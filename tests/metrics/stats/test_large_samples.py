"""Limits of resampling for large samples, held against the draws that they stand for."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from stepscore.metrics import balanced_accuracy, cohen_kappa, f1, mcc
from stepscore.metrics.stats import (
    Stratum,
    bootstrap,
    compare_paired,
    compare_unpaired,
    influence_by_kind,
    mean_estimate,
    permutation_test,
    sign_flip_test,
    significance,
    statistic_estimate,
    studentised,
)
from stepscore.metrics.stats.large_samples import MANY_EPISODES, cornish_fisher_bca, linear_is_large
from stepscore.metrics.stats.sample import LinearStatistic, draw_sample, mean_of
from stepscore.types import FloatArray

TASKS = ["a", "b", "c", "d"]


def skewed(n: int, seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).beta(0.3, 2.0, n)


def skewed_mean(n: int) -> LinearStatistic:
    return mean_of(draw_sample(skewed(n), strata=TASKS * (n // 4)))


def test_the_interval_of_a_large_mean_is_that_of_many_resamples() -> None:
    mean = skewed_mean(1_000)
    replicates = bootstrap.linear_replicates(mean, 40_000, seed=1)
    acceleration = bootstrap.linear_acceleration(mean)
    by_draws = bootstrap.bca_interval(
        mean.value, replicates, acceleration=acceleration, df=mean.degrees_of_freedom, level=0.95
    )
    # 40,000 draws place an end within 2 % of a standard error, twice in three times.
    assert cornish_fisher_bca(mean, 0.95) == pytest.approx(by_draws, abs=0.06 * mean.standard_error)


def test_the_interval_leans_as_the_data_do() -> None:
    mean = skewed_mean(8_000)
    lo, hi = cornish_fisher_bca(mean, 0.95)
    assert hi - mean.value > mean.value - lo


def test_smaller_samples_are_resampled_as_ever() -> None:
    below, above = (mean_estimate(skewed(n)) for n in (MANY_EPISODES - 1, MANY_EPISODES))
    assert below.method == "BCa bootstrap 95% (2000 resamples, seed 0)"
    assert above.method == "BCa by Cornish-Fisher 95% (no resampling)"
    assert (above.hi - above.lo) / (below.hi - below.lo) == pytest.approx(1.0, abs=0.1)


def test_a_sum_that_few_units_carry_is_resampled() -> None:
    values = np.zeros(8_000)
    values[:20] = np.linspace(0.5, 0.9, 20)
    assert not linear_is_large(mean_of(draw_sample(values)))
    assert mean_estimate(values).method.startswith("BCa bootstrap")


@pytest.mark.parametrize("z", [-2.4, 0.7, 1.96])
def test_tests_of_pairs_give_the_p_value_of_their_draws(z: float, monkeypatch: pytest.MonkeyPatch) -> None:
    mean = skewed_mean(6_000)
    shifted = replace(mean, value=z * mean.standard_error)
    differences = mean.contributions + z * mean.standard_error / 6_000
    by_limit = [
        studentised.bootstrap_t_test(shifted),
        sign_flip_test(differences),
    ]
    monkeypatch.setattr(significance, "is_large", lambda *_: False)
    monkeypatch.setattr(studentised, "linear_is_large", lambda _: False)
    by_draws = [studentised.bootstrap_t_test(shifted), sign_flip_test(differences)]
    assert [found.test for found in by_limit] == ["bootstrap-t (limit)", "sign-flip (limit)"]
    for limit, draws, n in zip(by_limit, by_draws, (4_999, 9_999), strict=True):
        p = draws.p_value
        assert limit.p_value == pytest.approx(p, abs=4 * 2 * math.sqrt(p / 2 * (1 - p / 2) / n))


def test_the_permutation_of_large_arms_gives_the_p_value_of_its_draws(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    strata = [
        Stratum(np.r_[rng.beta(0.3, 2, 1_000) + 0.008, rng.beta(0.3, 2, 1_700)], np.ones(2_700), 1_000, 0.5)
        for _ in range(2)
    ]
    limit = permutation_test(strata)
    monkeypatch.setattr(significance, "permutation_is_large", lambda *_, **__: False)
    monkeypatch.setattr(significance, "N_DRAWS", 1_999)
    p = permutation_test(strata).p_value
    assert limit.test == "studentised permutation within strata (limit)"
    assert limit.p_value == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / 1_999))


def test_no_p_value_is_smaller_than_draws_could_show() -> None:
    values = skewed(6_000)
    assert compare_paired(values + 0.5, values[::-1]).p_value == 2 / (studentised.T_DRAWS + 1)
    assert compare_unpaired(values + 0.5, values).p_value == 2 / (studentised.T_DRAWS + 1)


def test_another_statistic_takes_few_evaluations_and_states_its_monte_carlo_error() -> None:
    calls = 0

    def spread(values: FloatArray) -> float:
        nonlocal calls
        calls += 1
        return float(np.std(values))

    values = skewed(6_000)
    found = statistic_estimate(spread, values)
    assert calls == 401
    assert found.method == ("bootstrap t 95% (400 resamples, seed 0; Monte Carlo error of an end 7 % of SE)")
    # The standard error of a standard deviation: sqrt((m4 - s^4) / (4 s^2 n)).
    centred = values - values.mean()
    error = math.sqrt((np.mean(centred**4) - np.var(values) ** 2) / (4 * np.var(values) * 6_000))
    assert (found.hi - found.lo) / 2 == pytest.approx(1.96 * error, rel=0.15)


def answers_and_labels(n: int, seed: int = 2) -> tuple[FloatArray, FloatArray, list[str], list[int]]:
    """Answers that are right more often in some scenes than in others, of four tasks, with their scenes."""
    rng = np.random.default_rng(seed)
    scene = np.arange(n) // 3
    easy = rng.uniform(0.55, 0.95, scene.max() + 1)[scene]
    labels = (rng.random(n) < 0.3).astype(np.float64)
    answers = np.where(rng.random(n) < easy, labels, 1 - labels)
    return answers, labels, [TASKS[s % 4] for s in scene], scene.tolist()


@pytest.mark.parametrize("func", [balanced_accuracy, mcc, f1, cohen_kappa])
def test_the_error_of_a_smooth_statistic_is_that_of_its_resamples(func: Callable[..., float]) -> None:
    answers, labels, tasks, scenes = answers_and_labels(6_000)
    found = statistic_estimate(
        func, (answers, labels), strata=tasks, clusters=scenes, influence=influence_by_kind(func)
    )
    sample = draw_sample(answers, labels, clusters=scenes, strata=tasks)
    drawn = bootstrap.statistic_replicates(func, sample, 1_000, seed=1)
    assert found.method == "linearised t 95% (no resampling)"
    assert found.value == func(answers, labels)
    # The standard deviation of 1,000 draws has an error of 2.2 %.
    assert (found.hi - found.lo) / 2 / 1.961 == pytest.approx(np.std(drawn, ddof=1), rel=0.08)


def test_an_influence_takes_two_evaluations_for_each_kind_of_episode() -> None:
    calls = 0

    def counted(answers: FloatArray, labels: FloatArray) -> float:
        nonlocal calls
        calls += 1
        return f1(answers, labels)

    answers, labels, *_ = answers_and_labels(6_000)
    statistic_estimate(counted, (answers, labels), influence=influence_by_kind(counted))
    assert calls == 1 + 2 * 4


def test_a_statistic_that_does_not_change_has_no_interval() -> None:
    _, labels, *_ = answers_and_labels(6_000)
    for func, value in ((balanced_accuracy, 0.5), (mcc, 0.0), (cohen_kappa, 0.0)):
        found = statistic_estimate(func, (np.ones(6_000), labels), influence=influence_by_kind(func))
        assert (found.value, found.method) == (value, "no variation")


def test_a_smooth_statistic_that_few_episodes_carry_is_resampled() -> None:
    labels = np.zeros(6_000)
    labels[:20] = 1.0
    answers = np.r_[np.arange(20) % 2, np.zeros(5_980)].astype(np.float64)
    for shown in (labels, np.r_[1.0, np.zeros(5_999)]):  # without the only success it is undefined
        found = statistic_estimate(
            balanced_accuracy, (answers, shown), influence=influence_by_kind(balanced_accuracy)
        )
        assert "resamples" in found.method


def test_smaller_samples_do_not_ask_for_an_influence() -> None:
    def never(*_: FloatArray) -> FloatArray:
        raise AssertionError

    answers, labels, *_ = answers_and_labels(300)
    found = statistic_estimate(f1, (answers, labels), influence=never)
    assert found == statistic_estimate(f1, (answers, labels))


def test_few_clusters_are_not_a_large_sample_however_many_episodes_they_hold() -> None:
    values = skewed(6_000)
    found = statistic_estimate(np.median, values, clusters=[i % 20 for i in range(6_000)], resamples=50)
    assert found.method.startswith("BCa bootstrap")
