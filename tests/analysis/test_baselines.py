"""Baselines in memory give the numbers of baselines that are run as judges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.analysis import EpisodeMetrics, judge_agreement, measure_baselines, measure_episodes
from stepscore.episodes import Episode, ViewInfo, open_episodes
from stepscore.episodes.labels import Label, Labels
from stepscore.errors import UnknownNameError
from stepscore.judges import BASELINES
from stepscore.runs import Run
from stepscore.testing import write_toy_rollouts
from stepscore.types import FloatArray, Frames
from tests.paths import TINY_SIM
from tests.report.made_runs import write_run


@dataclass(frozen=True)
class SampledView:
    """A view whose frames are at the times that another judge sampled."""

    times: FloatArray

    def info(self) -> ViewInfo:
        return ViewInfo(len(self.times), 1.0, 0, 0, float(self.times[-1]) + 1.0)

    def timestamps(self) -> FloatArray:
        return self.times

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        raise AssertionError("a baseline decodes no frame")

    def digest(self) -> bytes:
        return self.times.tobytes()

    def location(self) -> str:
        return ""


def run_baseline(metrics: EpisodeMetrics, name: str, out: Path) -> Run:
    """The obvious way: score the episodes, with labels and sample times, into a run folder."""
    episodes = []
    for row, (times, _) in zip(metrics.episodes, metrics.curves, strict=True):
        if not len(times):
            times = np.linspace(0.0, row["duration_s"], 32)
        labels = [Label("stage", s["name"], s["start_s"], s["end_s"]) for s in row["stages"]]
        if row["truth"].labelled is not None:
            labels += [
                Label("progress", "potential", at, value=value)
                for at, value in zip(*row["truth"].labelled, strict=True)
            ]
        if row["success"] is not None:
            labels.append(Label("success", row["success_mode"], value=float(row["success"])))
        given: dict[str, Any] = {name: row[name] for name in ("source", "task", "policy", "pair")}
        views = {"sampled": SampledView(times)}
        name_of = f"{row['source']}:{row['episode_id']}"
        episodes.append(
            Episode(name_of, row["instruction"], views=views, labels=Labels(tuple(labels)), **given)
        )
    return stepscore.score(episodes, stepscore.get_judge(name, points=100_000), out=out)


@pytest.fixture(scope="module", params=["toys", "tiny", "without curves"])
def metrics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> EpisodeMetrics:
    folder = tmp_path_factory.mktemp("run")
    if request.param == "toys":
        episodes = open_episodes(write_toy_rollouts(folder / "rollouts", scenes=1))
        return measure_episodes(
            stepscore.score(episodes, stepscore.get_judge("recorded"), out=folder / "run")
        )
    if request.param == "tiny":
        episodes = open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet")
        judge = stepscore.get_judge("random-monotone", points=12)
        return measure_episodes(stepscore.score(episodes, judge, out=folder / "run"))

    def forget_curve(number: int, record: dict[str, Any]) -> None:
        if number % 3 == 0:
            del record["judgement"]["curve"]

    return measure_episodes(write_run(folder / "run", 20, steps=10, judge="other", change=forget_curve))


def test_they_are_those_of_runs_of_the_same_judges(metrics: EpisodeMetrics, tmp_path: Path) -> None:
    # Agreement is resampled, which takes seconds: every baseline on the smallest run, one on the others.
    names = list(BASELINES) if len(metrics) < 10 else ["random-monotone"]
    results = measure_baselines(metrics, names)
    assert [result.judge for result in results] == names
    for result in results:
        run = run_baseline(metrics, result.judge, tmp_path / result.judge)
        expected = measure_episodes(run)
        assert [row["episode_id"] for row in result.metrics.episodes] == [
            row["episode_id"] for row in expected.episodes
        ]
        for name, values in expected.values.items():
            np.testing.assert_array_equal(result.metrics.values[name], values)
        everything = np.ones(len(expected), dtype=bool)
        for name in ("VOC", "stage_MAE", "MP"):
            assert repr(result.metrics.estimate(name, everything)) == repr(
                expected.estimate(name, everything)
            )
        agreement = judge_agreement(run)
        assert repr(result.agreement.agreements) == repr(agreement.agreements)
        assert repr(result.agreement.ranking) == repr(agreement.ranking)


def test_an_episode_in_two_runs_counts_once(tmp_path: Path) -> None:
    runs = [write_run(tmp_path / name, 4, steps=10, judge="other") for name in ("a", "b")]
    both = measure_episodes(runs, keep_repeated=True)
    assert len(both) == 8
    assert len(measure_baselines(both, ["constant"])[0].metrics) == 4


def test_a_judge_that_is_not_a_baseline_is_refused(tmp_path: Path) -> None:
    metrics = measure_episodes(write_run(tmp_path / "run", 2, steps=10))
    with pytest.raises(UnknownNameError, match="Unknown baseline 'gvl'"):
        measure_baselines(metrics, ["gvl"])
