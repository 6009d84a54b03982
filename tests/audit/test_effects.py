"""What decides a probe: an interval in which a scene counts once, and which no wrong answer narrows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.audit import MIN_SCENES, PROBES, Bound, effect_estimate
from stepscore.metrics.stats import rate_estimate, wilson_interval
from stepscore.types import Estimate

ORDER = {"fail": 0, "warn": 1, "pass": 2}
SHARES = (Bound(0.1, "below"), Bound(0.75, "above"))


def estimated(by_scene: Sequence[Sequence[float]], *, rate: bool = True) -> Estimate:
    effects = [effect for scene in by_scene for effect in scene]
    scenes = [number for number, scene in enumerate(by_scene) for _ in scene]
    return effect_estimate(np.array(effects, dtype=float), scenes, rate=rate)


def test_the_first_wrong_answer_does_not_make_a_pass_of_a_warning() -> None:
    """Of 24 scenes with three episodes each, where the cluster-robust interval of a rate does just that."""
    bound, silent = SHARES[0], [[0.0] * 3] * 24
    once = [[1.0, 0.0, 0.0], *silent[1:]]
    scenes = [number for number in range(24) for _ in range(3)]
    robust = [rate_estimate(np.ravel(table), clusters=scenes).hi for table in (silent, once)]
    assert robust[1] < bound.limit < robust[0]
    ends = [estimated(table).hi for table in (silent, once)]
    assert bound.limit < ends[0] < ends[1]


@pytest.mark.parametrize("bound", [*SHARES, Bound(0.5, "below"), Bound(0.3, "above")], ids=str)
def test_one_more_wrong_answer_never_improves_a_share_in_any_table_of_eight_scenes(bound: Bound) -> None:
    right, tie, wrong = (1.0, 0.5, 0.0) if bound.good == "above" else (0.0, 0.5, 1.0)
    rows = [(right, right), (right, tie), (tie, tie), (right, wrong), (tie, wrong), (wrong, wrong)]
    worse = {(right, right): 1, (right, tie): 2, (tie, tie): 4, (right, wrong): 4, (tie, wrong): 5}
    outcomes = {
        table: ORDER[bound.decide(estimated(table))] for table in combinations_with_replacement(rows, 8)
    }
    for table, outcome in outcomes.items():
        for i, row in enumerate(table):
            if row in worse:
                spoilt = (*table[:i], rows[worse[row]], *table[i + 1 :])
                assert outcomes[tuple(sorted(spoilt, key=rows.index))] <= outcome
    assert len(set(outcomes.values())) > 1


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_one_more_wrong_answer_never_improves_a_probe(data: st.DataObject) -> None:
    """Whatever the probe, the sizes of the scenes, and where the wrong answers are."""
    probe = data.draw(st.sampled_from(list(PROBES.values())), "probe")
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=MIN_SCENES, max_size=60), "sizes")
    sign = 1.0 if probe.bound.good == "above" else -1.0
    if probe.rate:
        answers = [0.0, 0.5, 1.0][:: int(sign)]
        wrong, right = answers[0], answers[-1]
    else:
        wrong = probe.bound.limit - sign * data.draw(st.floats(0.001, 1.0), "beyond the bound")
        right = probe.bound.limit + sign * data.draw(st.floats(0.001, 1.0), "within it")
    flags = [data.draw(st.lists(st.booleans(), min_size=m, max_size=m)) for m in sizes]
    tables = [[right if flag else wrong for flag in scene] for scene in flags]
    before = probe.bound.decide(estimated(tables, rate=probe.rate))
    spoilable = [scene for scene, answers in enumerate(tables) if right in answers]
    for scene in spoilable[:2] + spoilable[-1:]:
        spoilt = [*tables]
        spoilt[scene] = [*tables[scene]]
        spoilt[scene][tables[scene].index(right)] = wrong
        assert ORDER[probe.bound.decide(estimated(spoilt, rate=probe.rate))] <= ORDER[before]


def test_an_effect_that_gets_worse_by_any_amount_never_improves_a_probe_on_a_scale() -> None:
    rng, bounds = np.random.default_rng(4), (Bound(0.1, "below"), Bound(-0.1, "above"))
    before: list[str] = []
    for _ in range(150):
        sizes = rng.integers(1, 4, rng.integers(MIN_SCENES, 16))
        effects = rng.choice([0.0, 0.09, 0.15, 0.15, 0.15, rng.uniform(-1, 1)], sizes.sum())
        scenes = np.repeat(np.arange(len(sizes)), sizes).tolist()
        worse = effects.copy()
        worse[rng.integers(len(worse))] += rng.choice([0.1, 1.0, 2.0])
        for sign, bound in zip((1, -1), bounds, strict=True):
            found = [
                bound.decide(effect_estimate(sign * one, scenes, rate=False)) for one in (effects, worse)
            ]
            assert ORDER[found[1]] <= ORDER[found[0]], (effects, worse)
            before.append(found[0])
    assert set(before) == set(ORDER)


def test_an_outlier_on_the_wrong_side_does_not_make_a_warning_of_a_fail() -> None:
    bound, wrong = Bound(0.1, "below"), [0.15] * 8
    for effects in (wrong, [*wrong[1:], 1.0], [*wrong, 0.09], [*wrong, 1.0]):
        assert bound.decide(estimated([[effect] for effect in effects], rate=False)) == "fail"
    spread = np.array([*wrong[1:], 1.0])
    plain = spread.mean() - 2.364624 * spread.std(ddof=1) / np.sqrt(8)  # t of 7 degrees of freedom
    assert plain < bound.limit


def test_each_end_is_the_innermost_of_all_cuts_and_that_of_t_without_outliers() -> None:
    t = 2.262157  # of 9 degrees of freedom
    for seed in range(10):
        effects = np.random.default_rng(seed).standard_t(2, 10)
        cuts = np.linspace(effects.min(), effects.max(), 2001)[:, None]
        low, high = np.minimum(effects, cuts), np.maximum(effects, cuts)
        margin = [t * one.std(axis=1, ddof=1) / np.sqrt(10) for one in (low, high)]
        found = estimated(effects[:, None].tolist(), rate=False)
        assert found.lo == pytest.approx(np.max(low.mean(axis=1) - margin[0]), abs=1e-4)
        assert found.hi == pytest.approx(np.min(high.mean(axis=1) + margin[1]), abs=1e-4)
        assert found.lo <= effects.mean() <= found.hi
    even = np.linspace(0, 1, 10)
    found = estimated(even[:, None].tolist(), rate=False)
    assert found.hi - found.lo == pytest.approx(2 * t * even.std(ddof=1) / np.sqrt(10), rel=0.05)


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
def test_effects_that_are_all_equal_decide_from_eight_scenes_on_and_on_both_sides(value: float) -> None:
    """A clock fails where a constant passes."""
    for scenes, decided in ((MIN_SCENES - 1, False), (MIN_SCENES, True)):
        found = estimated([[value] * 3] * scenes, rate=False)
        outcomes = {Bound(0.1, good).decide(found) for good in ("below", "above")}
        assert outcomes == ({"pass", "fail"} if decided else {"undecided"})
        assert math.isnan(found.lo)


def test_a_scene_counts_once_however_often_it_was_tried() -> None:
    once, thrice = estimated([[0.0]] * 40), estimated([[0.0] * 3] * 40)
    assert once.hi == thrice.hi == wilson_interval(0, 40)[1]
    assert (thrice.n, thrice.clusters) == (120, 40)
    unequal = estimated([[0.0] * 41] + [[0.0]] * 39)
    assert unequal.hi > thrice.hi
    assert estimated([[0.1, 0.3]] * 10, rate=False).lo < 0.2 < estimated([[0.1, 0.3]] * 10, rate=False).hi


def test_a_tie_counts_one_half_and_all_ties_are_no_win() -> None:
    ties = estimated([[0.5]] * 9)
    assert ties.value == 0.5
    assert Bound(0.75, "above").decide(ties) == "fail"
    assert Bound(0.75, "above").decide(estimated([[1.0]] * 12)) == "pass"
    assert Bound(0.75, "above").decide(estimated([[1.0]] * 11 + [[0.5]])) == "warn"


def test_a_judge_that_is_always_right_passes_on_the_scenes_that_are_said_to_be_enough() -> None:
    needed = {name: probe.scenes_to_pass for name, probe in PROBES.items()}
    assert {needed["frozen-first"], needed["other-task"], needed["still-success"]} == {MIN_SCENES, 12, 35}
    for probe in PROBES.values():
        if probe.rate:
            right = float(probe.bound.good == "above")
            outcomes = [
                probe.bound.decide(estimated([[right]] * n))
                for n in (probe.scenes_to_pass - 1, probe.scenes_to_pass)
            ]
            assert outcomes == ["warn", "pass"]


def test_unknown_effects_count_against_coverage() -> None:
    found = effect_estimate(np.array([0.0, math.nan] * 10), list(range(20)), rate=True)
    assert (found.n, found.clusters, found.coverage) == (10, 10, 0.5)
    assert Bound(0.1, "below").decide(effect_estimate(np.array([math.nan]), ["a"], rate=True)) == "undecided"


def simulated_coverage(draw: str, scenes: int, trials: int = 400) -> float:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(trials):
        rate = rng.beta(1.0, 9.0, scenes) if draw == "scenes differ" else np.full(scenes, 0.1)
        effects = (rng.uniform(size=(scenes, 3)) < rate[:, None]).astype(float)
        found = estimated(effects.tolist())
        held += found.lo <= 0.1 <= found.hi
    return held / trials


@pytest.mark.parametrize("draw", ["scenes differ", "scenes are alike"])
def test_the_interval_of_a_share_holds_its_level_whether_scenes_differ_or_not(draw: str) -> None:
    assert simulated_coverage(draw, 24) >= 0.93
