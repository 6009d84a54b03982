"""``stepscore demo``: what it bundles, and what it prints."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stepscore.cli.judging.demo import ROLLOUTS
from stepscore.episodes import Episodes, open_episodes
from stepscore.models.embedded.model import FOLDER
from stepscore.runs import open_run


def demo(out: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", "from stepscore.cli.app import main; main()", "demo", "-o", str(out)]
    return subprocess.run(line, capture_output=True, text=True)


@pytest.fixture(scope="module")
def bundled() -> Episodes:
    return open_episodes(ROLLOUTS, labels=ROLLOUTS / "labels.parquet", subgoals=ROLLOUTS / "subgoals.yaml")


class TestTheBundledRollouts:
    def test_they_are_small(self) -> None:
        assert sum(path.stat().st_size for path in ROLLOUTS.rglob("*") if path.is_file()) < 2.5 * 2**20

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
def test_the_demo_judges_compares_and_names_its_folders(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo")
    assert result.returncode == 0, result.stderr
    assert "Metrics (OPD robust)" in result.stdout
    assert "How each policy fails" in result.stdout
    assert "Subgoals: open the drawer" in result.stdout
    for policy in ("expert", "noisy:1", "freeze", "undo"):
        assert policy in result.stdout
    assert "Run folders" in result.stderr
    for judge in ("topreward", "stepeval"):
        run = open_run(tmp_path / "demo" / judge)
        rows = run.judgements().to_pylist()
        assert len(rows) == 32
        assert not any(row["error"] for row in rows)
        assert sum(row["success_score"] is not None for row in rows) >= 30
    assert (tmp_path / "demo" / "report" / "index.html").is_file()


@pytest.mark.skipif((FOLDER / "config.json").is_file(), reason="the embedded judge is there")
def test_without_the_judge_the_demo_says_what_is_missing(tmp_path: Path) -> None:
    result = demo(tmp_path / "demo")
    assert result.returncode == 2
    assert "is not a checkpoint" in result.stderr
    assert "Traceback" not in result.stderr
