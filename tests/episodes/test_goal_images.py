"""Goal images that the user chooses: a file, an image a task, the last frame of another scene's success."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import stepscore
from stepscore.episodes import Episodes, GoalFrame, open_episodes
from stepscore.errors import OptionError, ProtocolMismatchError
from stepscore.judges.hop import Hop
from stepscore.models.mock import MockModel
from stepscore.runs import CallOptions
from stepscore.runs.run import Run
from stepscore.testing import TASKS, write_toy_rollouts
from tests.judges.asked import images_of

RED, GREEN, BLUE = TASKS


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_toy_rollouts(tmp_path_factory.mktemp("goals") / "toys", scenes=2)


def image(path: Path, colour: tuple[int, int, int] = (200, 10, 10)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 6), colour).save(path)
    return path


def relabelled(
    toys: Path, folder: Path, success: dict[str, bool], pair: dict[str, str] | None = None
) -> Path:
    """The same videos of the red block with other labels of success and other scenes."""
    rows = [json.loads(line) for line in (toys / "manifest.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["id"] in success]
    for row in kept:
        row |= {"video": str(toys / row["video"]), "success": success[row["id"]]}
        row["pair"] = (pair or {}).get(row["id"], row["pair"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "manifest.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    return folder / "manifest.jsonl"


def judged(episodes: Episodes, out: Path) -> tuple[Run, MockModel]:
    model = MockModel("m", script=lambda request: "<score>+10%</score>")
    judge = Hop(model, mode="backward", points=2)
    return stepscore.score(episodes, judge, out, call_options=CallOptions(cache=False)), model


class TestAFile:
    def test_it_is_the_goal_of_every_episode_and_stands_in_the_results(
        self, toys: Path, tmp_path: Path
    ) -> None:
        path = image(tmp_path / "goal.png")
        run, model = judged(open_episodes(toys, limit=2, goal=path), tmp_path / "run")
        shown = images_of(model.requests[0])[1].clip.frames[0]
        assert shown.reshape(-1, 3).min(axis=0).tolist() == [200, 10, 10]
        rows = run.episodes().column("goals").to_pylist()
        assert [[goal["location"] for goal in row] for row in rows] == [[str(path)]] * 2
        assert run.protocol.content["goal"] == {"from": "file", "view": None, "labels": False}

    def test_a_changed_image_is_judged_again_and_no_other_episode(self, toys: Path, tmp_path: Path) -> None:
        path = image(tmp_path / "goal.png")
        judged(open_episodes(toys, limit=1, goal=path), tmp_path / "run")
        again, _ = judged(open_episodes(toys, limit=1, goal=path), tmp_path / "run")
        assert again.info["last"]["reused"] == 1
        image(path, (10, 200, 10))
        changed, model = judged(open_episodes(toys, limit=1, goal=path), tmp_path / "run")
        assert changed.info["last"]["judged"] == 1
        assert len(model.requests) == 2

    def test_another_choice_of_goals_is_another_protocol(self, toys: Path, tmp_path: Path) -> None:
        judged(open_episodes(toys, limit=1, goal=image(tmp_path / "goal.png")), tmp_path / "run")
        with pytest.raises(ProtocolMismatchError, match=r"goal\.from"):
            judged(open_episodes(toys, limit=1, goal="last-success"), tmp_path / "run")

    def test_runs_without_it_keep_their_protocol(self, toys: Path, tmp_path: Path) -> None:
        run = stepscore.score(
            open_episodes(toys, limit=1), stepscore.get_judge("linear-time"), tmp_path / "run"
        )
        assert "goal" not in run.protocol.content
        assert run.episodes().column("goals").to_pylist() == [[]]

    def test_it_is_of_the_view_that_is_named(self, toys: Path, tmp_path: Path) -> None:
        (episode,) = open_episodes(toys, limit=1, goal=image(tmp_path / "g.png"), goal_view="wrist")
        assert list(episode.goals) == ["wrist"]

    @pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + b"\0" * 50])
    def test_what_is_no_image_is_refused_at_the_start(
        self, toys: Path, tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "goal.png"
        path.write_bytes(content)
        with pytest.raises(OptionError, match="goal image cannot be used"):
            open_episodes(toys, goal=path)

    def test_a_missing_one_is_named_with_what_is_allowed(self, toys: Path, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match=r"No goal image at .*nothing\.png.*last-success"):
            open_episodes(toys, goal=tmp_path / "nothing.png")


class TestAFolder:
    def test_each_task_has_the_image_of_its_name(self, toys: Path, tmp_path: Path) -> None:
        image(tmp_path / "g" / "push_the_red_block_to_the_goal.png")
        image(tmp_path / "g" / "Push the GREEN block-to the goal.jpg")
        image(tmp_path / "g" / f"{BLUE}.png")
        found = {episode.task: episode.goals["main"] for episode in open_episodes(toys, goal=tmp_path / "g")}
        names = {task: path.name for task, path in found.items() if isinstance(path, Path)}
        assert names == {
            RED: "push_the_red_block_to_the_goal.png",
            GREEN: "Push the GREEN block-to the goal.jpg",
            BLUE: f"{BLUE}.png",
        }

    def test_a_view_may_have_an_image_of_its_own(self, toys: Path, tmp_path: Path) -> None:
        both = image(tmp_path / "g" / f"{RED}.png"), image(tmp_path / "g" / f"{RED}.main.png")
        (episode,) = open_episodes(toys, task=RED, limit=1, goal=tmp_path / "g")
        assert episode.goals == {"main": both[1]}

    def test_a_task_without_one_lists_tasks_and_files(self, toys: Path, tmp_path: Path) -> None:
        image(tmp_path / "g" / f"{RED}.png")
        with pytest.raises(OptionError) as caught:
            open_episodes(toys, goal=tmp_path / "g")
        text = str(caught.value)
        assert "2 of 3 tasks" in text
        assert GREEN in text
        assert BLUE in text
        assert f"{RED}.png" in text
        assert "push_the_blue_block_to_the_goal.png" in text
        assert len(open_episodes(toys, task=RED, goal=tmp_path / "g")) == 6  # the others are not asked for

    def test_two_images_of_one_name_are_refused(self, toys: Path, tmp_path: Path) -> None:
        image(tmp_path / "g" / f"{RED}.png"), image(tmp_path / "g" / f"{RED.replace(' ', '_')}.jpg")
        with pytest.raises(OptionError, match="two goal images for one name"):
            open_episodes(toys, task=RED, goal=tmp_path / "g")


class TestLastSuccess:
    def test_it_is_the_last_frame_of_a_success_in_another_scene(self, toys: Path, tmp_path: Path) -> None:
        labels = {"steady/red_00": True, "steady/red_01": True, "hasty/red_00": False}
        episodes = open_episodes(relabelled(toys, tmp_path / "s", labels), goal="last-success")
        chosen = {episode.id: goal for episode in episodes for goal in episode.goals.values()}
        assert {name: goal.episode_id for name, goal in chosen.items() if isinstance(goal, GoalFrame)} == {
            "hasty/red_00": "steady/red_01",  # red_00 of the other policy is the same scene
            "steady/red_00": "steady/red_01",
            "steady/red_01": "steady/red_00",
        }
        goal = chosen["hasty/red_00"]
        assert isinstance(goal, GoalFrame)
        last = episodes["steady/red_01"].clip(indices=[47]).frames[0]
        np.testing.assert_array_equal(goal.read(), last)
        assert pickle.loads(pickle.dumps(goal)).digest() == goal.digest()

    def test_it_says_in_the_protocol_that_labels_were_used_and_which_frame(
        self, toys: Path, tmp_path: Path
    ) -> None:
        labels = {"steady/red_00": True, "hasty/red_01": False}
        episodes = open_episodes(relabelled(toys, tmp_path / "s", labels), goal="last-success")
        run, _ = judged(episodes.select(["hasty/red_01"]), tmp_path / "run")
        assert run.protocol.content["goal"] == {"from": "last-success", "view": None, "labels": True}
        ((goal,),) = run.episodes().column("goals").to_pylist()
        assert goal["location"].startswith("last frame of steady/red_00 (")

    def test_the_only_success_itself_is_one_row_in_which_nothing_is_known(
        self, toys: Path, tmp_path: Path
    ) -> None:
        labels = {"steady/red_00": True, "hasty/red_01": False, "timid/red_00": False}
        episodes = open_episodes(relabelled(toys, tmp_path / "s", labels), goal="last-success")
        run, _ = judged(episodes, tmp_path / "run")
        errors = {row["episode_id"]: row["error"] for row in run.judgements().to_pylist()}
        assert errors["hasty/red_01"] is None
        for same_scene in ("steady/red_00", "timid/red_00"):
            assert "no labelled success in another scene" in str(errors[same_scene])

    def test_without_scenes_any_other_success_will_do(self, toys: Path, tmp_path: Path) -> None:
        source = relabelled(toys, tmp_path / "s", {"steady/red_00": True, "hasty/red_00": False})
        rows = [json.loads(line) for line in source.read_text().splitlines()]
        source.write_text("".join(json.dumps({**row, "pair": None}) + "\n" for row in rows))
        episodes = open_episodes(source, goal="last-success")
        assert episodes["hasty/red_00"].error is None
        assert "another scene" in str(episodes["steady/red_00"].error)

    def test_it_does_not_depend_on_which_episodes_are_judged(self, toys: Path) -> None:
        everything = open_episodes(toys, goal="last-success")
        few = open_episodes(toys, task=RED, limit=2, goal="last-success")
        for episode in few:
            assert episode.fingerprint == everything[episode.id].fingerprint

    def test_without_a_labelled_success_it_says_so(self, toys: Path, tmp_path: Path) -> None:
        source = relabelled(toys, tmp_path / "s", {"steady/red_00": False, "hasty/red_00": False})
        with pytest.raises(OptionError, match=r"none of the 2 episodes is a labelled success.*--labels"):
            open_episodes(source, goal="last-success")
