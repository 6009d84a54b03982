"""``stepscore demo``: what it bundles, and what it prints."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import stepscore
from stepscore.cli.judging.demo import OWN_VIDEOS, POLICIES, ROLLOUTS, SIZE, TASKS
from stepscore.cli.judging.demo_text import BARS, sparkline, time_axis
from stepscore.episodes import Episodes, open_episodes
from stepscore.models.embedded.model import FOLDER
from stepscore.runs import Run, open_run
from tests.paths import ROOT


def demo(out: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "stepscore", "demo", "-o", str(out)]
    return subprocess.run(line, capture_output=True, text=True, env={**os.environ, "COLUMNS": "80"})


def unfolded(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def bundled() -> Episodes:
    return open_episodes(ROLLOUTS, labels=ROLLOUTS / "labels.parquet", subgoals=ROLLOUTS / "subgoals.yaml")


class TestTheBundledRollouts:
    def test_they_leave_the_wheel_under_20_megabytes(self) -> None:
        # The judge takes 9 of them.
        assert sum(path.stat().st_size for path in ROLLOUTS.rglob("*") if path.is_file()) < 6 * 2**20

    def test_they_are_long_and_large_enough_to_be_looked_at(self, bundled: Episodes) -> None:
        frames = [episode.info.n_frames for episode in bundled if episode.info is not None]
        assert len(frames) == len(bundled)
        assert min(frames) > 48
        assert sum(frames) / len(frames) > 80
        assert bundled[0].clip(count=1).frames.shape[1:3] == (SIZE, SIZE)

    def test_they_are_of_the_policies_and_tasks_that_the_demo_speaks_of(self, bundled: Episodes) -> None:
        assert {episode.policy for episode in bundled} == set(POLICIES)
        assert {str(episode.pair).split("/")[0] for episode in bundled} == set(TASKS)

    def test_four_policies_meet_the_same_scenes_of_several_tasks(self, bundled: Episodes) -> None:
        assert len(bundled) >= 24
        assert len({episode.task for episode in bundled}) >= 3
        policies = Counter(episode.policy for episode in bundled)
        assert len(policies) == 4
        assert len(set(policies.values())) == 1
        assert set(Counter(episode.pair for episode in bundled).values()) == {4}

    def test_some_succeed_and_some_fail_and_every_subgoal_is_labelled(self, bundled: Episodes) -> None:
        ended = [episode.labels.success for episode in bundled]
        assert None not in ended
        assert 0.2 <= sum(map(bool, ended)) / len(ended) <= 0.8
        for episode in bundled:
            assert len(episode.subgoals) >= 2
            assert all(episode.labels.subgoal(goal.name) is not None for goal in episode.subgoals)

    def test_they_are_of_the_camera_and_the_tasks_the_embedded_judge_was_trained_on(
        self, bundled: Episodes
    ) -> None:
        from stepscore.training.embedded.tasks import TRAINED, TRAINING_SEEDS, VALIDATION_SEED, VIEW

        for episode in bundled:
            assert list(episode.views) == [VIEW]
            task, seed, _ = str(episode.pair).split("/")
            assert task in TRAINED
            assert int(seed.removeprefix("seed-")) not in (*TRAINING_SEEDS, VALIDATION_SEED)


@pytest.mark.skipif(
    not (FOLDER / "model.safetensors").is_file(),
    reason=f"EMBEDDED JUDGE ABSENT: no {FOLDER / 'model.safetensors'}; the demo did not run",
)
def test_the_demo_tells_what_the_rollouts_show(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    headings = [line for line in result.stdout.splitlines() if re.match(r"\d\. ", line)]
    assert headings == [
        "1. Who is best?",
        "2. Where does each policy fail?",
        "3. What does a failure look like?",
        "4. Can the judge be trusted here?",
        "5. Your own videos, in folders rollouts/POLICY/TASK/",
    ]
    for command, _ in OWN_VIDEOS:
        assert command in result.stdout
    trust = unfolded(result.stdout.split(headings[3])[1])
    assert re.search(r"agrees with the labels of success on \d+ of 32 rollouts, a clock on \d+", trust)
    linked = re.search(r"index\.html#/explorer/topreward/(episode_\d+)/(\d+)", result.stdout)
    assert linked is not None
    shown = open_episodes(ROLLOUTS, labels=ROLLOUTS / "labels.parquet")[linked[1]]
    assert shown.labels.success is False
    assert shown.info is not None
    assert 0 < int(linked[2]) < shown.info.n_frames
    stripped = [line.rstrip() for line in result.stdout.splitlines()]
    printed = (
        (ROOT / "README.md")
        .read_text()
        .split("What `stepscore demo` prints first")[1]
        .split("```\n")[1]
        .splitlines()
    )
    start = stripped.index(printed[0])
    assert stripped[start : start + len(printed)] == printed
    # Nothing is wider than a terminal of 80 columns but what is to be copied: commands and the link.
    wide = [line for line in result.stdout.splitlines() if len(line) > 80]
    assert all(line.strip().startswith(("stepscore ", "source ", "its video, ")) for line in wide)
    for policy, does in POLICIES.items():
        assert f"{policy} ({does})" in unfolded(result.stdout)
    assert "Run folders" in result.stderr
    for judge in ("topreward", "stepeval"):
        run = open_run(tmp_path / "demo" / judge)
        rows = run.judgements().to_pylist()
        assert len(rows) == 32
        assert not any(row["error"] for row in rows)
        assert sum(row["success_score"] is not None for row in rows) >= 30
    page = (tmp_path / "demo" / "report" / "index.html").read_text(encoding="utf-8")
    assert '"revision":"robust"' in page
    progress = open_run(tmp_path / "demo" / "topreward")
    assert milestone_of_expert(progress) == 1.0
    assert milestone_of_expert(progress, revision="v1.0") == 0.0


def milestone_of_expert(run: Run, **revision: Any) -> float:
    """MC100 of the policy that succeeds in all of its rollouts, as `stepscore metrics` prints it."""
    rows = stepscore.measure(run, metrics=["MC100"], **revision)
    return next(
        row.estimate.value for row in rows if row.group == {"policy": "expert"} and row.metric == "MC100"
    )


class TestSparkline:
    def test_each_bar_is_the_value_at_its_time(self) -> None:
        assert (
            sparkline([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 0.5, 1.0, math.nan, 0.2], width=4)
            == f"{BARS[0]}{BARS[4]}{BARS[7]} "
        )

    def test_samples_stand_at_their_times_and_not_at_even_steps(self) -> None:
        assert sparkline([0.0, 9.0, 10.0], [0.0, 1.0, 1.0], width=10) == BARS[0] * 9 + BARS[7]

    def test_one_sample_is_a_flat_line(self) -> None:
        assert sparkline([2.0], [1.0], width=3) == BARS[7] * 3


class TestTimeAxis:
    def test_an_arrow_stands_at_the_time_to_look_at(self) -> None:
        line = time_axis(0.0, 4.0, 2.0, width=40)
        assert line == "0.0 s               ↑ 2.0 s        4.0 s"
        assert line.index("↑") == 20

    def test_at_an_edge_it_takes_the_place_of_the_time_there(self) -> None:
        assert time_axis(0.0, 4.0, 0.0, width=20) == "↑ 0.0 s        4.0 s"
        assert time_axis(0.0, 4.0, 4.0, width=20) == "0.0 s        4.0 s ↑"
        assert time_axis(0.0, 4.0, 3.4, width=20) == "0.0 s      3.4 s ↑"

    def test_without_a_time_there_are_the_edges_alone(self) -> None:
        assert time_axis(0.1, 3.4, None, width=20) == "0.1 s          3.4 s"


@pytest.mark.skipif((FOLDER / "config.json").is_file(), reason="the embedded judge is there")
def test_without_the_judge_the_demo_says_what_is_missing(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo")
    assert result.returncode == 2
    assert "is not a checkpoint" in result.stderr
    assert "Traceback" not in result.stderr
