"""One truth for metrics and calibration; fed to itself it is the best of all judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.analysis import EpisodeMetrics, measure_episodes
from stepscore.analysis.labelled_progress import labelled_curves
from stepscore.episodes import Episode, Label, Labels, open_episodes
from stepscore.errors import OptionError, UnknownNameError
from stepscore.judges import Ask
from stepscore.runs import Run
from stepscore.types import Curve, FloatArray, Judgement
from tests.fakes import FakeView, episode
from tests.paths import TINY_SIM

Points = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Told:
    """A judge that is told the curves, and adds noise to them."""

    curves: Mapping[str, Points]
    noise: float = 0.0
    name = "told"
    models = ()
    version = 1

    def options(self) -> Mapping[str, object]:
        return {"noise": self.noise}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        times, values = self.curves[episode.id]
        drawn = np.random.default_rng(sum(map(ord, episode.id))).normal(0, self.noise, len(values))
        return Judgement(Curve(times, np.clip(values + drawn, 0, 1)))


def tiny(*, progress: bool = True) -> list[Episode]:
    found = open_episodes(TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml")
    if progress:
        return list(found)
    kept = [tuple(row for row in e.labels.rows if row.kind != "progress") for e in found]
    return [replace(e, labels=Labels(rows)) for e, rows in zip(found, kept, strict=True)]


def error(metrics: EpisodeMetrics, outcome: float, name: str = "stage_MAE") -> float:
    values = metrics.values[name][metrics.values["success_label"] == outcome]
    assert len(values) >= 7
    return float(np.nanmean(values))


class TestFedToItself:
    @pytest.fixture(scope="class")
    @staticmethod
    def potentials() -> Mapping[str, Points]:
        return {e.id: e.labels.progress("potential") for e in tiny()}

    @pytest.fixture(scope="class")
    @staticmethod
    def judged(
        potentials: Mapping[str, Points], tmp_path_factory: pytest.TempPathFactory
    ) -> dict[str, EpisodeMetrics]:
        folder = tmp_path_factory.mktemp("runs")
        judges = {
            "truth": Told(potentials),
            "noisy": Told(potentials, 0.05),
            **{name: stepscore.get_judge(name) for name in ("linear-time", "constant", "random-monotone")},
        }
        return {
            name: measure_episodes(stepscore.score(tiny(), judge, out=folder / name))
            for name, judge in judges.items()
        }

    @pytest.mark.parametrize("outcome", [1.0, 0.0])
    def test_it_is_the_best_of_all_judges(self, judged: dict[str, EpisodeMetrics], outcome: float) -> None:
        assert error(judged["truth"], outcome) == pytest.approx(0.0, abs=1e-9)
        assert error(judged["truth"], outcome, "stage_CCC") == pytest.approx(1.0)
        for name, metrics in judged.items():
            if name != "truth":
                assert error(metrics, outcome) > 0.02, name
                assert error(metrics, outcome, "stage_CCC") < 0.999, name

    def test_by_stages_alone_it_is_the_best_on_failures(
        self, potentials: Mapping[str, Points], tmp_path: Path
    ) -> None:
        # Inside a stage they know nothing better than time, which flatters the clock on successes.
        by_stages = [
            measure_episodes(stepscore.score(tiny(progress=False), judge, out=tmp_path / name))
            for name, judge in (
                ("truth", Told(potentials)),
                ("clock", stepscore.get_judge("linear-time")),
                ("constant", stepscore.get_judge("constant")),
            )
        ]
        truth, clock, constant = (error(metrics, 0.0) for metrics in by_stages)
        assert truth < 0.6 * clock < 0.6 * constant
        assert error(by_stages[0], 1.0, "stage_CCC") > error(by_stages[1], 1.0, "stage_CCC")

    def test_a_freeze_has_no_truth_near_one(self, tmp_path: Path) -> None:
        clock = stepscore.get_judge("linear-time")
        metrics = measure_episodes(stepscore.score(tiny(progress=False), clock, out=tmp_path / "run"))
        frozen = [row for row in metrics.episodes if row["policy"] == "freeze"]
        assert frozen
        for row in frozen:
            truth = row["truth"].at(np.linspace(0, row["duration_s"], 50))
            assert np.isnan(truth[-1])
            assert not np.nanmax(truth) > 0.8


TIMES = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
STAGES = (Label("stage", "reach", 0.0, 2.0), Label("stage", "pull", 2.0, 4.0))


def labelled(name: str, *rows: Label, success: float | None = None, **fields: object) -> Episode:
    outcome = () if success is None else (Label("success", "holds", value=success),)
    return episode(name, labels=Labels((*rows, *outcome)), views={"top": FakeView(mark=name)}, **fields)


def steady(name: str, top: float = 0.5) -> tuple[Label, ...]:
    return tuple(Label("progress", name, float(t), value=top * t / 4) for t in TIMES)


def judged(folder: Path, *episodes: Episode) -> Run:
    return stepscore.score(episodes, Told({e.id: (TIMES, TIMES / 4) for e in episodes}), out=folder)


def truth_of(metrics: EpisodeMetrics, name: str) -> FloatArray:
    row = next(row for row in metrics.episodes if row["episode_id"] == name)
    found: FloatArray = row["truth"].at(TIMES)
    return found


class TestWhichLabels:
    def test_labelled_progress_comes_before_stages(self, tmp_path: Path) -> None:
        run = judged(
            tmp_path / "run",
            labelled("a", *STAGES, *steady("potential"), success=0.0),
            labelled("b", *STAGES, success=1.0),
        )
        metrics = measure_episodes(run)
        assert truth_of(metrics, "a") == pytest.approx(0.5 * TIMES / 4)
        assert truth_of(metrics, "b") == pytest.approx(TIMES / 4)

    def test_the_simulators_potential_is_preferred_and_others_must_be_named(self, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled("a", *steady("potential"), *steady("robust", 1.0)))
        assert truth_of(measure_episodes(run), "a")[-1] == pytest.approx(0.5)
        assert truth_of(measure_episodes(run, potential="robust"), "a")[-1] == pytest.approx(1.0)
        with pytest.raises(UnknownNameError, match="potential 'sarm'"):
            measure_episodes(run, potential="sarm")

    def test_several_names_of_which_none_is_named_are_not_used_and_said(self, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled("a", *steady("sarm"), *steady("robust", 1.0)))
        metrics = measure_episodes(run)
        assert np.isnan(truth_of(metrics, "a")).all()
        assert "'robust', 'sarm'" in metrics.notes[0]
        with pytest.raises(OptionError, match="several potentials"):
            labelled_curves(run, "progress", None, None)

    def test_a_labels_file_comes_before_the_runs_own(self, tmp_path: Path) -> None:
        run = judged(
            tmp_path / "run", labelled("a", *steady("potential")), labelled("b", *steady("potential"))
        )
        file = tmp_path / "labels.csv"
        file.write_text(
            "episode_id,kind,name,start_s,end_s,value\na,progress,mine,0,,0.2\na,progress,mine,4,,0.2\n"
        )
        metrics = measure_episodes(run, labels=file)
        assert truth_of(metrics, "a") == pytest.approx(np.full(5, 0.2))
        assert np.isnan(truth_of(metrics, "b")).all()  # labelled under another name
        file.write_text("episode_id,kind,name,start_s,end_s,value\nz,progress,mine,0,,0.2\n")
        with pytest.raises(OptionError, match="Use the same ids"):
            measure_episodes(run, labels=file)

    def test_the_stages_of_a_file_replace_labelled_progress_of_the_run(self, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled("a", *steady("potential"), success=1.0))
        file = tmp_path / "labels.csv"
        file.write_text("episode_id,kind,name,start_s,end_s\na,stage,reach,0,1\na,stage,pull,1,4\n")
        assert truth_of(measure_episodes(run, labels=file), "a")[1] == pytest.approx(0.5)

    def test_a_label_of_unknown_value_is_not_interpolated_across(self, tmp_path: Path) -> None:
        rows = (Label("progress", "p", 0.0, value=0.0), Label("progress", "p", 2.0))
        run = judged(tmp_path / "run", labelled("a", *rows, Label("progress", "p", 4.0, value=1.0)))
        found = truth_of(measure_episodes(run), "a")
        np.testing.assert_array_equal(found, [0.0, np.nan, np.nan, np.nan, 1.0])

    def test_rounded_seconds_do_not_lose_the_last_frame(self, tmp_path: Path) -> None:
        rows = (Label("progress", "p", 0.0, value=0.0), Label("progress", "p", 3.999999, value=1.0))
        run = judged(tmp_path / "run", labelled("a", *rows))
        assert truth_of(measure_episodes(run), "a")[-1] == 1.0


class TestOutcome:
    def test_success_at_some_time_is_not_success_at_the_end(self, tmp_path: Path) -> None:
        ever = Label("success", "ever", value=1.0)
        tried = (Label("stage", "reach", 0.0, 1.0), Label("stage", "pull", 1.0, 2.0))
        undone = (*tried, Label("stage", "reach", 2.0, 4.0))
        run = judged(tmp_path / "run", labelled("a", *STAGES, ever), labelled("b", *undone, ever))
        metrics = measure_episodes(run)
        assert truth_of(metrics, "a")[-1] == 1.0
        assert np.isnan(truth_of(metrics, "b")[1:]).tolist() == [False, True, True, True]

    def test_an_unlabelled_episode_is_done_where_its_last_stage_is_the_last(self, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled("a", *STAGES), labelled("b", STAGES[0]))
        metrics = measure_episodes(run)
        assert truth_of(metrics, "a")[-1] == 1.0
        assert np.isnan(truth_of(metrics, "b")[-1])

    def test_calibration_has_the_same_truth(self, tmp_path: Path) -> None:
        run = judged(
            tmp_path / "run",
            labelled("a", *STAGES, success=1.0),
            labelled("b", *STAGES, success=0.0),
            labelled("c", *steady("potential")),
        )
        metrics = measure_episodes(run)
        curves, source = labelled_curves(run, "progress", None, None)
        assert source == "progress labels and stages"
        assert [curve.id for curve in curves] == ["a", "b", "c"]
        for curve in curves:
            np.testing.assert_array_equal(curve.truth, truth_of(metrics, curve.id))
