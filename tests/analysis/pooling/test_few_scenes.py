"""A few scenes with several trials each: numbers speak of these scenes, and everything that shows them says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.analysis import (
    GroupComparison,
    failure_modes_by_policy,
    measure_episodes,
    opening_sentences,
    subgoal_funnels,
    subgoal_tables,
)
from stepscore.analysis.pooling import fixed_in_both, fixed_scenes, other_scenes_note, scope_text
from stepscore.analysis.tables import comparison_tables, subgoal_detail_tables, subgoal_matrices
from stepscore.cli.results import compare as compare_command
from stepscore.cli.results import metrics as metrics_command
from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.stats import estimate_within_scenes, mean_estimate, wilson_interval
from stepscore.metrics.stats.intervals import robust_t_interval
from stepscore.metrics.stats.sample import draw_sample, mean_of
from stepscore.report import page_data
from stepscore.runs import Run
from tests.analysis.pooling.few_scenes import FOUR, SIX, THREE, Counts, tried

Record = dict[str, Any]

OTHERS = (
    "Intervals and tests speak of these 4 scenes and of no others. To speak of other scenes, try 10 or more: "
    "further trials in the same scenes do not show how scenes differ."
)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return tried(tmp_path_factory.mktemp("four") / "run", FOUR)


def compared(run: Run, metric: str = "success_label", **options: Any) -> GroupComparison:
    return stepscore.compare(run, metrics=[metric], **options)[0]


def opened(run: Run, **options: Any) -> tuple[str, ...]:
    return opening_sentences(measure_episodes(run, **options)).sentences


class TestDecided:
    def test_twelve_of_twelve_against_one_of_twelve_on_four_scenes(self, four: Run) -> None:
        row = compared(four).to_dict()
        assert row["a"] == {"policy": "random"}
        assert row["p_value"] == pytest.approx(8 / 20**4)
        assert (row["difference"], row["fixed_scenes"]) == (pytest.approx(-11 / 12), 4)
        assert (row["lo"], row["hi"]) == (pytest.approx(-0.987, abs=1e-3), pytest.approx(-0.569, abs=1e-3))
        assert row["method"] == "stratified score 95% on these 4 scenes"
        assert opened(four) == ("scripted succeeds more often than random on these 4 scenes.",)
        assert opening_sentences(measure_episodes(four)).notes == (OTHERS,)

    def test_fifty_six_of_sixty_against_six_of_sixty_on_three_scenes(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", THREE)
        found = compared(run).comparison
        assert found.p_value < 1e-20
        assert (found.difference.lo, found.difference.hi) == pytest.approx((0.709, 0.908), abs=1e-3)
        assert opened(run) == ("a succeeds more often than b on these 3 scenes.",)

    def test_six_scenes_of_three_trials_have_an_interval_that_agrees_with_p(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", SIX)
        for metric in ("success_label", "MP"):
            found = compared(run, metric).comparison
            assert found.p_value < 0.05
            assert found.difference.hi < 0
        assert opened(run) == ("b succeeds more often than a on these 6 scenes.",)

    def test_progress_is_compared_within_scenes_too(self, four: Run) -> None:
        found = compared(four, "MP").comparison
        assert "permutation within scenes" in found.test
        assert found.difference.method == "permutation and bootstrap-t 95% on these 4 scenes"
        assert found.p_value < 0.01


def test_a_null_with_strong_scene_effects_stays_undecided(tmp_path: Path) -> None:
    run = tried(tmp_path / "run", {policy: [(3, 3), (3, 3), (0, 3), (0, 3)] for policy in "ab"})
    found = compared(run).comparison
    assert (found.p_value, found.difference.value) == (1.0, 0.0)
    assert found.difference.lo < 0 < found.difference.hi
    opening = opening_sentences(measure_episodes(run))
    assert opening.sentences == ("a and b cannot be told apart with 12 rollouts each on these 4 scenes.",)
    could = 100 * found.smallest_detectable_difference
    assert (
        opening.notes[0] == f"A difference of success under about {could:.0f} points would mostly not show."
    )


def test_too_few_is_what_the_test_in_use_cannot_show(tmp_path: Path) -> None:
    # One scene: of 20 ways to deal out the names two give 3 of 3 against 0 of 3.
    run = tried(tmp_path / "run", {"a": [(3, 3)], "b": [(0, 3)]})
    found = compared(run).comparison
    assert found.p_value == pytest.approx(found.least_p_value)
    assert found.least_p_value == pytest.approx(0.1)
    assert math.isnan(found.smallest_detectable_difference)
    assert opened(run) == (
        "a and b cannot be told apart on this scene: "
        "3 rollouts each are too few to show any difference, however large.",
    )


class TestRates:
    def test_a_rate_on_these_scenes_has_the_interval_of_all_its_trials(self, four: Run) -> None:
        rows = {(r.group["policy"], r.metric): r for r in stepscore.measure(four)}
        row = rows["random", "success_label"]
        assert (row.estimate.lo, row.estimate.hi) == pytest.approx(wilson_interval(1, 12))
        assert row.estimate.method == "wilson 95% on these 4 scenes"
        assert row.to_dict()["fixed_scenes"] == 4
        progress = rows["random", "MP"].estimate
        assert progress.lo < progress.value < progress.hi
        assert progress.method.startswith("bootstrap-t 95%")
        assert progress.method.endswith("in 0..1 on these 4 scenes")
        order = rows["random", "VOC"].estimate
        assert order.method == "BCa bootstrap and t 95% on these 4 scenes"

    def test_scenes_count_by_their_trials(self) -> None:
        found = estimate_within_scenes([1, 1, 1, 1, 0, 0], scenes="xxxxyy")
        assert found.value == pytest.approx(4 / 6)
        assert (found.lo, found.hi) == pytest.approx(wilson_interval(4, 6))

    def test_among_failures_the_scenes_of_the_policy_decide(self, four: Run) -> None:
        rows = {(r.group["policy"], r.metric): r for r in stepscore.measure(four)}
        failed = rows["random", "PPL|failure:label"]
        assert failed.fixed_scenes == 4
        assert failed.estimate.method.endswith("on these 4 scenes")
        modes = failure_modes_by_policy(measure_episodes(four)).policies[0]
        assert all("on these" in e.method for e in modes.shares.values())

    def test_one_policy_is_introduced_with_its_scenes(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", {"a": [(3, 3), (2, 3), (3, 3), (3, 3)]})
        opening = opening_sentences(measure_episodes(run))
        assert opening.sentences == (
            "a succeeds in 11 of 12 rollouts on these 4 scenes (95 % interval 65 to 99 %).",
        )
        assert opening.notes == (OTHERS,)

    def test_subgoals_are_of_these_scenes_too(self, tmp_path: Path) -> None:
        def with_subgoal(number: int, record: Record) -> None:
            goal = {"name": "grasp", "criterion": None, "mode": "ever", "view": None, "reviewed": True}
            record["episode"]["subgoals"] = [{**goal, "label": number % 2 == 0}]

        run = tried(tmp_path / "run", FOUR, change=with_subgoal)
        tables = subgoal_tables(run)
        assert {table.fixed_scenes for table in tables} == {4}
        assert {row.fixed_scenes for table in tables for row in table.estimates()} == {4}
        assert tables[0].reached[0].method == "wilson 95% on these 4 scenes"
        for printed in (subgoal_matrices(tables)[0], subgoal_detail_tables(tables)[0]):
            assert printed.title.endswith("on these 4 scenes")
            assert OTHERS in printed.notes
        assert subgoal_funnels(run, measure_episodes(run))[0].reached[0].method.endswith("these 4 scenes")
        assert math.isnan(subgoal_tables(run, scenes="sample")[0].reached[0].lo)


class TestChoice:
    def test_as_a_sample_four_scenes_show_nothing_and_no_difference_could_show(self, four: Run) -> None:
        row = compared(four, scenes="sample")
        assert row.to_dict()["fixed_scenes"] == 0
        assert row.comparison.difference.method == "too few episodes (4 < 5)"
        assert row.comparison.least_p_value == pytest.approx(1 / 8)
        assert math.isnan(row.comparison.smallest_detectable_difference)
        rates = stepscore.measure(four, metrics=["success_label"], scenes="sample")
        assert {r.estimate.method for r in rates} == {"too few clusters (4 < 10)"}

    def test_ten_scenes_are_a_sample_unless_they_are_fixed(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", {"a": [(2, 2)] * 5 + [(1, 2)] * 5, "b": [(1, 2)] * 5 + [(0, 2)] * 5})
        assert compared(run).comparison.scenes == 0
        assert compared(run).comparison.paired
        assert opened(run) == ("a succeeds more often than b.",)
        fixed = compared(run, scenes="fixed").comparison
        assert (fixed.scenes, fixed.test) == (10, "exact permutation within scenes")
        assert opened(run, scenes="fixed") == ("a succeeds more often than b on these 10 scenes.",)

    def test_scenes_that_were_tried_once_are_a_sample(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", {"a": [(1, 1)] * 8, "b": [(0, 1)] * 8})
        found = compared(run).comparison
        assert (found.scenes, found.paired, found.test) == (0, True, "McNemar exact")

    def test_scenes_of_one_policy_only_are_compared_as_before(self, tmp_path: Path) -> None:
        def apart(number: int, record: Record) -> None:
            record["episode"]["pair"] = f"{record['episode']['policy']} {record['episode']['pair']}"

        run = tried(tmp_path / "run", FOUR, change=apart)
        assert compared(run).comparison.scenes == 0
        assert {row.fixed_scenes for row in stepscore.measure(run, metrics=["MP"])} == {4}

    def test_fixed_scenes_need_scenes(self, tmp_path: Path) -> None:
        def unknown(number: int, record: Record) -> None:
            record["episode"]["pair"] = None

        run = tried(tmp_path / "run", FOUR, change=unknown)
        assert {row.fixed_scenes for row in stepscore.measure(run, metrics=["MP"])} == {0}
        with pytest.raises(OptionError, match="no episode here states its scene"):
            stepscore.measure(run, scenes="fixed")
        with pytest.raises(UnknownNameError, match="choice of scenes"):
            stepscore.measure(run, scenes="few")  # type: ignore[arg-type]

    def test_two_judges_are_paired_on_the_episode_within_these_scenes(
        self, four: Run, tmp_path: Path
    ) -> None:
        def lower(number: int, record: Record) -> None:
            curve = record["judgement"]["curve"]
            curve["progress"] = [p * (0.9 - number % 3 / 100) for p in curve["progress"]]

        other = tried(tmp_path / "run", FOUR, change=lower, judge="other")
        (row,) = stepscore.compare([four, other], by="judge", metrics=["MP"])
        assert (row.comparison.paired, row.comparison.n_a, row.comparison.scenes) == (True, 24, 4)
        assert row.comparison.difference.lo < row.comparison.difference.hi < 0.2
        assert row.comparison.difference.method.endswith("on these 4 scenes")

    def test_how_right_the_judge_is_speaks_of_scenes_like_these(self, four: Run) -> None:
        metrics = measure_episodes(four)
        everyone = np.ones(len(metrics), dtype=bool)
        assert metrics.estimate("MP", everyone).method.endswith("on these 4 scenes")
        assert metrics.of_the_judge().estimate("MP", everyone).method == "too few clusters (4 < 10)"

    def test_the_rule_counts_scenes_and_trials(self) -> None:
        assert fixed_scenes("auto", ["x", "x", "y"]) == 2
        assert fixed_scenes("auto", ["x", "x", None]) == 1
        assert fixed_scenes("auto", ["x", "y", None]) == 0
        assert fixed_scenes("auto", ["x", "x"], ["a", "b"]) == 0
        assert fixed_scenes("auto", [*range(10), 9]) == 0
        assert fixed_scenes("auto", ["x", "x", *[None] * 9]) == 0
        assert fixed_scenes("fixed", [*range(12)]) == 12
        assert fixed_in_both("auto", ["x", "x", "y"], ["x", "y"]) == 2
        assert fixed_in_both("auto", ["x", "y"], ["x", "y"]) == 0
        assert fixed_in_both("auto", ["x", "x", "y", "z"], ["x", "u", "v"]) == 0
        assert fixed_in_both("fixed", ["x", "x", "y", "z"], ["x", "u", "v"]) == 1

    def test_what_is_said_of_several_numbers_of_scenes(self) -> None:
        assert scope_text([4, 4]) == "on these 4 scenes"
        assert scope_text([4, 3]) == "on these scenes"
        assert scope_text([4, 0]) == ""
        assert other_scenes_note(1).startswith("Intervals and tests speak of this scene and of no others.")
        assert other_scenes_note(12).endswith("To speak of scenes like them, choose --scenes sample.")


def test_policies_with_other_scenes_of_their_own_are_named_with_those_they_share(tmp_path: Path) -> None:
    run = tried(tmp_path / "run", {"a": [(3, 3)] * 12, "b": [(0, 1)] * 12, "c": [(0, 3)] * 4})
    opening = opening_sentences(measure_episodes(run))
    assert opening.sentences[0] == "a succeeds more often than b and c."
    assert opening.notes[-1] == f"Compared on the scenes that both met: a and c; b and c. {OTHERS}"
    (table,) = stepscore.measure(run).printed()
    assert "on these" not in table.title
    assert any(note.startswith("c on these 4 scenes: Intervals and tests") for note in table.notes)


class TestShown:
    def test_tables_say_it_in_title_and_notes(self, four: Run, capsys: pytest.CaptureFixture[str]) -> None:
        commands: tuple[Callable[..., None], ...] = (compare_command.compare, metrics_command.metrics)
        for command in commands:
            command([four.path])
            text = " ".join(capsys.readouterr().out.split())
            assert ") on these 4 scenes" in text
            assert OTHERS in text
            command([four.path], scenes="sample")
            assert "these 4 scenes" not in capsys.readouterr().out

    def test_a_table_of_pairs_says_it_of_each(self, tmp_path: Path) -> None:
        run = tried(tmp_path / "run", {"a": [(3, 3)] * 12, "b": [(0, 1)] * 12, "c": [(0, 3)] * 4})
        titles = [table.title for table in comparison_tables(stepscore.compare(run, metrics=["MP"]))]
        assert ["on these 4 scenes" in title for title in titles] == [False, True, True]

    @pytest.mark.parametrize("kind", ["leaderboard", "differences"])
    def test_figures_say_it(self, four: Run, kind: str) -> None:
        for scenes, says in (("auto", True), ("sample", False)):
            figure = stepscore.draw(four, kind, scenes=scenes, metrics=["success_label"])  # type: ignore[arg-type]
            assert ("on these 4 scenes" in " ".join(figure.get_supxlabel().split())) == says

    def test_the_page_says_it(self, four: Run) -> None:
        (board,) = page_data([four])["boards"]
        assert board["findings"]["opening"]["sentences"] == [
            "scripted succeeds more often than random on these 4 scenes."
        ]
        assert board["findings"]["opening"]["notes"] == [OTHERS]
        assert board["scope"] == "on these 4 scenes"
        (board,) = page_data([four], scenes="sample")["boards"]
        assert board["scope"] == ""


class TestCopies:
    def test_trials_with_one_recording_count_once(self, tmp_path: Path) -> None:
        def same(number: int, record: Record) -> None:
            episode = record["episode"]
            # Every scene was recorded once, and three times over.
            episode["fingerprint"] = f"{episode['policy']} {episode['pair']} {episode['success']}"

        run = tried(tmp_path / "run", FOUR, change=same)
        metrics = measure_episodes(run)
        assert len(metrics) == 9
        assert metrics.notes[0] == (
            "15 trials are copies of others of the same policy in the same scene and do not count: "
            "a copy shows nothing new."
        )
        rows = stepscore.measure(run, metrics=["MP"])
        known = {row.group["policy"]: row.estimate.n for row in rows if row.metric == "MP"}
        assert known == {"random": 5, "scripted": 4}
        # Every trial is still listed.
        assert page_data([run])["episodes"]["n"] == 24

    def test_trials_with_one_curve_count_once_though_files_differ(self, tmp_path: Path) -> None:
        curves: dict[str, list[float]] = {}

        def same(number: int, record: Record) -> None:
            episode, curve = record["episode"], record["judgement"]["curve"]
            episode["n_frames"] = 50
            curve["time_s"] = [i / 2 for i in range(10)]
            name = f"{episode['policy']} {episode['pair']} {episode['success']}"
            curve["progress"] = curves.setdefault(name, curve["progress"])

        assert len(measure_episodes(tried(tmp_path / "run", FOUR, change=same))) == 9

    def test_a_judge_that_only_sees_the_length_makes_no_copies(self, tmp_path: Path) -> None:
        def clock(number: int, record: Record) -> None:
            record["episode"]["n_frames"] = 50
            curve = record["judgement"]["curve"]
            curve["time_s"] = [i / 2 for i in range(10)]
            curve["progress"] = [i / 9 for i in range(10)]

        assert len(measure_episodes(tried(tmp_path / "run", FOUR, change=clock))) == 24

    def test_answers_in_whole_percent_make_no_copies(self, tmp_path: Path) -> None:
        def coarse(number: int, record: Record) -> None:
            record["episode"]["n_frames"] = 50
            curve = record["judgement"]["curve"]
            curve["time_s"] = [i / 2 for i in range(10)]
            top = 9 if record["episode"]["success"] else 3
            curve["progress"] = [i * top / 90 for i in range(10)]
            curve["progress"] = [round(p, 2) for p in curve["progress"]]

        assert len(measure_episodes(tried(tmp_path / "run", FOUR, change=coarse))) == 24

    def test_a_copy_in_another_scene_or_of_another_policy_counts(self, tmp_path: Path) -> None:
        counts: Counts = {"a": [(1, 1)] * 3, "b": [(1, 1)] * 3}

        def same(number: int, record: Record) -> None:
            record["episode"]["fingerprint"] = "one"

        assert len(measure_episodes(tried(tmp_path / "run", counts, change=same))) == 6

    def test_labels_that_differ_are_of_two_trials(self, tmp_path: Path) -> None:
        def same(number: int, record: Record) -> None:
            record["episode"]["fingerprint"] = record["episode"]["pair"]

        run = tried(tmp_path / "run", {"a": [(1, 3)] * 4}, change=same)
        assert len(measure_episodes(run)) == 8


def test_the_interval_of_a_mean_is_the_hull_of_bootstrap_and_t() -> None:
    values, scenes = [0.1, 0.9, 0.5, 0.6, 0.2, 0.3, 0.8, 0.9], "wwxxyyzz"
    found = estimate_within_scenes(values, scenes=scenes)
    bca = mean_estimate(values, strata=list(scenes))
    lo, hi = robust_t_interval(mean_of(draw_sample(values, strata=list(scenes))), 0.95)
    assert (found.lo, found.hi) == (min(bca.lo, lo), max(bca.hi, hi))
    assert replace(found, lo=bca.lo, hi=bca.hi, method=bca.method) == bca
