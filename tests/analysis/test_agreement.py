from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, matthews_corrcoef, roc_auc_score

import stepscore
from stepscore.analysis.agreement import judge_agreement
from stepscore.episodes import Episode, Subgoal
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.judges import Ask
from stepscore.types import Curve, Judgement, Verdict
from tests.fakes import episode

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
