"""A folder of videos without a manifest."""

from __future__ import annotations

import json
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes import Episodes, open_episodes
from stepscore.episodes.naming import (
    camera_name,
    in_words,
    instruction_from,
    is_number,
    main_first,
    split_camera,
    views_by_stem,
    views_of_folder,
)
from stepscore.errors import EpisodeError, OptionError, SourceError, VideoError
from tests.episodes.layout import lay
from tests.media import number_of, numbered, write_video


def read(path: Path, **options: Any) -> Episodes:
    return open_episodes(path, reader="folder", **options)


def test_the_real_rollouts_are_read_with_their_instructions_labels_and_curves(shared_data: Path) -> None:
    episodes = open_episodes(shared_data / "rollouts")
    assert (len(episodes), episodes.reader, episodes.problems) == (12, "folder", ())
    assert list(episodes) == sorted(episodes, key=lambda e: e.id)
    for episode in episodes:
        benchmark, folder, file = episode.id.split("/")
        assert file == "episode"
        assert episode.instruction == episode.task == folder
        assert episode.policy is episode.dataset is episode.robot is None
        assert [path.name for path in episode.recorded] == ["step_metrics.csv"]
        assert episode.labels.success_mode == "holds"
        assert (shared_data / "rollouts" / benchmark / folder) == episode.recorded[0].parent
    failed = [episode.instruction for episode in episodes if not episode.labels.success]
    assert failed == ["Open the right drawer", "Fold dishcloth", "Put carrot on plate"]


def test_the_real_bimanual_episode_has_three_views_and_sixteen_stages(shared_data: Path) -> None:
    (episode,) = open_episodes(shared_data / "multiview")
    assert (episode.id, episode.instruction) == ("episode_001", "clean the table")
    assert list(episode.views) == ["cam_high", "cam_left_wrist", "cam_right_wrist"]
    assert episode.metadata["paraphrases"][0] == "organize the table"  # type: ignore[index]
    stages = episode.labels.stages
    assert len(stages) == 16
    assert stages[0] == ("subtask1", pytest.approx(8 / 30), pytest.approx(147 / 30))
    assert stages[-1].end_s == pytest.approx(1263 / 30)


def test_the_id_is_the_path_and_the_folder_is_the_instruction(tmp_path: Path) -> None:
    lay(tmp_path, "suite/Pick up the cup/episode.mp4", "suite/open_the-drawer/a.webm", "suite/x/y/b.MKV")
    episodes = read(tmp_path)
    assert [(e.id, e.instruction) for e in episodes] == [
        ("suite/Pick up the cup/episode", "Pick up the cup"),
        ("suite/open_the-drawer/a", "open the drawer"),
        ("suite/x/y/b", "y"),
    ]
    assert all(e.policy is None and e.dataset is None and e.robot is None for e in episodes)
    assert any("manifest" in rule for rule in episodes.rules)


def test_videos_in_the_source_itself_take_its_name(tmp_path: Path) -> None:
    lay(tmp_path / "fold the towel", "a.mp4", "b.avi", "c.gif", "d.mov")
    episodes = read(tmp_path / "fold the towel")
    assert [e.id for e in episodes] == ["a", "b", "c", "d"]
    assert {e.instruction for e in episodes} == {"fold the towel"}


def test_a_source_called_rollouts_is_still_its_own_instruction(tmp_path: Path) -> None:
    lay(tmp_path / "rollouts", "top.mp4", "episode_1/b.mp4")
    assert {e.instruction for e in read(tmp_path / "rollouts")} == {"rollouts"}


@pytest.mark.parametrize(
    ("folders", "instruction"),
    [
        (["put cup", "episode_001"], "put cup"),
        (["put_cup", "demo-3", "17"], "put cup"),
        (["put cup", "2026-08-23"], "put cup"),
        (["put cup", "9f8e7d6c5b4a"], "put cup"),
        (["suite", "Pick-up the cup"], "Pick-up the cup"),
        (["rollouts", "episode_1"], "rollouts"),
        (["episode_1", "episode_2"], "episode 2"),
        (["runway"], "runway"),
    ],
)
def test_a_numbering_folder_gives_way_to_the_one_above(folders: list[str], instruction: str) -> None:
    assert instruction_from(folders) == instruction


def test_words_are_numbers_only_when_they_number() -> None:
    assert all(map(is_number, ["episode_001", "ep3", "demo", "rollout 7", "seed_3", "0004", "trial_a"]))
    assert not any(map(is_number, ["open drawer", "epic", "demolish", "take the cup", "abc"]))
    assert in_words("__put--cup_") == "put cup"


