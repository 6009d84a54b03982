"""AUC within tasks and at equal lengths, on planted scores."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.analysis import measure_baselines, measure_episodes
from stepscore.analysis.auc import auc_estimate, auc_influence, auc_within_tasks
from stepscore.analysis.ranking import finer_ranking, length_matched_scores, score_ranking
from stepscore.metrics import roc_auc
from stepscore.metrics.stats import bootstrap, statistic_estimate
from stepscore.metrics.stats.sample import draw_sample
from tests.report.made_runs import write_run

RNG = np.random.default_rng(3)
Record = dict[str, Any]


def naive_within(scores: Any, labels: Any, tasks: Any) -> float:
    won = []
    for i, j in product(range(len(scores)), repeat=2):
        if tasks[i] == tasks[j] and labels[i] == 1 and labels[j] == 0:
            won.append(1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0)
    return float(np.mean(won)) if won else np.nan


class TestAuc:
    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_the_share_of_pairs_won(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        scores = np.round(rng.normal(size=40), 1)
        labels, tasks = (rng.uniform(size=40) < 0.4).astype(float), rng.integers(0, 4, 40).tolist()
        scenes = [None] * 40
        within = auc_estimate(scores, labels, tasks=tasks, scenes=scenes, within_tasks=True)
        assert within.value == pytest.approx(naive_within(scores, labels, tasks))
        pooled = auc_estimate(scores, labels, tasks=tasks, scenes=scenes)
        assert pooled.value == pytest.approx(roc_auc(scores, labels))

    def test_knowing_the_easy_tasks_is_no_skill_within_tasks(self) -> None:
        tasks = ["easy"] * 50 + ["hard"] * 50
        labels = np.r_[RNG.uniform(size=50) < 0.9, RNG.uniform(size=50) < 0.1].astype(float)
        scores = np.r_[np.full(50, 0.8), np.full(50, 0.2)]
        scenes = [None] * 100
        assert auc_estimate(scores, labels, tasks=tasks, scenes=scenes).value > 0.8
        assert auc_estimate(scores, labels, tasks=tasks, scenes=scenes, within_tasks=True).value == 0.5

    def test_unknown_scores_count_against_coverage_and_infinite_ones_are_ranked(self) -> None:
        scores = np.array([-np.inf, 0.1, np.nan, 0.9, np.inf, 0.5])
        found = auc_estimate(scores, np.array([0, 0, 1, 1, 1, 0.0]), tasks=["t"] * 6, scenes=[None] * 6)
        assert (found.value, found.n, found.coverage) == (1.0, 5, 5 / 6)

    def test_episodes_of_one_scene_are_resampled_together(self) -> None:
        # Twelve scenes, each ten times the same: the ten tell no more than one.
        scores = np.repeat(RNG.normal(size=12), 10)
        labels = np.repeat(np.tile([0.0, 1.0], 6), 10)
        tasks = ["t"] * 120
        alone = auc_estimate(scores, labels, tasks=tasks, scenes=[None] * 120)
        scenes = np.repeat(np.arange(12), 10).tolist()
        clustered = auc_estimate(scores, labels, tasks=tasks, scenes=scenes)
        assert clustered.clusters == 12
        assert clustered.hi - clustered.lo > 2 * (alone.hi - alone.lo)


class TestTasksOfOneScene:
    """Each task was run in one scene: a scene drawn twice is two tasks, not one with four times the pairs."""

    SCORES = np.array([0.1, 0.4, 0.2, 0.3, 0.2, 0.5, 0.1, 0.2])
    LABELS = np.array([0, 1, 0, 1, 1, 0, 0, 1.0])
    TASKS = np.repeat([0.0, 1.0], 4)

    def test_a_scene_drawn_twice_counts_as_two_tasks(self) -> None:
        twice = np.r_[0:4, 0:8]
        whole = np.full(8, 4.0)
        found = auc_within_tasks(self.SCORES[twice], self.LABELS[twice], self.TASKS[twice], whole[twice])
        apart = np.r_[np.zeros(4), np.ones(4), np.full(4, 2.0)]
        tasks = np.r_[apart[:8], np.full(4, 2.0)]
        assert found == naive_within(self.SCORES[twice], self.LABELS[twice], tasks.tolist())
        assert found != auc_within_tasks(self.SCORES[twice], self.LABELS[twice], self.TASKS[twice])

    def test_the_influence_is_the_derivative_by_the_weight_of_the_scene(self) -> None:
        whole = np.full(8, 4.0)
        found = auc_influence(self.SCORES, self.LABELS, self.TASKS, whole)
        pairs = np.array([4.0, 4.0])
        won = np.array([4.0, 2.0])
        for task in (0, 1):
            up, down = (won @ w / (pairs @ w) for w in (np.eye(2)[task] * step + 1 for step in (1e-5, -1e-5)))
            assert found[task == self.TASKS].sum() == pytest.approx((up - down) / 2e-5, abs=1e-6)

    def test_the_interval_is_as_narrow_as_its_scenes_say(self) -> None:
        rng = np.random.default_rng(5)
        tasks = np.repeat(np.arange(20), 6).tolist()
        labels = (rng.uniform(size=120) < rng.beta(2, 2, 20).repeat(6)).astype(float)
        scores = 1.5 * labels + rng.normal(size=120)
        found = auc_estimate(scores, labels, tasks=tasks, scenes=tasks, within_tasks=True)
        columns = (np.argsort(np.argsort(scores)) / 240, labels, np.array(tasks, dtype=float))
        former = statistic_estimate(auc_within_tasks, columns, clusters=tasks, strata=tasks)
        assert former.value == pytest.approx(found.value)
        assert found.hi - found.lo < 0.8 * (former.hi - former.lo)

    def test_two_scenes_a_task_are_drawn_as_one(self) -> None:
        """Of two scenes the bootknife draws one twice, never a pair of both."""
        rng = np.random.default_rng(7)
        tasks = np.repeat(np.arange(12), 8)
        scenes, labels = (np.arange(96) // 4).tolist(), (rng.random(96) < 0.5).astype(float)
        scores = 1.5 * labels + rng.normal(size=24)[scenes] + rng.normal(size=96)
        found = auc_estimate(scores, labels, tasks=tasks.tolist(), scenes=scenes, within_tasks=True)
        whole = auc_estimate(scores, labels, tasks=tasks.tolist(), scenes=tasks.tolist(), within_tasks=True)
        assert found == whole
        assert found.clusters == 12
        few = tasks < 5
        none = auc_estimate(
            scores[few], labels[few], tasks=tasks[few].tolist(), scenes=scenes[: few.sum()], within_tasks=True
        )
        assert none.method == "too few clusters (5 < 10)"

    def test_several_scenes_a_task_or_none_are_drawn_as_ever(self) -> None:
        rng = np.random.default_rng(6)
        scores, labels = rng.normal(size=60), np.tile([0.0, 1.0], 30)
        tasks, columns = np.repeat([0, 1], 30), (np.argsort(np.argsort(scores)) / 120, labels)
        for scenes in ((np.arange(60) // 3).tolist(), [None] * 60):
            found = auc_estimate(scores, labels, tasks=tasks.tolist(), scenes=scenes, within_tasks=True)
            plain = (*columns, tasks.astype(float))
            former = statistic_estimate(auc_within_tasks, plain, clusters=scenes, strata=tasks)
            assert (found.lo, found.hi) == (former.lo, former.hi)


class TestScoreThatDecides:
    def test_a_calibrated_judge_is_ranked_by_its_probability_and_by_its_score(self, tmp_path: Path) -> None:
        def calibrated(number: int, record: Record) -> None:
            record["episode"] |= {"task": "t", "success": number % 2 == 0, "pair": None}
            record["judgement"] |= {
                "success_score": 0.5 + (number % 3) / 10,
                "success_probability": 0.9 if number % 2 == 0 else 0.2,
                "success_calibrated": True,
            }

        metrics = measure_episodes(write_run(tmp_path / "run", 12, judge="other", change=calibrated))
        ranked = {row.metric: row.estimate.value for row in score_ranking("other", metrics, {})}
        assert list(ranked)[:2] == ["judge:AUC of success probability", "judge:AUC of success score"]
        assert ranked["judge:AUC of success probability"] == 1.0
        assert ranked["judge:AUC of success score"] == 0.5

    def test_an_uncalibrated_judge_has_no_probability(self, tmp_path: Path) -> None:
        metrics = measure_episodes(write_run(tmp_path / "run", 12, judge="other"))
        assert not any("probability" in row.metric for row in score_ranking("other", metrics, {}))


def naive_weighted_auc(scores: Any, labels: Any, tasks: Any, weights: Any) -> float:
    won = pairs = 0.0
    for i, j in product(range(len(scores)), repeat=2):
        if tasks[i] == tasks[j] and labels[i] == 1 and labels[j] == 0:
            pairs += weights[i] * weights[j]
            won += weights[i] * weights[j] * (0.5 * (scores[i] >= scores[j]) + 0.5 * (scores[i] > scores[j]))
    return won / pairs


class TestAucOfManyEpisodes:
    @pytest.mark.parametrize("n_tasks", [1, 3])
    def test_the_influence_of_an_episode_is_the_derivative_by_its_weight(self, n_tasks: int) -> None:
        rng = np.random.default_rng(4)
        scores, labels = rng.integers(0, 9, 30) / 16, (rng.uniform(size=30) < 0.4).astype(float)
        tasks = np.sort(rng.integers(0, n_tasks, 30)).astype(float)
        found = auc_influence(scores, labels, tasks)
        for i in range(30):
            step = 1e-4 * (np.arange(30) == i)
            up, down = (naive_weighted_auc(scores, labels, tasks, 1 + s) for s in (step, -step))
            assert found[i] == pytest.approx((up - down) / 2e-4, abs=1e-8)

    @pytest.mark.parametrize("within_tasks", [True, False])
    def test_the_error_is_that_of_its_resamples(self, within_tasks: bool) -> None:
        rng = np.random.default_rng(7)
        scene = np.arange(6_000) // 3
        labels = (rng.uniform(size=6_000) < 0.4).astype(float)
        scores = np.round(rng.normal(size=6_000) + labels + rng.normal(size=2_000)[scene], 1)
        tasks, codes = [f"t{s % 3}" for s in scene], (scene % 3 if within_tasks else 0 * scene)
        found = auc_estimate(scores, labels, tasks=tasks, scenes=scene.tolist(), within_tasks=within_tasks)
        ranks = np.unique(scores, return_inverse=True)[1] / 1_000
        sample = draw_sample(ranks, labels, codes.astype(float), clusters=scene.tolist(), strata=tasks)
        drawn = bootstrap.statistic_replicates(auc_within_tasks, sample, 600, seed=1)
        assert found.method == "linearised t 95% (no resampling)"
        # The standard deviation of 600 draws has an error of 2.9 %.
        assert (found.hi - found.lo) / 2 / 1.961 == pytest.approx(np.std(drawn, ddof=1), rel=0.1)

    def test_a_score_that_ranks_all_or_nothing_does_not_vary(self) -> None:
        labels, tasks, scenes = np.tile([0.0, 1.0], 3_000), ["t"] * 6_000, [None] * 6_000
        for scores, value in ((labels, 1.0), (np.zeros(6_000), 0.5)):
            found = auc_estimate(scores, labels, tasks=tasks, scenes=scenes)
            assert (found.value, found.method) == (value, "no variation")


def lengths(number: int, record: Record) -> None:
    """Successes end after 3 to 5 s, failures after 10 s; the judge's progress is the seconds that have passed."""
    success = number % 2 == 0
    seconds = 3 + number % 5 * 0.5 if success else 10.0
    times = np.arange(0, seconds, 0.1)
    record["episode"] |= {
        "task": "t",
        "success": success,
        "success_mode": "ever",
        "pair": str(number),
        "n_frames": len(times),
        "fps": 10.0,
        "duration_s": len(times) / 10,
    }
    curve = record["judgement"]["curve"]
    curve |= {"time_s": times.tolist(), "progress": (1 - times / 10).tolist()}


