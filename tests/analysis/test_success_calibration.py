"""From a run with success labels to a map, from the map to probabilities, from those to verdicts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import stepscore
from stepscore.analysis import calibrate, measure_episodes
from stepscore.analysis.success_calibration import calibrate_success
from stepscore.episodes import Episode
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.errors import OptionError
from stepscore.judges.common.calibration import FittedMap, read_calibration, write_calibration
from stepscore.judges.topreward import TopReward
from stepscore.metrics import fit_success_map, roc_auc
from stepscore.models import PrefixScores, ScorePrefixes
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions, Run
from tests.fakes import FakeView, episode

FRESH = CallOptions(cache=False)
THRESHOLDS = {"open": -3.0, "push": 1.0}
"""Where each task's success begins, in log-odds: for one task far below 0."""


def margin_of(e: Episode) -> float:
    return float(e.metadata["margin"])  # type: ignore[arg-type]


def scripted(episodes: list[Episode]) -> MockModel:
    """A model whose log-odds rise by 2 nats to what the episode's metadata states for its end."""
    by_instruction = {e.instruction: margin_of(e) for e in episodes}

    def script(request: object) -> PrefixScores:
        assert isinstance(request, ScorePrefixes)
        text = "".join(part for part in request.prompts[0].turns[0].parts if isinstance(part, str))
        (end,) = (margin for name, margin in by_instruction.items() if f": {name}" in text)
        shares = np.array(request.lengths) / request.lengths[-1]
        margin = end - 2 + 2 * shares
        return PrefixScores(-np.log1p(np.exp(np.stack([-margin, margin], axis=-1)))[None])

    return MockModel("scripted", script=script)


