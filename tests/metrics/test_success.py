"""Scores and answers against labels."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st

from stepscore.errors import OptionError
from stepscore.metrics.success import (
    CRITERIA,
    Confusion,
    apply_threshold,
    average_precision,
    balanced_accuracy,
    best_threshold,
    confusion,
    mcc,
    roc_auc,
)

NAN = math.nan
scored = st.lists(
    st.tuples(st.integers(0, 8).map(lambda i: i / 8), st.integers(0, 1)), min_size=2, max_size=30
).filter(lambda points: len({label for _, label in points}) == 2)
answered = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=2, max_size=30).filter(
    lambda points: len({label for _, label in points}) == 2
)

SKLEARN = {
    "balanced_accuracy": sklearn.metrics.balanced_accuracy_score,
    "mcc": sklearn.metrics.matthews_corrcoef,
    "accuracy": sklearn.metrics.accuracy_score,
}


class TestRanking:
    @given(scored)
    def test_roc_auc_counts_pairs_with_ties_as_half(self, points):
        wins = [
            (s > f) + 0.5 * (s == f)
            for (s, a), (f, b) in itertools.product(points, points)
            if a == 1 and b == 0
        ]
        assert roc_auc(*zip(*points, strict=True)) == pytest.approx(np.mean(wins), abs=1e-12)

    @given(scored)
    def test_agrees_with_scikit_learn(self, points):
        scores, labels = zip(*points, strict=True)
        assert roc_auc(scores, labels) == pytest.approx(sklearn.metrics.roc_auc_score(labels, scores))
        expected = sklearn.metrics.average_precision_score(labels, scores)
        assert average_precision(scores, labels) == pytest.approx(expected)

    @pytest.mark.parametrize("measure", [roc_auc, average_precision])
    def test_one_class_or_nothing_known_is_unknown(self, measure):
        assert math.isnan(measure([0.1, 0.9], [1, 1]))
        assert math.isnan(measure([0.1, 0.9], [0, 0]))
        assert math.isnan(measure([0.1, NAN], [0, 1]))
        assert math.isnan(measure([], []))

    @pytest.mark.parametrize("measure", [roc_auc, average_precision])
    def test_unknown_scores_and_labels_are_left_out(self, measure):
        scores, labels = [0.2, 0.4, NAN, 0.3, 0.9], [0, 1, 1, 0, NAN]
        assert measure(scores, labels) == measure([0.2, 0.4, 0.3], [0, 1, 0])

    @pytest.mark.parametrize("measure", [roc_auc, average_precision])
    def test_infinite_log_probabilities_rank_like_numbers(self, measure):
        assert measure([-math.inf, -math.inf, -1.0], [0, 1, 1]) == measure([0, 0, 1], [0, 1, 1])


class TestAnswers:
    @given(answered)
    def test_agree_with_scikit_learn(self, points):
        answers, labels = zip(*points, strict=True)
        assert balanced_accuracy(answers, labels) == pytest.approx(
            SKLEARN["balanced_accuracy"](labels, answers)
        )
        assert mcc(answers, labels) == pytest.approx(SKLEARN["mcc"](labels, answers), abs=1e-12)
        tn, fp, fn, tp = sklearn.metrics.confusion_matrix(labels, answers).ravel()
        assert confusion(answers, labels) == Confusion(tp=tp, fp=fp, fn=fn, tn=tn, unknown=0)

    def test_abstentions_are_counted_and_neither_right_nor_wrong(self):
        counts = confusion([1, NAN, 0, 1, 0], [1, 1, NAN, 0, 0])
        assert counts == Confusion(tp=1, fp=1, fn=0, tn=1, unknown=2)
        assert counts.n == 3

    def test_an_answer_that_ignores_the_episode_has_no_credit(self):
        labels = [1, 1, 1, 0]
        assert balanced_accuracy([1] * 4, labels) == 0.5
        assert mcc([1] * 4, labels) == 0.0

    @pytest.mark.parametrize("measure", [balanced_accuracy, mcc])
    def test_labels_of_one_class_are_unknown(self, measure):
        assert math.isnan(measure([1, 1, 0], [1, 1, 1]))
        assert math.isnan(measure([1, 1, 1], [1, 1, 1]))
        assert math.isnan(measure([], []))

    def test_a_perfect_answer_is_exactly_one(self):
        labels = np.array([1] * 7 + [0] * 5)
        assert mcc(labels, labels) == 1.0
        assert mcc(1 - labels, labels) == -1.0

    def test_scores_are_no_answers(self):
        with pytest.raises(OptionError, match=r"answers holds 0\.7.*apply_threshold"):
            balanced_accuracy([0.7, 0.2], [1, 0])

    def test_lengths_must_agree(self):
        with pytest.raises(OptionError, match="2 values and labels 1"):
            mcc([1, 0], [1])


class TestThreshold:
    @pytest.mark.parametrize("criterion", CRITERIA)
    @given(points=scored)
    def test_no_cut_does_better(self, points, criterion):
        scores, labels = (np.array(x) for x in zip(*points, strict=True))
        chosen = best_threshold(scores, labels, criterion)
        reached = SKLEARN[criterion](labels, apply_threshold(scores, chosen))
        others = [SKLEARN[criterion](labels, scores >= cut) for cut in [*np.unique(scores), math.inf]]
        assert reached == pytest.approx(max(others), abs=1e-12)
        assert chosen.score == pytest.approx(reached, abs=1e-12)

    def test_lies_midway_in_the_widest_gap_among_equals(self):
        labels = [0, 1, 0, 1]
        chosen = best_threshold([0.0, 0.1, 0.5, 0.6], labels)
        assert chosen.value == pytest.approx(0.05)
        wider = best_threshold([0.0, 0.1, 0.5, 0.9], labels)
        assert wider.value == pytest.approx(0.7)
        assert wider.score == chosen.score == 0.75

    def test_prefers_a_finite_cut_to_always_answering_the_same(self):
        assert math.isfinite(best_threshold([0.9, 0.5, 0.1], [0, 1, 0]).value)

    def test_says_always_yes_where_that_is_best(self):
        chosen = best_threshold([0.9, 0.1, 0.2, 0.3], [0, 1, 1, 1], "accuracy")
        assert chosen.value == -math.inf
        assert apply_threshold([0.0], chosen).tolist() == [1.0]

    def test_separates_neighbouring_floats(self):
        low = 0.3
        high = np.nextafter(low, 1)
        chosen = best_threshold([low, high], [0, 1])
        assert apply_threshold([low, high], chosen).tolist() == [0.0, 1.0]

    def test_separates_infinite_scores(self):
        scores = [-math.inf, -2.0, math.inf]
        assert apply_threshold(scores, best_threshold(scores, [0, 1, 1])).tolist() == [0, 1, 1]
        ends = [-math.inf, math.inf]
        assert apply_threshold(ends, best_threshold(ends, [0, 1])).tolist() == [0, 1]

    def test_fitted_on_one_split_it_is_applied_to_another(self):
        rng = np.random.default_rng(0)
        labels = np.tile([0, 1], 200)
        scores = labels * 0.4 + rng.normal(0.3, 0.2, 400)
        chosen = best_threshold(scores[:200], labels[:200])
        held_out = balanced_accuracy(apply_threshold(scores[200:], chosen), labels[200:])
        assert 0.75 < held_out < 0.95
        assert chosen.n == 200

    def test_unknown_points_are_counted(self):
        chosen = best_threshold([0.1, NAN, 0.9, 0.4], [0, 1, 1, NAN])
        assert (chosen.n, chosen.unknown, chosen.value) == (2, 2, 0.5)

    def test_one_class_gives_no_threshold_and_no_answers(self):
        chosen = best_threshold([0.1, 0.9], [1, 1])
        assert math.isnan(chosen.value)
        assert math.isnan(chosen.score)
        assert np.isnan(apply_threshold([0.1, 0.9], chosen)).all()

    def test_unknown_scores_stay_unknown(self):
        np.testing.assert_array_equal(apply_threshold([0.95, 0.949, NAN], 0.95), [1, 0, NAN])

    def test_does_not_depend_on_the_order_of_the_points(self):
        rng = np.random.default_rng(1)
        scores, labels = rng.integers(0, 10, 60) / 10, rng.integers(0, 2, 60)
        shuffled = rng.permutation(60)
        for criterion in CRITERIA:
            a = best_threshold(scores, labels, criterion)
            assert a == best_threshold(scores[shuffled], labels[shuffled], criterion)

    def test_another_criterion_is_refused(self):
        with pytest.raises(OptionError, match="must be one of balanced_accuracy, mcc, accuracy"):
            best_threshold([0.1, 0.9], [0, 1], "f1")  # type: ignore[arg-type]
