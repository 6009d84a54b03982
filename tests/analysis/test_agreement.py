from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import (
    balanced_accuracy_score,
    f1_score,
    matthews_corrcoef,
    precision_score,
    recall_score,
    roc_auc_score,
)

import stepscore
from stepscore.analysis import agreement_with_baselines
from stepscore.analysis.agreement import judge_agreement
from stepscore.episodes import Episode, Subgoal
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.judges import Ask
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode
from tests.report.made_runs import write_run

RNG = np.random.default_rng(0)
TRUTH = RNG.uniform(size=30) < 0.5
SAID = np.clip(TRUTH * 0.5 + RNG.uniform(size=30) * 0.6, 0, 1)
GRASPED = RNG.uniform(size=30) < 0.6


@dataclass(frozen=True)
class Noisy:
    name = "noisy"
    models = ()
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        i = int(episode.id)
        grasp = Verdict("grasp", "unknown" if i == 0 else ("yes" if GRASPED[i] else "no"))
        return Judgement(Curve(np.array([1.0, 2.0]), np.array([0.1, SAID[i]])), (grasp,), float(SAID[i]))


@pytest.fixture
def found(tmp_path: Path) -> object:
    episodes = []
    for i in range(30):
        rows = (
            Label("success", "holds", value=float(TRUTH[i])),
            Label("subgoal", "grasp", value=float(GRASPED[i])),
        )
        episodes.append(episode(f"{i:02d}", task="t", subgoals=(Subgoal("grasp"),), labels=Labels(rows)))
    return judge_agreement(stepscore.score(episodes, Noisy(), out=tmp_path / "run"))


def test_success_is_held_against_labels(found: object) -> None:
    success = next(a for a in found.agreements if a.question == "success")  # type: ignore[attr-defined]
    answers = SAID >= 0.5
    assert success.accuracy.value == pytest.approx(np.mean(answers == TRUTH))
    assert success.balanced.value == pytest.approx(balanced_accuracy_score(TRUTH, answers))
    assert success.mcc.value == pytest.approx(matthews_corrcoef(TRUTH, answers))
    assert success.table.tp == int(np.sum(answers & TRUTH))


def test_subgoals_have_a_confusion_of_their_own_and_unknown_is_counted(found: object) -> None:
    grasp = next(a for a in found.agreements if a.question == "t: grasp")  # type: ignore[attr-defined]
    assert grasp.table.unknown == 1
    assert grasp.accuracy.value == 1.0
    assert grasp.accuracy.n == 29


def test_ranking_needs_no_threshold(found: object) -> None:
    ranking = {m.metric: m.estimate for m in found.ranking}  # type: ignore[attr-defined]
    assert ranking["judge:AUC of success score"].value == pytest.approx(roc_auc_score(TRUTH, SAID))
    assert ranking["judge:AUC of best progress"].n == 30


def test_its_rows_are_about_the_judge_alone(found: object) -> None:
    rows = found.to_dicts()  # type: ignore[attr-defined]
    assert rows
    assert all(row["metric"].startswith("judge:") for row in rows)


def test_precision_recall_and_f1_have_their_own_n(found: object) -> None:
    success = next(a for a in found.agreements if a.question == "success")  # type: ignore[attr-defined]
    answers = SAID >= 0.5
    assert success.precision.value == pytest.approx(precision_score(TRUTH, answers))
    assert success.precision.n == int(np.sum(answers))
    assert success.recall.value == pytest.approx(recall_score(TRUTH, answers))
    assert success.recall.n == int(np.sum(TRUTH))
    assert success.f1.value == pytest.approx(f1_score(TRUTH, answers))
    assert success.f1.lo < success.f1.value < success.f1.hi


class TestScenes:
    """Twelve scenes, each judged five times alike: clusters are scenes, here as everywhere."""

    @pytest.fixture(scope="class")
    @staticmethod
    def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[stepscore.runs.Run, stepscore.runs.Run]:
        def plant(number: int, record: dict[str, object], *, shared: bool) -> None:
            scene = number % 12
            episode, judgement = record["episode"], record["judgement"]
            assert isinstance(episode, dict)
            assert isinstance(judgement, dict)
            episode |= {"task": f"task {scene % 2}", "success": scene % 3 == 0}
            episode["pair"] = str(scene) if shared else None
            judgement["success_score"] = 0.9 if scene % 4 == 0 else 0.1

        folder = tmp_path_factory.mktemp("runs")
        return tuple(  # type: ignore[return-value]
            write_run(
                folder / str(shared),
                60,
                steps=8,
                judge="other",
                change=partial(plant, shared=shared),
            )
            for shared in (False, True)
        )

    def test_intervals_are_wider_than_those_of_independent_episodes(
        self, runs: tuple[stepscore.runs.Run, stepscore.runs.Run]
    ) -> None:
        alone, shared = (judge_agreement(run) for run in runs)
        for name, estimate in shared.agreements[0].named().items():
            other = alone.agreements[0].named()[name]
            assert estimate.value == other.value
            if estimate.n == 60:
                assert (estimate.clusters, other.clusters) == (12, 60), name
                assert estimate.hi - estimate.lo > 1.4 * (other.hi - other.lo), name
        assert {row.estimate.clusters for row in shared.ranking} == {12}

    def test_by_task_has_a_row_for_each(self, runs: tuple[stepscore.runs.Run, stepscore.runs.Run]) -> None:
        found = judge_agreement(runs[0], by=["task"])
        assert [(a.group, a.table.n) for a in found.agreements] == [
            ({"task": "task 0"}, 30),
            ({"task": "task 1"}, 30),
        ]
        by_task = [row for row in found.ranking if row.metric == "judge:AUC of success score"]
        assert [row.group["task"] for row in by_task] == ["task 0", "task 1"]

    def test_the_clock_and_the_constant_stand_beside_every_row(
        self, runs: tuple[stepscore.runs.Run, stepscore.runs.Run]
    ) -> None:
        found = agreement_with_baselines([runs[1]], ["task"])
        assert [(a.judge, a.group["task"], a.baseline_for) for a in found.agreements] == [
            (judge, task, None if judge == "other" else "other")
            for task in ("task 0", "task 1")
            for judge in ("other", "linear-time", "constant")
        ]
        for a in found.agreements:
            assert a.balanced.value == 0.5 or a.baseline_for is None
        rows = found.to_dicts()
        beside = [row for row in rows if row["group"].get("baseline_for") == "other"]
        assert {row["group"]["judge"] for row in beside} == {"linear-time", "constant"}
        assert {row["metric"] for row in rows} >= {"judge:precision", "judge:recall", "judge:F1"}


def test_beside_a_subgoal_stands_the_answer_yes(tmp_path: Path) -> None:
    episodes = [
        episode(
            f"{i:02d}",
            task="t",
            subgoals=(Subgoal("grasp"),),
            labels=Labels((Label("subgoal", "grasp", value=float(GRASPED[i])),)),
        )
        for i in range(30)
    ]
    run = stepscore.score(episodes, Noisy(), out=tmp_path / "run")
    judge, constant = agreement_with_baselines([run]).agreements
    assert (judge.judge, constant.judge, constant.baseline_for) == ("noisy", "constant", "noisy")
    assert constant.accuracy.value == pytest.approx(np.mean(GRASPED))
    assert constant.recall.value == 1.0
