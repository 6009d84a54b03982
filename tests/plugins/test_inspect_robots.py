"""The grader for inspect-robots, with the real package where it is installed (``make test-inspect-robots``)."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.judges import TopReward
from stepscore.models import get_model
from stepscore.types import Curve
from tests.paths import ROOT

inspect_robots = pytest.importorskip("inspect_robots", reason="make test-inspect-robots")

PLUGIN = ROOT / "plugins" / "inspect-robots"


@pytest.fixture(scope="module")
def plugin() -> Any:
    sys.path.insert(0, str(PLUGIN))
    try:
        yield importlib.import_module("inspect_robots_stepscore")
    finally:
        sys.path.remove(str(PLUGIN))


class Scripted:
    """Gives every video this success at its end."""

    def __init__(self, success: float, channel: str = "success_probability") -> None:
        self.success, self.channel, self.shown = success, channel, list[Any]()

    def open(self, instruction: str) -> Any:
        self.instruction = instruction
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add(self, clip: Any) -> Curve:
        self.shown.append(clip)
        return Curve(clip.timestamps[-1:], np.array([0.5]), {self.channel: np.array([self.success])})

    def finish(self) -> Curve:
        return Curve(np.zeros(0), np.zeros(0))


def graded(plugin: Any, judge: Any, tmp_path: Path, **options: Any) -> Any:
    """Run a real evaluation of a policy that does nothing."""
    from inspect_robots.mock import CubePickEmbodiment, NoopPolicy
    from inspect_robots.scene import Scene
    from inspect_robots.scorer import operator_scorer
    from inspect_robots.task import Task

    chosen = {"fps": 10.0, "camera": None, "threshold": 0.5, "described": {"protocol_hash": "abc"}} | options
    grader = plugin.StepScoreGrader(judge, **chosen)
    records: list[Any] = []
    grade = grader.grade

    def keep(record: Any, scene: Any) -> None:
        grade(record, scene)
        records.append(record)

    grader.grade = keep
    task = Task(name="pick", scenes=[Scene("one", "pick the cube")], scorer=operator_scorer(), max_steps=6)
    (log,) = inspect_robots.eval(
        task, NoopPolicy(), CubePickEmbodiment(), log_dir=str(tmp_path), grader=grader
    )
    return log, records[0]


def test_the_entry_point_names_the_factory(plugin: Any) -> None:
    project = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["inspect_robots.graders"]["stepscore"].partition(":")
    assert getattr(importlib.import_module(module), name) is plugin.stepscore_grader


@pytest.mark.parametrize(("success", "verdict"), [(0.9, "success"), (0.2, "failure")])
def test_a_real_trial_is_graded_by_its_whole_video(
    plugin: Any, tmp_path: Path, success: float, verdict: str
) -> None:
    judge = Scripted(success)
    log, record = graded(plugin, judge, tmp_path)
    assert log.eval.grader == "stepscore"
    assert log.eval.grader_config["protocol_hash"] == "abc"
    assert record.operator_judgement == verdict
    assert f"probability of success {success:.2f}" in record.operator_note
    assert "protocol abc" in record.operator_note
    assert record.events[-1].data["source"] == "stepscore"
    assert judge.instruction == "pick the cube"
    assert len(judge.shown[0]) == len(record.steps) + 1
    np.testing.assert_allclose(np.diff(judge.shown[0].timestamps), 0.1)


def test_what_the_judge_does_not_know_stays_ungraded(
    plugin: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, record = graded(plugin, Scripted(float("nan")), tmp_path)
    assert record.operator_judgement is None
    assert "left ungraded" in capsys.readouterr().err
    _, record = graded(plugin, Scripted(0.9), tmp_path, camera="wrist")
    assert record.operator_judgement is None
    assert "no camera 'wrist'" in capsys.readouterr().err


def test_an_uncalibrated_score_says_so(plugin: Any, tmp_path: Path) -> None:
    _, record = graded(plugin, Scripted(0.7, "success"), tmp_path)
    assert record.operator_note.startswith("uncalibrated success score 0.70")


def test_a_real_judge_grades(plugin: Any, tmp_path: Path) -> None:
    judge = TopReward(get_model("embedded", gate=False), sampling="causal", min_first=2)
    _, record = graded(plugin, judge, tmp_path, fps=2.0)
    assert record.operator_judgement in ("success", "failure")


def test_the_factory_makes_a_judge(plugin: Any) -> None:
    with pytest.warns(UserWarning, match="uncalibrated"):
        grader = plugin.stepscore_grader()
    assert grader.config()["model"] == "embedded"
    with pytest.raises(ValueError, match="threshold"):
        plugin.stepscore_grader(threshold=0.0)