def test_a_paraphrase_file_gives_the_instruction(tmp_path: Path) -> None:
    lay(tmp_path, "a/ep1/v.mp4", "b/v.mp4", "c/v.mp4")
    lay(tmp_path, "a/task_instruction.json", content='["tidy up", "clean up"]')
    lay(tmp_path, "b/task_instruction.json", content='"wipe"')
    lay(tmp_path, "c/task_instruction.json", content='{"no": "list"}')
    episodes = read(tmp_path)
    assert [e.instruction for e in episodes] == ["tidy up", "wipe", "c"]
    assert episodes[0].metadata == {"paraphrases": ("clean up",)}
    assert episodes[1].metadata == {}
    assert [problem.where for problem in episodes.problems] == ["c/v"]


# Views


def test_sibling_files_with_camera_names_are_one_episode(tmp_path: Path) -> None:
    lay(tmp_path, "t/ep1_cam_left_wrist.mp4", "t/ep1_cam_high.mp4", "t/ep2_cam_high.mp4", "t/other.mp4")
    episodes = read(tmp_path)
    assert {e.id: list(e.views) for e in episodes} == {
        "t/ep1": ["cam_high", "cam_left_wrist"],
        "t/ep2": ["cam_high"],
        "t/other": ["main"],
    }


def test_a_folder_of_cameras_is_one_episode(tmp_path: Path) -> None:
    lay(tmp_path, "pour/episode_001/cam_high.mp4", "pour/episode_001/cam_left_wrist.mp4")
    lay(tmp_path, "pour/episode_002/top.mp4", "wipe the table/front.mp4", "wipe the table/wrist.mp4")
    episodes = read(tmp_path)
    assert {e.id: (list(e.views), e.instruction) for e in episodes} == {
        "pour/episode_001": (["cam_high", "cam_left_wrist"], "pour"),
        "pour/episode_002": (["top"], "pour"),
        "wipe the table": (["front", "wrist"], "wipe the table"),
    }


def test_a_camera_folder_may_be_the_source_itself(tmp_path: Path) -> None:
    lay(tmp_path / "pour" / "episode_7", "top.mp4", "wrist.mp4")
    (episode,) = read(tmp_path / "pour" / "episode_7")
    assert (episode.id, episode.instruction) == ("episode_7", "pour")


@pytest.mark.parametrize(
    ("stems", "episodes"),
    [
        (["turn_left", "turn_right"], {"turn_left": ["main"], "turn_right": ["main"]}),
        (["turn", "turn_left"], {"turn": ["main"], "turn_left": ["main"]}),
        (["a_high", "a_left", "a_right"], {"a": ["high", "left", "right"]}),
        (["a", "a_wrist"], {"a": ["main", "wrist"]}),
        (["a_wrist"], {"a_wrist": ["main"]}),
        (["a_cam0", "a_cam1"], {"a": ["cam0", "cam1"]}),
        (["a_front_1", "a_front_2"], {"a_front_1": ["main"], "a_front_2": ["main"]}),
        (["a_cam_high_01", "a_cam_high_02"], {"a_cam_high_01": ["main"], "a_cam_high_02": ["main"]}),
        (["a_front_image_1", "a_front_image_2"], {"a": ["front_image_1", "front_image_2"]}),
        (["e.observation.images.top", "e.observation.images.wrist"], {"e": ["top", "wrist"]}),
        (
            ["x_front", "x_wrist", "y_wrist", "y_plan"],
            {"x": ["front", "wrist"], "y": ["wrist"], "y_plan": ["main"]},
        ),
    ],
)
def test_names_become_views(stems: list[str], episodes: dict[str, list[str]]) -> None:
    assert {name: list(views) for name, views in views_by_stem(stems).items()} == episodes


def test_camera_names_are_told_from_other_words() -> None:
    for name in (
        "cam_high",
        "camera_1",
        "wrist",
        "left_wrist",
        "top_view",
        "robot0_eye_in_hand",
        "agentview",
    ):
        assert camera_name(name) == name
    for name in ("episode", "cup", "left_cup", "camera_shop", "handover"):
        assert camera_name(name) is None
    assert split_camera("ep_01_cam_left_wrist") == ("ep_01", "cam_left_wrist")
    assert split_camera("handover") is None
    assert main_first(["wrist", "left", "front"]) == ["front", "left", "wrist"]
    assert views_of_folder(["left", "right"], numbered=False) is None
    assert views_of_folder(["left", "right"], numbered=True) == {"left": "left", "right": "right"}


