from __future__ import annotations

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss

from stepscore.errors import OptionError
from stepscore.metrics.calibration import MonotoneMap, brier, fit_calibration, mae, reliability
from tests.paths import DOCS

points = st.lists(
    st.tuples(st.integers(-8, 8), st.floats(0, 1), st.floats(0.1, 5)),
    min_size=1,
    max_size=40,
)


@settings(max_examples=300)
@given(points)
def test_the_map_is_isotonic_regression_as_scikit_learn_computes_it(
    rows: list[tuple[int, float, float]],
) -> None:
    scores, truth, weights = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    asked = np.linspace(-10, 10, 101)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(scores, truth, sample_weight=weights)
    np.testing.assert_allclose(
        fit_calibration(scores, truth, weights).apply(asked), oracle.predict(asked), atol=1e-9
    )


def pooled(values: list[float], weights: list[float]) -> np.ndarray:
    """Isotonic regression by hand: neighbours that fall are replaced by their mean."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        mean, total, size = value, weight, 1
        while blocks and blocks[-1][0] >= mean:
            before, mass, length = blocks.pop()
            mean = (before * mass + mean * total) / (mass + total)
            total, size = total + mass, size + length
        blocks.append((mean, total, size))
    return np.repeat([mean for mean, _, _ in blocks], [size for _, _, size in blocks])


@settings(max_examples=300)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 5)), min_size=1, max_size=60))
def test_the_map_is_the_one_that_pooling_by_hand_gives_to_the_last_digits(
    rows: list[tuple[float, float]],
) -> None:
    truth, weights = (list(column) for column in zip(*rows, strict=True))
    scores = np.arange(len(truth), dtype=float)
    fitted = fit_calibration(scores, truth, weights).apply(scores)
    np.testing.assert_allclose(fitted, pooled(truth, weights), rtol=0, atol=2e-15)


def test_many_points_give_the_same_map_as_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    scores = rng.normal(size=5000)
    truth = np.clip(0.5 + scores / 5 + rng.normal(scale=0.2, size=5000), 0, 1)
    oracle = IsotonicRegression(out_of_bounds="clip").fit(scores, truth)
    fitted = fit_calibration(scores, truth)
    np.testing.assert_allclose(fitted.apply(scores), oracle.predict(scores), atol=1e-12)
    assert len(fitted.x) < 500


@given(points)
def test_a_fitted_map_never_falls_and_stays_in_the_labels_range(rows: list[tuple[int, float, float]]) -> None:
    scores, truth, _ = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    mapped = fit_calibration(scores, truth).apply(np.linspace(-20, 20, 201))
    assert np.all(np.diff(mapped) >= 0)
    assert mapped.min() >= truth.min() - 1e-12
    assert mapped.max() <= truth.max() + 1e-12


def test_beyond_the_knots_the_map_is_level_and_unknown_stays_unknown() -> None:
    fitted = MonotoneMap((0.2, 0.6), (0.1, 0.9))
    np.testing.assert_allclose(
        fitted.apply([-math.inf, 0.0, 0.4, 5.0, math.inf, math.nan]), [0.1, 0.1, 0.5, 0.9, 0.9, math.nan]
    )


def test_unknown_points_take_no_part_in_the_fit() -> None:
    nan = math.nan
    assert fit_calibration([1, nan, 2, 3], [0.1, 0.9, nan, 0.8]) == fit_calibration([1, 3], [0.1, 0.8])


@pytest.mark.parametrize(
    ("scores", "truth", "message"),
    [
        ([math.nan], [0.5], "No point"),
        ([math.inf], [0.5], "infinite"),
        ([0.5], [1.5], "0..1"),
        ([0.5, 0.6], [0.5], "2 values"),
    ],
)
def test_what_cannot_be_fitted_is_refused(scores: list[float], truth: list[float], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        fit_calibration(scores, truth)


@pytest.mark.parametrize("knots", [((), ()), ((1, 0), (0, 1)), ((0, 1), (1, 0)), ((0, math.nan), (0, 1))])
def test_a_map_that_falls_is_none(knots: tuple[tuple[float, ...], tuple[float, ...]]) -> None:
    with pytest.raises(OptionError, match="monotone map"):
        MonotoneMap(*knots)


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([0.0, 1.0])), min_size=1, max_size=60))
def test_reliability_and_its_error_are_what_a_loop_over_bins_gives(rows: list[tuple[float, float]]) -> None:
    said, truth = (np.array(column) for column in zip(*rows, strict=True))
    table = reliability(said, truth, bins=5)
    error = 0.0
    for k, (lo, hi) in enumerate(zip(table.edges[:-1], table.edges[1:], strict=True)):
        inside = (said >= lo) & ((said < hi) | (k == 4))
        assert table.n[k] == inside.sum()
        if inside.any():
            assert table.predicted[k] == pytest.approx(said[inside].mean())
            assert table.labelled[k] == pytest.approx(truth[inside].mean())
            error += inside.sum() / len(said) * abs(said[inside].mean() - truth[inside].mean())
        else:
            assert math.isnan(table.predicted[k])
    assert table.n.sum() == len(said)
    assert table.ece == pytest.approx(error)


def test_the_squared_error_of_outcomes_is_the_brier_score() -> None:
    rng = np.random.default_rng(0)
    said, outcome = rng.uniform(size=200), rng.integers(0, 2, 200)
    assert brier(said, outcome) == pytest.approx(brier_score_loss(outcome, said))


def test_without_a_known_point_every_figure_is_unknown() -> None:
    nothing = ([math.nan], [0.5])
    assert math.isnan(brier(*nothing))
    assert math.isnan(mae(*nothing))
    assert math.isnan(reliability(*nothing).ece)


def test_reliability_refuses_what_is_not_in_0_to_1() -> None:
    with pytest.raises(OptionError, match=r"defined on 0\.\.1"):
        reliability([1.2], [1.0])


def test_every_example_of_the_page_prints_what_it_shows() -> None:
    page = DOCS / "methods/calibration.md"
    found = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert found.attempted > 5
    assert found.failed == 0
