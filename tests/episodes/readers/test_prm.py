"""The folders of PRM-as-a-Judge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.readers.prm import PrmReader
from stepscore.errors import ManifestError, OptionError
from tests.episodes.layout import lay

PROMPTS = {"arrange_flowers": "Insert the three flowers into the vase.", "set_the_plates": "Set the plates."}


def triplet(place: str, episode: str = "episode0") -> list[str]:
    return [f"{place}/{episode}_{view}_0812.mp4" for view in ("high", "left", "right")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The example layout: two tasks, two models, goals and one judged run."""
    lay(tmp_path, "tasks/demo.json", content=json.dumps(PROMPTS))
    for place in ("arrange_flowers/pi0", "arrange_flowers/act", "set_the_plates/pi0"):
        lay(tmp_path, *triplet(f"videos/demo/{place}"))
    lay(tmp_path, "goals/demo/arrange_flowers/goal.jpg")
    lay(tmp_path, "results/run_260101_120000/demo/pi0/arrange_flowers/episode0/pred_vllm.json")
    return tmp_path


def test_the_layout_says_task_policy_dataset_and_views(home: Path) -> None:
    episodes = open_episodes(home)
    assert (episodes.reader, episodes.problems) == ("prm", ())
    assert [e.id for e in episodes] == [
        "demo/arrange_flowers/act/episode0",
        "demo/arrange_flowers/pi0/episode0",
        "demo/set_the_plates/pi0/episode0",
    ]
    one = episodes["demo/arrange_flowers/pi0/episode0"]
    assert (one.task, one.policy, one.dataset) == ("arrange_flowers", "pi0", "demo")
    assert one.instruction == "Insert the three flowers into the vase."
    assert list(one.views) == ["high", "left", "right"]
    assert one.views["left"].location().endswith("episode0_left_0812.mp4")
    assert one.goals == {"high": home / "goals/demo/arrange_flowers/goal.jpg"}
    assert [path.name for path in one.recorded] == ["pred_vllm.json"]
    assert episodes[0].recorded == ()
    assert episodes[2].goals == {}


def test_the_videos_folder_may_be_the_source(home: Path) -> None:
    from_videos, from_home = open_episodes(home / "videos"), open_episodes(home)
    assert from_videos.reader == "prm"
    assert [(e.id, e.instruction, e.recorded, e.goals) for e in from_videos] == [
        (e.id, e.instruction, e.recorded, e.goals) for e in from_home
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tasks.json", {"pour": "Pour it."}),
        ("tasks.json", {"bench": {"pour": "Pour it."}}),
        ("tasks/bench.json", {"pour": "Pour it."}),
    ],
)
def test_benchmarks_may_lie_in_the_source_itself(
    tmp_path: Path, name: str, content: dict[str, object]
) -> None:
    lay(tmp_path, name, content=json.dumps(content))
    lay(tmp_path, *triplet("bench/pour/pi0"))
    (episode,) = open_episodes(tmp_path)
    assert (episode.id, episode.instruction) == ("bench/pour/pi0/episode0", "Pour it.")


def test_every_judged_run_is_a_candidate(home: Path) -> None:
    lay(home, "results/run_260102_120000/demo/pi0/arrange_flowers/episode0/pred_vllm.json")
    assert len(open_episodes(home)["demo/arrange_flowers/pi0/episode0"].recorded) == 2


def test_results_are_found_under_the_names_the_judge_writes(tmp_path: Path) -> None:
    lay(tmp_path, "tasks/a b.json", content=json.dumps({"pour it!": "Pour."}))
    lay(tmp_path, *triplet("videos/a b/pour it!/pi 0"))
    lay(tmp_path, "results/r/a_b/pi_0/pour_it/episode0/pred_vllm.json")
    assert len(open_episodes(tmp_path)[0].recorded) == 1


def test_what_does_not_fit_is_a_problem(home: Path) -> None:
    lay(home, *triplet("videos/demo/unknown_task/pi0"), "videos/demo/arrange_flowers/stray.mp4")
    lay(
        home,
        "videos/demo/arrange_flowers/pi0/overview.mp4",
        "videos/demo/arrange_flowers/pi0/episode0_high_2.mp4",
    )
    lay(home, "videos/demo/arrange_flowers/pi0/episode1_high.mp4", "goals/demo/arrange_flowers/other.png")
    episodes = open_episodes(home)
    assert list(episodes["demo/arrange_flowers/pi0/episode1"].views) == ["high"]
    assert episodes["demo/unknown_task/pi0/episode0"].instruction == "unknown task"
    assert episodes["demo/arrange_flowers/pi0/episode0"].goals == {}
    assert {problem.where: problem.why for problem in episodes.problems if "goals" not in problem.where} == {
        "demo/arrange_flowers": "1 videos, not in a folder <benchmark>/<task>/<model>",
        "demo/arrange_flowers/pi0/overview.mp4": "its name has none of _high, _left, _right",
        "demo/arrange_flowers/pi0/episode0_high_2.mp4": (
            "episode0_high_0812.mp4 is already that view; this one is left out"
        ),
        "demo/arrange_flowers/pi0/episode1": "has no view left and no view right",
        "demo/unknown_task/pi0": "no instruction for task 'unknown_task'; the name of its folder is used",
    }


def test_a_depth_overrules_the_layouts_policy(home: Path) -> None:
    assert {e.policy for e in open_episodes(home, policy_from=2)} == {"arrange_flowers", "set_the_plates"}
    with pytest.raises(OptionError, match="1 = demo, 2 = arrange_flowers, 3 = act"):
        open_episodes(home, policy_from=4)


@pytest.mark.parametrize("content", ["{", "[]", '{"arrange_flowers": 3}', '{"demo": {"pour": ""}}'])
def test_wrong_instructions_are_named(home: Path, content: str) -> None:
    lay(home, "tasks/demo.json", content=content)
    with pytest.raises(ManifestError, match=r"demo\.json"):
        open_episodes(home)


def test_plain_folders_are_not_taken_for_it(tmp_path: Path) -> None:
    lay(tmp_path / "a", *triplet("bench/pour/pi0"))
    lay(tmp_path / "b", "tasks/bench.json", "videos/bench/pour/episode.mp4", content="{}")
    reader = PrmReader()
    assert not any(reader.matches(tmp_path / name) for name in ("a", "b", "nowhere"))
    with pytest.raises(ManifestError, match="no instructions there"):
        open_episodes(tmp_path / "a", reader="prm")
