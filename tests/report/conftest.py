"""Runs that several tests of the report look at, each made once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.episodes import open_episodes
from stepscore.judges import get_judge
from stepscore.report.page.data import page_data
from stepscore.report.page.video_hosting import LinkedVideos
from stepscore.runs import Run, score
from stepscore.testing import write_toy_rollouts
from tests.paths import TINY_SIM


@pytest.fixture(scope="session")
def toy_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Recorded curves of three toy policies, and the clock as a judge over the same episodes."""
    folder = tmp_path_factory.mktemp("toys")
    write_toy_rollouts(folder / "rollouts", scenes=2)
    episodes = open_episodes(folder / "rollouts")
    return [score(episodes, get_judge(name), folder / name) for name in ("recorded", "linear-time")]


@pytest.fixture(scope="session")
def tiny_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Simulated episodes of a LeRobot dataset with labelled subgoals and stages, many in one file."""
    episodes = open_episodes(
        TINY_SIM, labels=TINY_SIM / "labels.parquet", subgoals=TINY_SIM / "subgoals.yaml"
    )
    judge = get_judge("image-difference", points=12)
    return score(episodes, judge, tmp_path_factory.mktemp("tiny") / "difference run")


@pytest.fixture(scope="session")
def toy_page(toy_runs: list[Run]) -> Any:
    return page_data(toy_runs, LinkedVideos(toy_runs[0].path.parent / "report"))


@pytest.fixture(scope="session")
def tiny_page(tiny_run: Run) -> Any:
    return page_data([tiny_run], LinkedVideos(tiny_run.path.parent / "report"), revision="robust")


@pytest.fixture(scope="session")
def metrics_json() -> Callable[..., list[dict[str, Any]]]:
    """What ``stepscore metrics ... --json`` prints."""

    def call(*arguments: str) -> list[dict[str, Any]]:
        shown = CliRunner().invoke(app, ["metrics", *arguments, "--json"])
        assert shown.exit_code == 0, shown.output
        found: list[dict[str, Any]] = json.loads(shown.stdout)
        return found

    return call
