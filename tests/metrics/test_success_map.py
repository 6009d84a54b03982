"""The success map: against scikit-learn, against planted data, and its weights."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from stepscore.errors import OptionError
from stepscore.metrics import balanced_brier, balanced_ece, brier, fit_success_map, own_terms, reliability
from stepscore.metrics.success_map import SLOPE_SD, SuccessMap
from stepscore.types import FloatArray


def planted(
    seed: int = 0, tasks: int = 8, n: int = 60, sd: float = 1.5, slope: float = 2.0
) -> tuple[FloatArray, FloatArray, list[str], FloatArray]:
    """Scores, labels and tasks of logit p = slope x + u_task, and the u."""
    rng = np.random.default_rng(seed)
    u = rng.normal(0, sd, tasks)
    # Scores lie around each task's own threshold, so that every task has successes and failures.
    x = rng.normal(0, 1.5, (tasks, n)) - u[:, None] / slope
    y = rng.uniform(size=(tasks, n)) < 1 / (1 + np.exp(-(slope * x + u[:, None])))
    return x.ravel(), y.astype(float).ravel(), [f"t{i}" for i in range(tasks) for _ in range(n)], u


def by_scikit(
    x: FloatArray, y: FloatArray, tasks: list[str], sd: float
) -> tuple[float, float, dict[str, float]]:
    """The same objective: columns are scaled so that its one penalty is each column's own."""
    names = sorted(set(tasks))
    task = np.array(tasks)
    spread = x.std()
    columns = [x / spread * SLOPE_SD, *(np.where(task == name, sd, 0.0) for name in names)]
    w = np.empty(len(y))
    for name in names:
        for value in (0, 1):
            mine = (task == name) & (y == value)
            w[mine] = np.sum(task == name) / (2 * np.sum(mine))
    found = LogisticRegression(C=1.0, tol=1e-12, max_iter=100_000).fit(np.column_stack(columns), y, w)
    terms = dict(zip(names, (found.coef_[0, 1:] * sd).tolist(), strict=True))
    return float(found.intercept_[0]), float(found.coef_[0, 0] * SLOPE_SD / spread), terms


@pytest.mark.parametrize("sd", [0.05, 0.7, 5.0])
def test_it_is_scikit_learns_penalised_logistic_regression(sd: float) -> None:
    x, y, tasks, _ = planted()
    made = fit_success_map(x, y, tasks, task_sd=sd)
    intercept, slope, terms = by_scikit(x, y, tasks, sd)
    assert made.slope == pytest.approx(slope, abs=1e-4)
    assert made.intercept == pytest.approx(intercept, abs=1e-4)
    assert made.task_terms == pytest.approx(terms, abs=1e-4)


def test_it_recovers_what_was_planted() -> None:
    x, y, tasks, u = planted(tasks=20, n=400)
    made = fit_success_map(x, y, tasks)
    found = np.array([made.task_terms[f"t{i}"] for i in range(20)])
    assert made.slope == pytest.approx(2.0, abs=0.15)
    assert np.corrcoef(found, u)[0, 1] > 0.98
    assert made.task_sd == pytest.approx(1.5, rel=0.35)


def test_tasks_that_do_not_differ_are_shrunk_to_the_pooled_map() -> None:
    x, y, tasks, _ = planted(seed=3, sd=0.0, n=40)
    made = fit_success_map(x, y, tasks)
    free = fit_success_map(x, y, tasks, task_sd=10.0)
    assert max(map(abs, made.task_terms.values())) < 0.5 * max(map(abs, free.task_terms.values()))


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_threshold_does_not_depend_on_how_many_succeeded(share: float) -> None:
    rng = np.random.default_rng(1)
    n = 20_000
    y = (rng.uniform(size=n) < share).astype(float)
    x = rng.normal(np.where(y == 1, 1.0, -1.0), 1.0)
    made = fit_success_map(x, y, ["a"] * n)
    threshold = -(made.intercept + made.task_terms["a"]) / made.slope
    assert threshold == pytest.approx(0.0, abs=0.06)


def test_a_task_needs_five_of_each_for_a_term_of_its_own() -> None:
    y = np.array([1] * 5 + [0] * 5 + [1] * 30 + [0] * 4)
    tasks = ["enough"] * 10 + ["few failures"] * 34
    assert own_terms(y, tasks) == ["enough"]
    x = np.where(y == 1, 1.0, -1.0) + np.linspace(-1.5, 1.5, len(y))
    made = fit_success_map(x, y, tasks)
    assert set(made.task_terms) == {"enough"}
    assert made.apply([0.3], "few failures") == made.apply([0.3], "never seen") == made.apply([0.3])


def test_scores_that_separate_all_labels_have_a_finite_slope() -> None:
    made = fit_success_map([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])
    assert 0 < made.slope < 100
    assert made.apply([-1.0, 1.0])[0] < 0.05
    assert made.apply([-1.0, 1.0])[1] > 0.95


def test_unknown_scores_and_labels_are_left_out() -> None:
    x, y, tasks, _ = planted(tasks=2)
    more = fit_success_map(
        np.append(x, [math.nan, 3.0]), np.append(y, [1.0, math.nan]), [*tasks, "t0", "t1"], task_sd=1.0
    )
    assert more == fit_success_map(x, y, tasks, task_sd=1.0)
    assert math.isnan(more.apply([math.nan])[0])


@pytest.mark.parametrize(
    ("scores", "labels", "words"),
    [([1.0, 2.0], [1, 1], "successes and failures"), ([1.0, 1.0], [0, 1], "scores that differ")],
)
def test_what_cannot_be_fitted_is_refused(scores: list[float], labels: list[int], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        fit_success_map(scores, labels)


def test_a_map_of_numbers_that_are_not_finite_is_refused() -> None:
    with pytest.raises(OptionError, match="finite numbers"):
        SuccessMap(0.0, math.inf)


def test_brier_and_ece_weigh_both_classes_equally() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=400)
    y = (rng.uniform(size=400) < p).astype(float)
    even = np.r_[np.flatnonzero(y == 1)[:150], np.flatnonzero(y == 0)[:150]]
    assert balanced_brier(p[even], y[even]) == pytest.approx(brier(p[even], y[even]))
    assert balanced_ece(p[even], y[even]) == pytest.approx(reliability(p[even], y[even]).ece)
    twice = np.r_[even, even[:150]]  # every success twice
    assert balanced_brier(p[twice], y[twice]) == pytest.approx(balanced_brier(p[even], y[even]))
    assert balanced_ece(p[twice], y[twice]) == pytest.approx(balanced_ece(p[even], y[even]))
    assert math.isnan(balanced_ece(p[:3], [1, 1, 1]))
