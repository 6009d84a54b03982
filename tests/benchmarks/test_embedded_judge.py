"""The figures of the embedded judge, on made-up scores whose right figure is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from benchmarks.embedded import figures, variants
from benchmarks.embedded.measures import controls, pair_order, progress, subgoals, success
from benchmarks.embedded.paraphrases import PARAPHRASES, held_out_wording, trained_wordings, unseen
from benchmarks.embedded.rows import Scored, Statement, read_rows, write_rows
from stepscore.metrics.calibration import MonotoneMap
from stepscore.sim import all_tasks
from stepscore.training.embedded import tasks as lists
from stepscore.types import Estimate

LOGIT = MonotoneMap(tuple(np.linspace(-6, 6, 121)), tuple(1 / (1 + np.exp(-np.linspace(-6, 6, 121)))))
"""The map of a judge whose P(True) is progress."""


def scored(
    name: str,
    potential: list[float],
    margins: list[float] | None = None,
    *,
    task: str = "drawer-open",
    policy: str = "expert",
    variant: str = "recorded",
    others: dict[str, float] | None = None,
    subgoals: dict[str, Statement] | None = None,
) -> Scored:
    """A video whose log-odds are, unless given, those of its potential."""
    p = np.clip(np.array(potential), 0.003, 0.997)
    judged = np.log(p / (1 - p)) if margins is None else np.array(margins, dtype=float)
    done = (np.array(potential) >= 1).astype(float)
    return Scored(
        name,
        variant,
        task,
        policy,
        f"{task}/{name}",
        0.2 * len(p),
        float(done[-1]),
        float(done.max()),
        0.2 * np.arange(1.0, len(p) + 1),
        np.array(potential),
        Statement(judged, done),
        subgoals or {},
        others or {},
        max(potential),
    )


def rising(n: int = 8, end: float = 1.0) -> list[float]:
    return np.linspace(0, end, n).tolist()


def test_task_lists_do_not_overlap_and_are_long_enough():
    known = [*lists.TRAINED, *lists.OUTLIERS, *lists.HELD_OUT]
    assert len(set(known)) == len(known)
    assert set(known) <= set(all_tasks())
    assert len(lists.TRAINED) >= 25
    assert len(lists.HELD_OUT) >= 8


def test_fast_auc_is_the_usual_one_ties_included():
    rng = np.random.default_rng(0)
    for _ in range(20):
        scores, labels = rng.integers(0, 6, 40).astype(float), rng.integers(0, 2, 40).astype(float)
        assert success.fast_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))
    assert math.isnan(success.fast_auc(np.ones(3), np.ones(3)))


def test_macro_auc_weighs_tasks_alike():
    scores, labels = np.array([1.0, 0, 1, 0, 0, 1]), np.array([1.0, 0, 1, 0, 1, 0])
    tasks = np.array([0.0, 0, 0, 0, 1, 1])
    assert success.macro_auc(scores, labels, tasks) == pytest.approx(0.5)
    assert success.fast_auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores))


def test_success_is_measured_on_the_cut_failure_and_not_on_the_whole_one():
    good = scored("a", rising())
    whole = scored("b", rising(12, 0.6), margins=[9.0] * 12, policy="freeze")
    cut = scored("b", rising(8, 0.6), policy="freeze", variant="cut 1.60 s")
    pair = variants.Match("a", "b", "cut 1.60 s", 1.6)
    matched = variants.Matched((pair,), {}, (), ())
    found = {f.name: f for f in success.success_figures([good, whole, cut], matched)}
    assert found["success AUC, pooled"].estimate.value == 1.0
    assert found["success AUC, pooled"].baselines["length alone"] == 0.5


def test_a_near_miss_that_was_cut_before_it_arrived_does_not_count():
    good = [scored(f"a{i}", rising()) for i in range(2)]
    early = scored("b", [0.1, 0.2], policy="short:4", variant="cut 0.40 s")
    early = Scored(**{**vars(early), "peak": 0.9})
    late = scored("c", [0.5, 0.9], margins=[0.0, 50.0], policy="short:4")
    pairs = (variants.Match("a0", "b", "cut 0.40 s", 0.4), variants.Match("a1", "c", "recorded", None))
    matched = variants.Matched((), {"short:4": pairs}, (), ())
    found = {f.name: f for f in success.success_figures([*good, early, late], matched)}
    near = next(f for name, f in found.items() if "4 cm" in name)
    assert near.estimate.n == 2
    assert near.estimate.value == 0.0


def test_a_judge_that_knows_the_potential_has_no_error_and_the_clock_has():
    rows = [scored(f"s{i}", rising(8)) for i in range(3)]
    rows += [scored(f"f{i}", [0.0, 0.3, 0.3, 0.3, 0.3, 0.3], policy="freeze") for i in range(3)]
    found = {f.name: f for f in progress.progress_figures(rows, LOGIT)}
    assert found["MAE, failures"].estimate.value < 0.01
    assert found["CCC, failures"].estimate.value > 0.99
    assert found["MAE, failures"].baselines["linear time"] > 0.2
    assert found["MAE, failures"].mark == "pass"


def test_policies_are_ordered_by_their_means():
    rng = np.random.default_rng(1)
    policies = np.repeat(np.arange(5.0), 7)
    true = policies + rng.normal(0, 0.1, 35)
    judged = np.array([3.0, 1, 2, 5, 4])[policies.astype(int)] + rng.normal(0, 0.1, 35)
    means = [[v[policies == p].mean() for p in range(5)] for v in (judged, true)]
    assert progress.policy_rho(judged, true, policies) == pytest.approx(spearmanr(*means).statistic)


def test_planted_disturbances_are_named_from_the_potential():
    still = [0.0, 0.2, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4]
    back = [0.1, 0.4, 0.7, 0.9, 1.0, 1.0, 0.9, 0.5, 0.3, 0.2]
    short = [0.1, 0.4, 0.7, 0.85, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9]
    rows = [
        scored(f"{policy}{i}", curve, policy=policy)
        for policy, curve in (("freeze", still), ("undo", back), ("short:4", short))
        for i in range(3)
    ]
    found = {f.name: f for f in progress.failure_mode_figures(rows, LOGIT)}
    assert found["cells named right from the potential"].estimate.value == 1.0
    assert found["cells named right from the potential"].estimate.n == 3
    assert found["episodes named right from the judge"].estimate.n == 9


def test_subgoals_are_averaged_over_subgoals_and_the_worst_is_named():
    rng = np.random.default_rng(2)
    rows = []
    for i in range(30):
        truth = rng.integers(0, 2, 6).astype(float)
        good = Statement(np.where(truth > 0.5, 1.0, -1.0), truth)
        poor = Statement(rng.normal(size=6), truth)
        rows.append(scored(f"e{i}", rising(6), subgoals={"good": good, "poor": poor}))
    found = {f.name: f for f in subgoals.subgoal_figures(rows)}
    judged = np.concatenate([r.subgoals["poor"].margins for r in rows]) > 0
    truth = np.concatenate([r.subgoals["poor"].truth for r in rows])
    poor = balanced_accuracy_score(truth, judged)
    assert found["balanced accuracy, worst subgoal"].estimate.value == pytest.approx(poor)
    assert found["balanced accuracy, mean of subgoals"].estimate.value == pytest.approx((1 + poor) / 2)


def test_a_subgoal_that_the_main_camera_does_not_show_is_judged_better_with_two():
    rng = np.random.default_rng(3)
    rows = []
    for i in range(24):
        truth = rng.integers(0, 2, 6).astype(float)
        sure = Statement(np.where(truth > 0.5, 4.0, -4.0), truth)
        blind = Statement(rng.normal(0, 1, 6), truth)
        rows.append(scored(f"e{i}", rising(6), subgoals={"it is in": blind}))
        rows.append(scored(f"e{i}", rising(6), variant="left", subgoals={"it is in": sure}))
    found = {f.name: f.estimate.value for f in subgoals.hidden_figures(rows)}
    label = "balanced accuracy, subgoals that the main camera shows worst, "
    assert found[label + "by both"] > found[label + "by it alone"] + 0.2


def test_as_many_pairs_fall_as_rise_so_that_a_clock_scores_one_half():
    shapes = [[0.0, 0.05, 0.3, 0.9, 0.84, 0.7, 0.4], [0.0, 0.05, 0.3, 0.5, 0.6, 0.9, 1.0]]
    rows = [scored(f"e{i}", shapes[i % 2]) for i in range(24)]
    clock = [Scored(**{**vars(r), "own": Statement(np.arange(7.0), r.own.truth)}) for r in rows]
    for figure in pair_order.pair_figures(clock):
        assert figure.estimate.value == pytest.approx(0.5)
    for figure in pair_order.pair_figures(rows):
        total, up = (int(part.split()[0]) for part in figure.note.split(", "))
        assert figure.estimate.value == 1.0
        assert total == 2 * up > 0


def test_a_frozen_video_that_drifts_shows_in_its_change_and_not_in_its_gain():
    rows = [scored(f"e{i}", rising()) for i in range(6)]
    rows += [scored(f"e{i}", [0.1, 0.1], [0, (-1) ** i * 0.4], variant="frozen") for i in range(6)]
    found = {f.name: f for f in controls.rise_figures(rows)}
    assert found["gain of P(True), frozen at the first frame"].mark == "pass"
    assert found["absolute change of P(True), frozen at the first frame"].mark == "short"
    assert found["VOC over 12 prefixes"].estimate.value == pytest.approx(1.0)


def test_the_opposite_instruction_is_that_of_the_task_that_undoes_it():
    opposite = variants.opposite_instructions()
    assert opposite["drawer-open"] == "close the drawer"
    assert opposite["faucet-open"] == "turn the faucet handle to the left"
    assert "push" not in opposite
    rows = [
        scored("a", rising(), others={"close the drawer": -4.0, "open the door": 0.0}),
        scored("b", rising(), others={"close the drawer": 9.0, "open the door": 0.0}),
    ]
    found = {f.name: f.estimate.value for f in controls.instruction_figures(rows)}
    assert found["the right one beats all 2 others, successes"] == 0.5
    turned = 1 / (1 + np.exp(-np.array([-4.0, 9.0])))
    name = "P(True) of the opposite task in the same scene, successes"
    assert found[name] == pytest.approx(turned.mean())


def test_thinned_prefixes_keep_the_first_and_the_last():
    assert controls.thinned(np.arange(40.0)).tolist()[::11] == [0.0, 39.0]
    assert len(controls.thinned(np.arange(5.0))) == 5


def test_every_trained_task_has_wordings_that_were_never_trained():
    assert set(PARAPHRASES) >= set(lists.TRAINED)
    for task in lists.TRAINED:
        assert len(unseen(task)) >= 3
        assert not set(map(str.lower, unseen(task))) & trained_wordings()
        assert held_out_wording(all_tasks()[task].instruction)


def test_rows_come_back_from_their_file_and_a_torn_line_is_dropped(tmp_path: Path):
    row = scored("a", rising(), subgoals={"s": Statement(np.zeros(2), np.array([1, np.nan]))})
    path = tmp_path / "scores.jsonl"
    write_rows(path, [row, row])
    with path.open("a") as file:
        file.write('{"id": "torn')
    back = read_rows(path)
    assert len(back) == 2
    np.testing.assert_allclose(back[0].own.margins, row.own.margins, atol=1e-6)
    np.testing.assert_array_equal(back[0].subgoals["s"].truth, [1, np.nan])


def test_figures_are_marked_against_their_target_and_written_without_nan(tmp_path: Path):
    half = Estimate(0.5, math.nan, math.nan, 3, 3, 1.0, "")
    none = Estimate(math.nan, math.nan, math.nan, 0, 0, math.nan, "")
    rows = [
        figures.Figure("g", "low", half, 0.4, at_most=True, baselines={"constant": math.nan}),
        figures.Figure("g", "high", half, 0.4),
        figures.Figure("g", "none", none, 0.4),
        figures.Figure("g", "free", half),
    ]
    assert [row.mark for row in rows] == ["short", "pass", "unknown", ""]
    figures.write_json(tmp_path / "f.json", rows, {"seed": 1})
    read = json.loads((tmp_path / "f.json").read_text(), parse_constant=pytest.fail)
    assert read["figures"][0]["baselines"] == {"constant": None}
    assert "| low | 0.500 | 3 | ≤ 0.4 | short | – |" in figures.markdown(rows)