class TestLengthMatched:
    def test_a_judge_that_reads_the_clock_has_no_skill_at_equal_lengths(self, tmp_path: Path) -> None:
        metrics = measure_episodes(write_run(tmp_path / "run", 40, judge="other", change=lengths))
        pooled = {row.metric: row.estimate for row in score_ranking("other", metrics, {})}
        finer = {row.metric: row.estimate for row in finer_ranking("other", metrics, {})}
        assert pooled["judge:AUC of last progress"].value == 1.0
        matched = finer["judge:AUC of last progress, length-matched"]
        assert (matched.value, matched.n, matched.coverage) == (0.5, 40, 1.0)
        assert list(finer) == ["judge:AUC of last progress, length-matched"]  # one task

    def test_a_failure_has_the_score_that_it_had_at_that_length(self, tmp_path: Path) -> None:
        metrics = measure_episodes(write_run(tmp_path / "run", 10, judge="other", change=lengths))
        found = length_matched_scores(metrics, "other")
        succeeded = metrics.values["success_label"] == 1
        assert sorted(found[succeeded]) == pytest.approx(sorted(found[~succeeded]))

    def test_a_failure_of_which_only_the_end_is_known_is_not_cut(self, tmp_path: Path) -> None:
        def at_the_end(number: int, record: Record) -> None:
            lengths(number, record)
            record["episode"]["success_mode"] = "holds"

        metrics = measure_episodes(write_run(tmp_path / "run", 10, judge="other", change=at_the_end))
        assert np.isnan(length_matched_scores(metrics, "other")).all()

    def test_the_potential_says_when_a_failure_had_failed(self, tmp_path: Path) -> None:
        def with_potential(number: int, record: Record) -> None:
            lengths(number, record)
            record["episode"]["success_mode"] = "holds"
            times = record["judgement"]["curve"]["time_s"]
            top = 1.0 if number % 2 == 0 else 0.5
            values = [top if at == times[-1] else 0.4 for at in times]
            record["episode"]["labelled_progress"] = {"potential": {"time_s": times, "progress": values}}

        run = write_run(tmp_path / "run", 10, judge="other", change=with_potential)
        assert not np.isnan(length_matched_scores(measure_episodes(run), "other")).any()

    def test_the_clock_itself_is_asked_again_on_what_is_cut(self, tmp_path: Path) -> None:
        metrics = measure_episodes(write_run(tmp_path / "run", 40, judge="other", change=lengths))
        (clock,) = measure_baselines(metrics, ["linear-time"])
        assert (length_matched_scores(clock.metrics, "linear-time") == 1.0).all()

    def test_without_a_video_the_curves_times_are_the_length(self, tmp_path: Path) -> None:
        def no_video(number: int, record: Record) -> None:
            lengths(number, record)
            record["episode"] |= {"n_frames": None, "fps": None, "duration_s": None}

        metrics = measure_episodes(write_run(tmp_path / "run", 10, judge="other", change=no_video))
        assert not np.isnan(length_matched_scores(metrics, "other")).any()