def test_two_formats_of_one_name_do_not_pass_for_two_episodes(tmp_path: Path) -> None:
    lay(tmp_path, "a.avi", "a.mp4")
    episodes = read(tmp_path)
    assert [e.views["main"].location() for e in episodes] == [str(tmp_path / "a.mp4")]
    assert [problem.where for problem in episodes.problems] == ["a.avi"]


def test_a_camera_folder_and_a_video_of_one_name_do_not_share_an_id(tmp_path: Path) -> None:
    lay(tmp_path, "ep1.mp4", "ep1/top.mp4", "ep1/wrist.mp4")
    episodes = read(tmp_path)
    assert [e.id for e in episodes] == ["ep1"]
    assert [problem.where for problem in episodes.problems] == ["ep1"]


# Image sequences


def test_numbered_images_are_a_video_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    folder = tmp_path / "stack the cubes" / "ep1"
    folder.mkdir(parents=True)
    for number in range(12):
        Image.fromarray(numbered(number)).save(folder / f"frame_{number}.png")
    lay(folder, "goal.png")
    (episode,) = read(tmp_path)
    assert (episode.id, episode.instruction) == ("stack the cubes/ep1", "stack the cubes")
    clip = episode.clip(count=12)
    assert [number_of(frame) for frame in clip.frames] == list(range(12))
    assert np.allclose(clip.timestamps, np.arange(12) / 25)


def test_image_sequences_can_be_the_cameras_of_an_episode(tmp_path: Path) -> None:
    for camera in ("cam_high", "cam_wrist"):
        lay(tmp_path, *(f"sort/episode_3/{camera}/{n:04d}.jpg" for n in range(3)))
    (episode,) = read(tmp_path)
    assert (episode.id, list(episode.views), episode.instruction) == (
        "sort/episode_3",
        ["cam_high", "cam_wrist"],
        "sort",
    )


def test_the_source_may_be_an_image_sequence(tmp_path: Path) -> None:
    lay(tmp_path / "sort" / "ep4", "1.png", "2.png", "step_metrics.csv")
    (episode,) = read(tmp_path / "sort" / "ep4")
    assert (episode.id, episode.instruction) == ("ep4", "sort")


def test_images_that_are_no_sequence_are_left_alone(tmp_path: Path) -> None:
    lay(tmp_path, "a/ep.mp4", "a/plot_1.png", "a/plot_2.png", "b/only_1.png", "c/l_1.png", "c/l_2.png")
    lay(tmp_path, "c/r_1.png", "c/r_2.png")
    episodes = read(tmp_path)
    assert [e.id for e in episodes] == ["a/ep"]
    assert [problem.where for problem in episodes.problems] == ["c"]
    assert "l_, r_" in episodes.problems[0].why


# Policies


def test_the_policy_is_the_folder_at_the_depth_asked_for(tmp_path: Path) -> None:
    lay(tmp_path, "pi0/pour/a.mp4", "act/pour/a.mp4")
    assert {e.policy for e in read(tmp_path)} == {None}
    episodes = read(tmp_path, policy_from=1)
    assert [(e.policy, e.instruction) for e in episodes] == [("act", "pour"), ("pi0", "pour")]


def test_a_policy_folder_is_not_the_instruction_too(tmp_path: Path) -> None:
    lay(tmp_path, "pour/pi0/a.mp4")
    (episode,) = read(tmp_path, policy_from=2)
    assert (episode.policy, episode.instruction) == ("pi0", "pour")


@pytest.mark.parametrize("depth", [0, 3, -1])
def test_a_wrong_depth_lists_the_folders_there_are(tmp_path: Path, depth: int) -> None:
    lay(tmp_path, "pi0/pour/a.mp4")
    with pytest.raises(OptionError, match=r"1 = pi0, 2 = pour"):
        read(tmp_path, policy_from=depth)


# Goals, curves and labels beside an episode


def test_goal_images_belong_to_views(tmp_path: Path) -> None:
    lay(tmp_path, "t/a.mp4", "t/b.mp4", "t/goal.png", "t/b.goal.jpg")
    lay(tmp_path, "u/a_front.mp4", "u/a_wrist.mp4", "u/a_wrist.goal.png")
    lay(tmp_path, "ep1/top.mp4", "ep1/wrist.mp4", "ep1/wrist.goal.png", "ep1/goal.jpeg")
    goals = {e.id: {view: Path(str(path)).name for view, path in e.goals.items()} for e in read(tmp_path)}
    assert goals == {
        "t/a": {"main": "goal.png"},
        "t/b": {"main": "b.goal.jpg"},
        "u/a": {"wrist": "a_wrist.goal.png"},
        "ep1": {"top": "goal.jpeg", "wrist": "wrist.goal.png"},
    }


