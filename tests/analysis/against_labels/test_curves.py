"""Curves against labelled progress and stages, with scipy and a plain loop as the oracles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kendalltau

import stepscore
from stepscore.analysis import agreement_with_baselines
from stepscore.analysis.against_labels.curves import _stage_measures, level_estimate
from stepscore.episodes import Episode, Subgoal
from stepscore.episodes.labels.labels import Label, Labels
from stepscore.judges import Ask
from stepscore.metrics import ccc, epr
from stepscore.types import Curve, Judgement
from tests.fakes import FakeView, episode

TIMES = np.arange(0.0, 4.0, 0.25)


@dataclass(frozen=True)
class Wavy:
    name = "wavy"
    models = ()
    version = 1

    def options(self) -> Mapping[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        return Judgement(Curve(TIMES, wavy(int(episode.id))), success_score=1.0)


def wavy(number: int) -> np.ndarray:
    return np.clip(TIMES / 4 + 0.2 * np.sin(TIMES * (number + 1)), 0, 1)


def true_progress(number: int) -> np.ndarray:
    return np.minimum(TIMES / (2 + number / 4), 1.0)


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, object]:
    episodes = []
    for i in range(6):
        labels = [
            Label("progress", "potential", float(t), value=float(p))
            for t, p in zip(TIMES, true_progress(i), strict=True)
        ]
        labels.append(Label("success", "holds", value=float(i % 2)))
        episodes.append(
            episode(f"{i}", task="t", labels=Labels(tuple(labels)), views={"top": FakeView(16, 4.0)})
        )
    found = agreement_with_baselines([stepscore.score(episodes, Wavy(), out=tmp_path / "run")])
    return {row.metric: row.estimate for row in found.curves if row.group == {"judge": "wavy"}}


def test_progress_is_held_against_its_labels(rows: dict[str, stepscore.types.Estimate]) -> None:
    pairs = [(wavy(i), true_progress(i)) for i in range(6)]
    assert rows["judge:progress MAE"].value == pytest.approx(
        np.mean([np.abs(a - b).mean() for a, b in pairs])
    )
    assert rows["judge:progress CCC"].value == pytest.approx(np.mean([ccc(a, b) for a, b in pairs]))
    assert rows["judge:progress tau"].value == pytest.approx(
        np.mean([kendalltau(a, b).statistic for a, b in pairs])
    )
    assert rows["judge:progress EPR"].value == pytest.approx(np.mean([epr(a) for a, _ in pairs]))
    assert rows["judge:progress EPR of labels"].value == pytest.approx(np.mean([epr(b) for _, b in pairs]))
    assert rows["judge:progress tau"].n == 6
    assert "judge:stage error" not in rows


def test_a_level_curve_has_no_interval_that_it_did_not_earn() -> None:
    level = level_estimate(np.zeros(40), {})
    assert level.value == 0.0
    assert np.isnan(level.hi)
    assert level.method == "no variation"
    assert level_estimate(np.array([0.1, 0.4, 0.2, 0.3, 0.35, 0.2]), {}).lo > 0
    assert level_estimate(np.full(4, np.nan), {}).n == 0


SPANS = [("reach", 0.0, 1.0), ("grasp", 1.0, 2.5), ("lift", 2.5, 4.0)]
PLACES = {"reach": 0, "grasp": 1, "lift": 2}


def test_stages_are_compared_at_points_and_at_their_boundaries() -> None:
    true = np.array([0 if t < 1 else 1 if t < 2.5 else 2 for t in TIMES], dtype=float)
    assert _stage_measures(TIMES, true, SPANS, PLACES) == {"boundary F1": 1.0, "stage error": 0.0}
    late = np.array([0 if t < 2 else 1 if t < 2.5 else 2 for t in TIMES], dtype=float)
    found = _stage_measures(TIMES, late, SPANS, PLACES)
    assert found["stage error"] == pytest.approx(np.abs(late - true).mean())
    assert found["boundary F1"] == pytest.approx(0.5)  # one of two found, one of two right
    level = _stage_measures(TIMES, np.zeros(len(TIMES)), SPANS, PLACES)
    assert level["boundary F1"] == 0.0
    assert _stage_measures(TIMES, np.full(len(TIMES), np.nan), SPANS, PLACES) == {}


def test_a_judge_without_stages_has_those_of_its_progress(tmp_path: Path) -> None:
    stages = tuple(Label("stage", name, start, end) for name, start, end in SPANS)
    episodes = [
        episode(
            f"{i}",
            task="t",
            subgoals=tuple(Subgoal(name) for name in PLACES),
            labels=Labels((*stages, Label("success", "holds", value=1.0))),
            views={"top": FakeView(16, 4.0)},
        )
        for i in range(2)
    ]
    found = agreement_with_baselines([stepscore.score(episodes, Wavy(), out=tmp_path / "run")])
    values = {row.metric: row.estimate.value for row in found.curves if row.group == {"judge": "wavy"}}
    true = np.array([0 if t < 1 else 1 if t < 2.5 else 2 for t in TIMES], dtype=float)
    gaps = [np.abs(np.minimum(np.floor(3 * wavy(i)), 2) - true).mean() for i in range(2)]
    assert values["judge:stage error"] == pytest.approx(np.mean(gaps))
