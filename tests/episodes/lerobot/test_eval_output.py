"""What lerobot-eval leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.errors import OptionError, SourceError
from tests.episodes.layout import lay
from tests.media import numbered, write_video

NO_LISTS = '{"per_task": [{"task_group": "x", "task_id": 0, "metrics": {"successes": 3}}]}'


def task(group: str, number: int, successes: list[bool], videos: int, root: str = "/gone") -> dict[str, Any]:
    paths = [f"{root}/videos/{group}_{number}/eval_episode_{i}.mp4" for i in range(videos)]
    rewards = [float(success) for success in successes]
    metrics = {"sum_rewards": rewards, "max_rewards": rewards, "successes": successes, "video_paths": paths}
    return {"task_group": group, "task_id": number, "metrics": metrics}


def evaluation(root: Path, *tasks: dict[str, Any]) -> Path:
    """A run folder whose eval_info.json has an empty group, which lerobot-eval writes as a bare NaN."""
    info = {"per_task": tasks, "per_group": {"none": {"pc_success": float("nan")}}, "overall": {}}
    root.mkdir(parents=True, exist_ok=True)
    (root / "eval_info.json").write_text(json.dumps(info))
    assert "NaN" in (root / "eval_info.json").read_text()
    for entry in tasks:
        name = f"{entry['task_group']}_{entry['task_id']}"
        lay(root, *(f"videos/{name}/{Path(p).name}" for p in entry["metrics"]["video_paths"]))
    return root


def test_each_video_is_an_episode_with_its_success(tmp_path: Path) -> None:
    root = evaluation(
        tmp_path / "run",
        task("libero_spatial", 0, [True, False], 2),
        task("libero_spatial", 3, [False], 1),
    )
    episodes = open_episodes(root)
    assert (episodes.reader, episodes.problems) == ("lerobot-eval", ())
    assert [(e.id, e.task, e.labels.success) for e in episodes] == [
        ("videos/libero_spatial_0/eval_episode_0", "libero_spatial_0", True),
        ("videos/libero_spatial_0/eval_episode_1", "libero_spatial_0", False),
        ("videos/libero_spatial_3/eval_episode_0", "libero_spatial_3", False),
    ]
    first = episodes[0]
    assert (first.instruction, first.policy, first.dataset) == ("libero spatial", None, None)
    assert (first.labels.success_mode, first.metadata["max_rewards"]) == ("ever", 1.0)


def test_labels_follow_the_episodes_number_and_not_its_place_in_the_listing(tmp_path: Path) -> None:
    root = evaluation(tmp_path / "run", task("pusht", 0, [i == 9 for i in range(10)], 10))
    (root / "videos" / "pusht_0" / "eval_episode_2.mp4").unlink()
    episodes = open_episodes(root)
    assert {e.id[-1] for e in episodes if e.labels.success} == {"9"}
    assert len(episodes) == 9
    assert [problem.where for problem in episodes.problems] == [
        "videos/pusht_0/eval_episode_2",
        "videos/pusht_0",
    ]


def test_the_files_own_count_of_successes_is_compared_with_its_list(tmp_path: Path) -> None:
    counted = {"n_episodes": 2, "n_success": 1, "pc_success": 50.0, "pc_success_ci95": [9.45, 90.55]}
    good = task("pusht", 0, [True, False], 2) | counted
    assert open_episodes(evaluation(tmp_path / "good", good)).problems == ()
    wrong = task("pusht", 0, [True, True], 2) | counted
    episodes = open_episodes(evaluation(tmp_path / "wrong", wrong))
    assert [episode.labels.success for episode in episodes] == [True, True]
    assert "n_success is 1, and metrics.successes has 2" in episodes.problems[0].why


def test_how_many_have_no_video_is_said(tmp_path: Path) -> None:
    root = evaluation(tmp_path / "run", task("pusht", 0, [True] * 50, 10))
    episodes = open_episodes(root)
    assert len(episodes) == 10
    assert "40 of 50 episodes have no video" in episodes.problems[0].why


def test_a_recorded_path_is_used_where_the_file_still_is_there(tmp_path: Path) -> None:
    elsewhere = write_video(tmp_path / "out" / "videos" / "pusht_0" / "eval_episode_0.mp4", 3)
    root = tmp_path / "copied"
    root.mkdir()
    entry = task("pusht", 0, [True], 1, str(tmp_path / "out"))
    (root / "eval_info.json").write_text(json.dumps({"per_task": [entry]}))
    (episode,) = open_episodes(root)
    assert episode.views["main"].location() == str(elsewhere)
    assert len(episode.clip(count=3)) == 3


def test_recordings_are_read_as_lerobot_datasets(tmp_path: Path) -> None:
    root = evaluation(tmp_path / "run", task("pusht", 0, [True, False], 0), task("aloha", 1, [True], 0))
    for name, success in (("pusht_0/env_0", True), ("pusht_0/env_1", False), ("aloha_1", True)):
        steps = [
            {
                "observation.images.top": numbered(i, 64, 48),
                "action": [0.0],
                "next.success": success and i == 3,
            }
            for i in range(4)
        ]
        write_lerobot(root / "recordings" / name, [Recording("push the T", steps)], fps=10)
    episodes = open_episodes(root)
    assert episodes.problems == ()
    assert [(e.id, e.task, e.instruction, e.labels.success) for e in episodes] == [
        ("recordings/aloha_1/episode_000000", "aloha_1", "push the T", True),
        ("recordings/pusht_0/env_0/episode_000000", "pusht_0", "push the T", True),
        ("recordings/pusht_0/env_1/episode_000000", "pusht_0", "push the T", False),
    ]
    assert len(episodes[1].clip("top", count=4)) == 4
    assert {e.dataset for e in episodes} == {None}


def test_a_broken_recording_is_a_problem(tmp_path: Path) -> None:
    root = evaluation(tmp_path / "run", task("pusht", 0, [True], 1))
    lay(root, "recordings/pusht_0/meta/info.json", content="{")
    episodes = open_episodes(root)
    assert len(episodes) == 1
    assert episodes.problems[0].where == "recordings/pusht_0"


def test_several_runs_can_be_compared_by_policy(tmp_path: Path) -> None:
    for policy in ("pi0", "act"):
        evaluation(tmp_path / policy / "12-00-00_pusht", task("pusht", 0, [True], 1))
    lay(tmp_path, "broken/eval_info.json", content="{")
    episodes = open_episodes(tmp_path, policy_from=1)
    assert [(e.id, e.policy) for e in episodes] == [
        ("act/12-00-00_pusht/videos/pusht_0/eval_episode_0", "act"),
        ("pi0/12-00-00_pusht/videos/pusht_0/eval_episode_0", "pi0"),
    ]
    assert [problem.where for problem in episodes.problems] == ["broken"]
    with pytest.raises(OptionError, match="1 = act"):
        open_episodes(tmp_path, policy_from=7)


def test_older_versions_wrote_one_list_of_episodes_with_seeds(tmp_path: Path) -> None:
    rows = [
        {"episode_ix": i, "sum_reward": 1.0, "max_reward": 1.0, "success": i == 1, "seed": 100 + i}
        for i in (0, 1)
    ]
    info = {"per_episode": rows, "aggregated": {}, "video_paths": ["videos/eval_episode_0.mp4"]}
    lay(tmp_path / "run one", "eval_info.json", content=json.dumps(info))
    lay(tmp_path / "run one", "videos/eval_episode_0.mp4", "videos/eval_episode_1.mp4")
    episodes = open_episodes(tmp_path / "run one")
    assert [(e.id, e.pair, e.labels.success, e.task) for e in episodes] == [
        ("videos/eval_episode_0", "100", False, None),
        ("videos/eval_episode_1", "101", True, None),
    ]


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"per_task": 3}', '{"per_task": [{"task_group": "x"}]}', NO_LISTS]
)
def test_another_file_of_that_name_is_a_clear_error(tmp_path: Path, content: str) -> None:
    lay(tmp_path, "eval_info.json", content=content)
    with pytest.raises(SourceError, match="not what lerobot-eval writes"):
        open_episodes(tmp_path)