def test_a_curve_named_after_the_video_goes_before_all_others(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4", "a.curve.jsonl", "progress.csv")
    (episode,) = read(tmp_path)
    assert [path.name for path in episode.recorded] == ["a.curve.jsonl"]


def test_every_curve_file_beside_the_only_episode_is_a_candidate(tmp_path: Path) -> None:
    names = ["curve.csv", "pred_vllm.json", "progress.jsonl", "sarm_progress.parquet", "z.curve.parquet"]
    lay(tmp_path, "a.mp4", "notes.csv", "video.json", *names)
    (episode,) = read(tmp_path)
    assert [path.name for path in episode.recorded] == names


def test_nobody_owns_a_curve_file_beside_several_episodes(tmp_path: Path) -> None:
    lay(tmp_path, "t/a.mp4", "t/b.mp4", "t/b.curve.csv", "t/step_metrics.csv")
    episodes = read(tmp_path)
    assert [[path.name for path in e.recorded] for e in episodes] == [[], ["b.curve.csv"]]
    assert [e.labels.success for e in episodes] == [None, None]
    assert len(episodes.problems) == 1
    assert "several episodes" in episodes.problems[0].why


def test_a_curve_without_a_video_is_an_episode_without_views(tmp_path: Path) -> None:
    lay(tmp_path, "t/a.mp4", "t/a.curve.csv", "t/b.curve.csv", "u/c.curve.parquet", "u/c.curve.csv")
    episodes = read(tmp_path)
    assert [(e.id, list(e.views), [p.name for p in e.recorded]) for e in episodes] == [
        ("t/a", ["main"], ["a.curve.csv"]),
        ("t/b", [], ["b.curve.csv"]),
        ("u/c", [], ["c.curve.csv", "c.curve.parquet"]),
    ]
    with pytest.raises(EpisodeError, match="has no video"):
        episodes["t/b"].clip(count=1)


@pytest.mark.parametrize(("cell", "success"), [("1", True), ("0", False), ("1.0", True), ("False", False)])
def test_step_metrics_label_success(tmp_path: Path, cell: str, success: bool) -> None:
    lay(tmp_path, "a.mp4")
    lay(tmp_path, "step_metrics.csv", content=f"Step,EpisodeSuccess\n1,{cell}\n2,{cell}\n")
    (episode,) = read(tmp_path)
    (label,) = episode.labels.rows
    assert (label.kind, label.name, label.author) == ("success", "holds", "step_metrics.csv")
    assert episode.labels.success is success


@pytest.mark.parametrize(
    "content", ["EpisodeSuccess\n1\n0\n", "EpisodeSuccess\nmaybe\n", "EpisodeSuccess\n\xff"]
)
def test_malformed_step_metrics_are_a_problem_and_no_label(tmp_path: Path, content: str) -> None:
    lay(tmp_path, "a.mp4")
    (tmp_path / "step_metrics.csv").write_bytes(content.encode("latin-1"))
    episodes = read(tmp_path)
    assert episodes[0].labels.success is None
    assert "no success label" in episodes.problems[0].why


def test_step_metrics_without_the_column_say_nothing_of_success(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4")
    lay(tmp_path, "step_metrics.csv", content="Step,StepProgress\n1,0.5\n")
    episodes = read(tmp_path)
    assert (episodes[0].labels.success, episodes.problems) == (None, ())


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        '{"a": 1}',
        '[{"anotation": "x", "start_frame_id": 5}]',
        '[{"anotation": "x", "start_frame_id": 5, "end_frame_id": 5}]',
        '[{"anotation": "x", "start_frame_id": "0", "end_frame_id": 5}]',
    ],
)
def test_wrong_keyframes_are_a_problem_and_no_stages(tmp_path: Path, content: str) -> None:
    write_video(tmp_path / "a.mp4", 4)
    lay(tmp_path, "annotated_keyframes.json", content=content)
    episodes = read(tmp_path)
    assert episodes[0].labels.stages == ()
    assert "annotated_keyframes.json" in episodes.problems[0].why


