"""A LeRobot dataset may say in meta/ what acted, and in which scene."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscore.episodes import open_episodes
from tests.episodes.lerobot.datasets import dataset

EXTRAS = [{"policy": "expert", "pair": "scene-0"}, {"policy": "noisy:0.5", "pair": "scene-0"}, {"policy": ""}]


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_policy_and_pair_are_read_where_they_stand(tmp_path: Path, version: str) -> None:
    episodes = open_episodes(dataset(tmp_path / "d", version=version, lengths=(3, 4, 2), extras=EXTRAS))
    assert [episode.policy for episode in episodes] == ["expert", "noisy:0.5", None]
    assert [episode.pair for episode in episodes] == ["scene-0", "scene-0", None]
    assert any("Policy and pair: the columns" in rule for rule in episodes.rules)


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_the_mode_of_success_is_read_where_it_is_stated(tmp_path: Path, version: str) -> None:
    extras = [{"success_mode": mode} for mode in ("holds", "holds", "ever", "", "at the end")]
    episodes = open_episodes(dataset(tmp_path / "d", version=version, extras=extras))
    labels = [(e.labels.success_mode, e.labels.success) for e in episodes]
    # Each but the second succeeds in one frame in the middle, and no more in the last one.
    assert labels[:4] == [("holds", False), ("holds", False), ("ever", True), ("ever", True)]
    assert labels[4] == (None, None)
    assert [problem.where for problem in episodes.problems] == ["episode_000004"]
    assert "'at the end'; expected ever or holds" in episodes.problems[0].why
    assert any("holds" in rule for rule in episodes.rules)


def test_without_the_columns_the_policy_is_unknown(tmp_path: Path) -> None:
    episodes = open_episodes(dataset(tmp_path / "d", lengths=(3,)))
    assert episodes[0].policy is None
    assert any("Policy: unknown" in rule for rule in episodes.rules)
