"""The ranking of policies by judge against that by labels, with scipy and a loop as the oracles."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kendalltau
from sklearn.metrics import cohen_kappa_score

from stepscore.errors import OptionError
from stepscore.metrics import cohen_kappa, policy_ranking, rank_policies


def rollouts(
    seed: int, rates: list[float], noise: float, scenes: int = 30
) -> tuple[list[str], np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    policies = [f"p{i}" for i in range(len(rates)) for _ in range(scenes)]
    labels = np.concatenate([rng.uniform(size=scenes) < rate for rate in rates]).astype(float)
    answers = np.where(rng.uniform(size=len(labels)) < noise, 1 - labels, labels)
    return policies, answers, labels


@pytest.mark.parametrize("seed", range(5))
def test_tau_is_that_of_the_rates(seed: int) -> None:
    policies, answers, labels = rollouts(seed, [0.1, 0.3, 0.5, 0.7], 0.3)
    found = rank_policies(policies, answers, labels)
    assert found is not None
    rates = [[v[np.array(policies) == p].mean() for p in found.policies] for v in (answers, labels)]
    np.testing.assert_allclose(found.by_judge, rates[0])
    np.testing.assert_allclose(found.by_label, rates[1])
    assert found.tau.value == pytest.approx(kendalltau(*rates).statistic)
    assert found.tau.lo <= found.tau.value <= found.tau.hi


def test_the_share_with_the_same_best_policy_is_that_of_a_plain_bootstrap_over_scenes() -> None:
    policies, answers, labels = rollouts(3, [0.5, 0.6], 0.25, scenes=60)
    scenes = list(range(60)) * 2
    found = rank_policies(policies, answers, labels, clusters=scenes)
    assert found is not None
    rng, same = np.random.default_rng(9), []
    for _ in range(2000):
        drawn = rng.integers(0, 60, 60)
        judged, labelled = ([v[drawn + 60 * p].mean() for p in (0, 1)] for v in (answers, labels))
        best = [p for p in (0, 1) if judged[p] == max(judged)]
        same.append(np.mean([labelled[p] == max(labelled) for p in best]))
    assert found.same_best.value == pytest.approx(np.mean(same), abs=0.04)
    assert found.same_best.clusters == 60
    assert found.same_best.n == 120


def test_an_oracle_ranks_as_the_labels_do_and_one_answer_to_all_is_chance() -> None:
    policies, _, labels = rollouts(0, [0.1, 0.5, 0.9], 0.0)
    sound = rank_policies(policies, labels, labels)
    assert sound is not None
    assert sound.equal
    assert sound.tau.value == 1.0
    assert sound.same_best.value == 1.0
    constant = rank_policies(policies, np.ones(len(labels)), labels)
    assert constant is not None
    assert np.isnan(constant.tau.value)
    assert constant.same_best.value == pytest.approx(1 / 3, abs=0.01)
    assert not constant.equal


def test_unknown_answers_and_a_single_policy_are_left_out() -> None:
    policies, answers, labels = rollouts(1, [0.2, 0.8], 0.1)
    unknown = np.where(np.array(policies) == "p0", np.nan, answers)
    assert rank_policies(policies, unknown, labels) is None
    few = rank_policies(["a", "b"], [1, 0], [1, 0])
    assert few is not None
    assert few.tau.value == 1.0
    assert np.isnan(few.same_best.value)
    assert "too few" in few.same_best.method
    with pytest.raises(OptionError, match="policies for"):
        rank_policies(["a"], [1, 0], [1, 0])


@pytest.mark.parametrize("whole", [True, False])
def test_a_large_sample_is_drawn_alike_and_added_up_otherwise(
    whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies, answers, labels = rollouts(5, [0.5, 0.51, 0.53], 0.3, scenes=200)
    rng = np.random.default_rng(6)
    if not whole:
        answers, labels = (np.clip(v + rng.normal(0, 0.1, len(v)), 0, 1) for v in (answers, labels))
    scenes, tasks = [i % 200 // 2 for i in range(600)], [f"t{i % 3}" for i in range(600)]
    drawn = rank_policies(policies, answers, labels, clusters=scenes, strata=tasks)
    monkeypatch.setattr(policy_ranking, "is_large", lambda *_: True)
    added = rank_policies(policies, answers, labels, clusters=scenes, strata=tasks)
    assert drawn is not None
    assert added is not None
    for name in ("tau", "same_best", "same_order"):
        assert getattr(added, name) == getattr(drawn, name)


def test_kappa_is_that_of_scikit_learn_and_unknown_for_one_class() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.uniform(size=50) < 0.4).astype(float)
    answers = np.where(rng.uniform(size=50) < 0.2, 1 - labels, labels)
    assert cohen_kappa(answers, labels) == pytest.approx(cohen_kappa_score(labels, answers))
    assert cohen_kappa(np.ones(50), labels) == 0.0
    assert np.isnan(cohen_kappa(answers, np.ones(50)))
    assert cohen_kappa([1, 0, np.nan], [1, 0, 1]) == 1.0