def labelled(n: int = 60, mode: str = "holds", seed: int = 0) -> list[Episode]:
    """Episodes of two tasks whose success follows the score, with a little noise."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n):
        task = "open" if number % 2 else "push"
        margin = THRESHOLDS[task] + float(rng.normal(0, 2))
        success = margin + float(rng.normal(0, 0.4)) > THRESHOLDS[task]
        made.append(
            episode(
                f"e{number:03d}",
                instruction=f"{task} thing {number:03d}.",
                task=task,
                pair=f"{task}/{number // 6}",
                success_mode=mode,
                views={"top": FakeView(mark=f"{seed}/{number}")},
                labels=Labels((Label("success", mode, value=float(success)),)),
                metadata={"margin": margin},
            )
        )
    return made


def judged(
    folder: Path, episodes: list[Episode], calibration: Path | None = None, model: MockModel | None = None
) -> Run:
    judge = TopReward(model or scripted(episodes), prefixes=6, calibration=calibration)
    return stepscore.score(episodes, judge, out=folder, call_options=FRESH)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return judged(tmp_path_factory.mktemp("run") / "run", labelled())


@pytest.fixture(scope="module")
def fitted(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("map") / "map.json"
    write_calibration(calibrate(run).fitted, path)
    return path


def test_the_score_is_that_of_the_last_prefix_and_the_map_is_fitted_on_all_labels(run: Run) -> None:
    made = calibrate_success(run)
    assert made is not None
    ends = [margin_of(e) for e in labelled()]
    truth = [float(bool(e.labels.success)) for e in labelled()]
    alone = fit_success_map(ends, truth, [str(e.task) for e in labelled()])
    assert made.fitted.map.slope == pytest.approx(alone.slope)
    assert made.fitted.map.intercept == pytest.approx(alone.intercept)
    assert made.fitted.map.task_terms == pytest.approx(alone.task_terms)
    assert (made.n, made.copies, len(made.fingerprints)) == (60, 0, 60)


def test_for_success_at_some_time_the_score_is_the_highest_of_all_prefixes(tmp_path: Path) -> None:
    episodes = labelled(mode="ever")

    def falling(request: object) -> PrefixScores:
        rising = scripted(episodes).script
        assert rising is not None
        found = rising(request)  # type: ignore[arg-type]
        return PrefixScores(np.asarray(found.logprobs)[:, ::-1])  # type: ignore[attr-defined]

    made = calibrate_success(judged(tmp_path / "run", episodes, model=MockModel("falling", script=falling)))
    assert made is not None
    assert made.fitted.mode == "ever"
    highest = fit_success_map(
        [margin_of(e) for e in episodes],
        [float(bool(e.labels.success)) for e in episodes],
        [str(e.task) for e in episodes],
    )
    assert made.fitted.map.intercept == pytest.approx(highest.intercept)


def test_the_figures_are_of_maps_that_have_not_seen_the_scene(run: Run) -> None:
    made = calibrate_success(run)
    assert made is not None
    assert made.balanced.value > 0.8
    assert made.balanced.n == 60
    assert made.rate_error.value == pytest.approx(made.rate_judge.value - made.rate_label.value)
    assert "Bonett-Price" in made.rate_error.method  # few errors of one sign do not show that all have it
    ends = np.array([margin_of(e) for e in labelled()])
    truth = np.array([float(bool(e.labels.success)) for e in labelled()])
    assert made.auc.value > roc_auc(ends, truth)  # tasks differ in their thresholds
    assert {task.task: task.own_term for task in made.by_task} == {"open": True, "push": True}


def test_labels_at_random_give_no_better_figures_than_chance(tmp_path: Path) -> None:
    episodes = with_labels(labelled(120), lambda e, rng: rng.uniform() < 0.5 + 0.02 * margin_of(e))
    made = calibrate_success(judged(tmp_path / "run", episodes))
    assert made is not None
    assert made.balanced.value < 0.65


def test_a_score_that_falls_with_success_makes_no_map(tmp_path: Path) -> None:
    episodes = with_labels(labelled(40), lambda e, rng: margin_of(e) < THRESHOLDS[str(e.task)])
    with pytest.raises(OptionError, match="does not rise with success"):
        calibrate_success(judged(tmp_path / "run", episodes))


def with_labels(
    episodes: list[Episode], succeeded: Callable[[Episode, np.random.Generator], object]
) -> list[Episode]:
    rng = np.random.default_rng(5)
    return [
        replace(e, labels=Labels((Label("success", "holds", value=float(bool(succeeded(e, rng)))),)))
        for e in episodes
    ]


def test_labels_of_one_class_make_no_success_map(tmp_path: Path) -> None:
    won = [replace(e, labels=Labels((Label("success", "holds", value=1.0),))) for e in labelled(20)]
    assert calibrate_success(judged(tmp_path / "run", won)) is None


def test_a_run_of_both_modes_needs_one_of_them_named(tmp_path: Path) -> None:
    mixed = [*labelled(40), *(replace(e, id=f"x{e.id}") for e in labelled(40, mode="ever", seed=1))]
    mixed = [replace(e, instruction=f"{e.instruction[:-1]} {i}.") for i, e in enumerate(mixed)]
    run = judged(tmp_path / "run", mixed)
    with pytest.raises(OptionError, match="--success-mode"):
        calibrate_success(run)
    made = calibrate_success(run, mode="ever")
    assert made is not None
    assert (made.fitted.mode, made.n) == ("ever", 40)


def test_a_copy_is_fitted_on_and_counted_in_no_figure(tmp_path: Path) -> None:
    recorded = labelled(40)
    copies = [
        replace(
            e,
            id=f"{e.id}~held",
            views={"top": FakeView(mark=f"copy {e.id}")},
            metadata={**e.metadata, "changed_from": e.id},
        )
        for e in recorded
    ]
    made = calibrate_success(judged(tmp_path / "run", recorded + copies, model=scripted(recorded)))
    assert made is not None
    assert (made.n, made.copies, made.balanced.n) == (40, 40, 40)
    assert len(made.fingerprints) == 80


class TestApplied:
    def test_the_probability_is_stored_with_the_curve_and_gives_the_verdict(
        self, fitted: Path, tmp_path: Path
    ) -> None:
        fresh = labelled(40, seed=9)
        run = judged(tmp_path / "run", fresh, fitted)
        success = read_calibration(fitted).success
        assert success is not None
        rows = run.judgements().to_pylist()
        for e, row in zip(fresh, rows, strict=True):
            p = float(success.map.apply([margin_of(e)], e.task)[0])
            assert row["success_probability"] == pytest.approx(p)
            assert row["success_calibrated"] is True
            assert json.loads(row["facts"])["pooled_map"] == 0.0
        ends = {row["episode_id"]: row["success_probability"] for row in run.curves().to_pylist()}
        assert [ends[row["episode_id"]] for row in rows] == [row["success_probability"] for row in rows]
        metrics = measure_episodes(run)
        answers = [float(row["success_probability"] >= 0.5) for row in rows]
        assert metrics.values["success_judge"].tolist() == answers
        assert np.mean(metrics.values["success_judge"] == metrics.values["success_label"]) > 0.8
        assert metrics.success_name == "success by judge"

    def test_another_task_uses_the_pooled_map_and_is_marked(self, fitted: Path, tmp_path: Path) -> None:
        other = [replace(e, task="fold") for e in labelled(4, seed=9)]
        run = judged(tmp_path / "run", other, fitted)
        success = read_calibration(fitted).success
        assert success is not None
        for e, row in zip(other, run.judgements().to_pylist(), strict=True):
            assert row["success_probability"] == pytest.approx(float(success.map.apply([margin_of(e)])[0]))
            assert json.loads(row["facts"])["pooled_map"] == 1.0

    def test_an_episode_of_the_other_mode_is_not_calibrated(self, fitted: Path, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled(4, mode="ever", seed=9), fitted)
        assert run.judgements().column("success_calibrated").to_pylist() == [False] * 4
        assert run.judgements().column("success_probability").null_count == 4
        assert measure_episodes(run).success_name == "success by judge, uncalibrated"

    def test_labels_that_state_the_other_mode_later_are_not_compared_with_the_map(
        self, fitted: Path, tmp_path: Path
    ) -> None:
        silent = [replace(e, success_mode=None) for e in labelled(4, mode="ever", seed=9)]
        run = judged(tmp_path / "run", silent, fitted)
        assert run.judgements().column("success_calibrated").to_pylist() == [True] * 4
        metrics = measure_episodes(run)
        assert metrics.success_calibrated(np.ones(4, dtype=bool)) is False
        (why,) = [note for note in metrics.notes if "uncalibrated" in note]
        assert "in 4 of 4 episodes" in why
        assert "success at the end (holds), and their labels state success at some time (ever)" in why
        assert "--labels FILE" in why

    def test_labels_of_the_same_mode_bring_no_note(self, fitted: Path, tmp_path: Path) -> None:
        run = judged(tmp_path / "run", labelled(4, seed=9), fitted)
        assert not [note for note in measure_episodes(run).notes if "uncalibrated" in note]

    def test_the_episodes_it_was_fitted_on_are_counted_and_can_be_left_out(
        self, fitted: Path, tmp_path: Path
    ) -> None:
        episodes = [*labelled()[:10], *(replace(e, id=f"new-{e.id}") for e in labelled(20, seed=9)[:5])]
        model = scripted(episodes)
        run = judged(tmp_path / "run", episodes, fitted, model)
        assert measure_episodes(run).fitted_on == 10
        held = measure_episodes(run, held_out=True)
        assert (len(held), held.left_out) == (5, 10)
        assert all(str(row["episode_id"]).startswith("new-") for row in held.episodes)
        table = stepscore.measure(run, held_out=True, metrics=["success_judge"])
        assert table[0].estimate.n == 5

    def test_without_a_map_the_verdict_is_the_published_rule_and_says_so(self, run: Run) -> None:
        rows = run.judgements().to_pylist()
        assert not any(row["success_calibrated"] for row in rows)
        assert all(row["success_probability"] is None for row in rows)
        metrics = measure_episodes(run)
        assert metrics.values["success_judge"].tolist() == [float(r["success_score"] >= 0.5) for r in rows]
        assert metrics.success_name == "success by judge, uncalibrated"
        (row,) = [r for r in stepscore.measure(run, by=()).to_dicts() if r["metric"] == "success_judge"]
        assert row["calibrated"] is False


class TestTheFile:
    def test_it_is_written_and_read_alike(self, run: Run, fitted: Path) -> None:
        made, read = calibrate(run).fitted, read_calibration(fitted)
        assert read.map is None  # no progress is labelled
        assert read.success is not None
        assert made.success is not None
        assert read.success.content() == made.success.content()
        assert read.fingerprints == made.fingerprints
        assert json.loads(fitted.read_text())["format"] == 2
        assert "equally" in read.success.fit["weights"]

    def test_a_file_of_format_1_is_still_read(self, tmp_path: Path) -> None:
        path = tmp_path / "map.json"
        old = {
            "format": 1,
            "judge": "topreward",
            "version": 1,
            "options": {},
            "model": "mock/x",
            "protocol": "0",
        }
        path.write_text(
            json.dumps(
                {**old, "channel": "margin", "x": [0.0, 1.0], "y": [0.0, 1.0], "fit": {}, "figures": {}}
            )
        )
        read = read_calibration(path)
        assert read.success is None
        assert read.identity is None
        assert read.content() == {"channel": "margin", "x": [0.0, 1.0], "y": [0.0, 1.0]}

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda c: c["success"].update(slope="x"), "success.slope"),
            (lambda c: c["success"].update(intercept=math.inf), "finite numbers|intercept"),
            (lambda c: c["success"].update(mode="often"), "success.mode"),
            (lambda c: c["success"].update(more=1), "success.more"),
        ],
    )
    def test_a_damaged_success_map_is_refused(
        self, fitted: Path, tmp_path: Path, change: Callable[[dict[str, object]], None], words: str
    ) -> None:
        content = json.loads(fitted.read_text())
        change(content)
        path = tmp_path / "map.json"
        path.write_text(json.dumps(content))
        with pytest.raises(OptionError, match=words):
            read_calibration(path)

    def test_it_is_bound_to_the_weights(self, fitted: Path, tmp_path: Path) -> None:
        class Weighed(MockModel):
            def describe(self) -> dict[str, object]:
                return {**super().describe(), "weights": "abc"}

        found: FittedMap = replace(read_calibration(fitted), identity={"weights": "abc"})
        path = tmp_path / "map.json"
        write_calibration(found, path)
        model = Weighed("scripted", script=scripted(labelled(1)).script)
        assert TopReward(model, prefixes=6, calibration=path).fitted is not None
        write_calibration(replace(found, identity={"weights": "other"}), path)
        with pytest.raises(OptionError, match="another weights"):
            TopReward(model, prefixes=6, calibration=path)