def test_keyframes_of_a_file_that_is_no_video_are_a_problem(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4")
    keyframes = [{"anotation": "x", "start_frame_id": 0, "end_frame_id": 5}]
    lay(tmp_path, "annotated_keyframes.json", content=json.dumps(keyframes))
    assert [problem.where for problem in read(tmp_path).problems] == ["a"]


# Bad input


def test_an_empty_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"No episodes in .*\.mp4"):
        read(tmp_path)


def test_hidden_and_empty_files_are_problems(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4", "._a.mp4", ".b.mp4", ".DS_Store", ".cache/c.mp4", "notes.txt")
    (tmp_path / "empty.mp4").touch()
    (tmp_path / "empty.txt").touch()
    episodes = read(tmp_path)
    assert [e.id for e in episodes] == ["a"]
    assert {problem.where: problem.why.split()[-1] for problem in episodes.problems} == {
        "._a.mp4": "itself",
        ".b.mp4": "file",
        "empty.mp4": "bytes)",
    }


def test_a_file_that_is_no_video_is_listed_and_fails_when_used(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4")
    write_video(tmp_path / "b.mp4", 4)
    bad, good = read(tmp_path)
    with pytest.raises(VideoError):
        bad.clip(count=1)
    assert len(good.clip(count=4)) == 4


def test_links_that_go_in_circles_end(tmp_path: Path) -> None:
    lay(tmp_path, "a/x.mp4")
    (tmp_path / "a" / "up").symlink_to(tmp_path)
    (tmp_path / "self").symlink_to(tmp_path / "self")
    episodes = read(tmp_path)
    assert [e.id for e in episodes] == ["a/x"]
    assert any("listed already" in problem.why for problem in episodes.problems)


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay(tmp_path, "a/x.mp4", "b/y.mp4")
    listed = os.scandir

    def scandir(path: Path) -> Iterator[os.DirEntry[str]]:
        if Path(path).name == "a":
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    episodes = read(tmp_path)
    assert [e.id for e in episodes] == ["b/y"]
    assert episodes.problems == (("a", "cannot be listed: Permission denied"),)


# One video file


def test_the_source_may_be_one_video(tmp_path: Path) -> None:
    write_video(tmp_path / "open the box" / "a_front.mp4", 5)
    lay(tmp_path / "open the box", "a_wrist.mp4", "a.curve.csv", "other.mp4")
    (episode,) = open_episodes(tmp_path / "open the box" / "a_front.mp4")
    assert (episode.id, episode.instruction, list(episode.views)) == ("a_front", "open the box", ["front"])
    assert [path.name for path in episode.recorded] == ["a.curve.csv"]
    assert len(episode.clip(count=3)) == 3


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    lay(tmp_path, "a.txt")
    (tmp_path / "b.mp4").touch()
    with pytest.raises(SourceError, match="neither a folder"):
        open_episodes(tmp_path / "a.txt")
    with pytest.raises(SourceError, match="0 bytes"):
        open_episodes(tmp_path / "b.mp4")


def test_episodes_can_be_pickled(tmp_path: Path) -> None:
    lay(tmp_path, "t/a_front.mp4", "t/a_wrist.mp4", "s/1.png", "s/2.png")
    for episode in read(tmp_path):
        assert pickle.loads(pickle.dumps(episode)) == episode


def test_ten_thousand_files_are_listed_in_a_second(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"x")
    for task in range(100):
        folder = tmp_path / "source" / f"task {task}"
        folder.mkdir(parents=True)
        for number in range(100):
            os.link(tmp_path / "one", folder / f"ep{number}.mp4")
    seconds = []
    for _ in range(3):
        started = time.process_time()
        assert len(open_episodes(tmp_path / "source")) == 10_000
        seconds.append(time.process_time() - started)
    assert min(seconds) < 1.0


def test_a_name_that_no_table_can_hold_is_escaped_and_labels_find_it(tmp_path: Path) -> None:
    for name in (b"a\nb.mp4", b"\xff\xfe.mp4"):
        write_video(tmp_path / "v.mp4", 2)
        os.rename(tmp_path / "v.mp4", os.fsencode(tmp_path) + b"/" + name)
    assert read(tmp_path).ids() == ["%FF%FE", "a%0Ab"]
    labels = tmp_path / "labels.csv"
    labels.write_text("episode_id,kind,name,value\n%FF%FE,success,ever,1\n")
    episodes = read(tmp_path, labels=labels)
    assert episodes.problems == ()
    assert episodes["%FF%FE"].labels.success is True
