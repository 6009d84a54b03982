"""Opening a source, and choosing episodes and frames of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes import open_episodes, reader_registry
from stepscore.episodes.episode import Episode
from stepscore.episodes.source import Listing, Problem, ReadOptions
from stepscore.errors import EpisodeError, OptionError, SourceError, UnknownNameError
from tests.episodes.layout import lay
from tests.fakes import FakeView
from tests.media import write_video


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return lay(tmp_path / "source", "pour/a.mp4", "pour/b.mp4", "wipe_table/c.mp4")


def test_episodes_are_a_sequence_and_a_mapping_by_id(source: Path) -> None:
    episodes = open_episodes(str(source))
    assert len(episodes) == 3
    assert [e.id for e in episodes] == ["pour/a", "pour/b", "wipe_table/c"]
    assert episodes[-1].id == episodes["wipe_table/c"].id == "wipe_table/c"
    assert [e.id for e in episodes[1:]] == ["pour/b", "wipe_table/c"]
    assert (episodes[0].source, episodes.reader) == (str(source), "folder")
    assert "3 from" in repr(episodes)
    with pytest.raises(UnknownNameError, match=r"Unknown episode 'pour/x' .*Did you mean 'pour/[ab]'"):
        episodes["pour/x"]


def test_episodes_can_be_chosen_by_id_task_and_number(source: Path) -> None:
    episodes = open_episodes(source)
    assert [e.id for e in episodes.select(["wipe_table/c", "pour/a", "pour/a"])] == ["pour/a", "wipe_table/c"]
    with pytest.raises(UnknownNameError):
        episodes.select(["nothing"])
    assert [e.id for e in open_episodes(source, task="pour", limit=1)] == ["pour/a"]
    assert [e.id for e in open_episodes(source, task="wipe table")] == ["wipe_table/c"]
    with pytest.raises(UnknownNameError, match=r"Unknown task 'wipe'.*Valid: pour, wipe table"):
        open_episodes(source, task="wipe")
    with pytest.raises(OptionError, match="limit must be at least 1, got 0"):
        open_episodes(source, limit=0)


def test_one_instruction_can_be_said_for_all_episodes(source: Path) -> None:
    lay(source.parent, "s.yaml", content='tasks: {"pour the tea": {subgoals: [grasp, tilt]}}')
    renamed = open_episodes(source, instruction="pour the tea", subgoals=source.parent / "s.yaml")
    assert {(e.instruction, e.task, len(e.subgoals)) for e in renamed} == {
        ("pour the tea", "pour the tea", 2)
    }
    assert [e.instruction for e in renamed[1:]] == ["pour the tea"] * 2
    assert len(open_episodes(source, instruction="pour the tea", task="pour the tea")) == 3
    with pytest.raises(OptionError, match="instruction is empty"):
        open_episodes(source, instruction=" ")


def test_a_task_that_has_a_name_of_its_own_keeps_it_under_another_instruction(tmp_path: Path) -> None:
    lay(tmp_path, "a.mp4")
    lay(tmp_path, "manifest.jsonl", content='{"video": "a.mp4", "instruction": "pour", "task": "tea-3"}')
    (episode,) = open_episodes(tmp_path, instruction="pour the tea")
    assert (episode.instruction, episode.task) == ("pour the tea", "tea-3")


def test_labels_and_subgoals_are_joined_and_the_source_stays_as_it_is(source: Path) -> None:
    before = sorted(path.stat().st_mtime_ns for path in source.rglob("*"))
    lay(source.parent, "l.csv", content="episode_id,kind,name,value\npour/b,success,ever,1\n")
    lay(source.parent, "s.yaml", content="tasks: {pour: {subgoals: [grasp, tilt]}}")
    episodes = open_episodes(source, labels=source.parent / "l.csv", subgoals=str(source.parent / "s.yaml"))
    assert [e.labels.success for e in episodes] == [None, True, None]
    assert [[s.name for s in e.subgoals] for e in episodes] == [["grasp", "tilt"], ["grasp", "tilt"], []]
    assert sorted(path.stat().st_mtime_ns for path in source.rglob("*")) == before


def test_a_label_file_overrides_what_the_source_says(tmp_path: Path) -> None:
    lay(tmp_path, "x/a.mp4")
    lay(tmp_path, "x/step_metrics.csv", content="EpisodeSuccess\n0\n")
    lay(tmp_path, "l.csv", content="episode_id,kind,name,value\nx/a,success,holds,1\n")
    assert open_episodes(tmp_path).select(["x/a"])[0].labels.success is False
    assert open_episodes(tmp_path, labels=tmp_path / "l.csv")["x/a"].labels.success is True


def test_a_source_that_is_not_there_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file or folder"):
        open_episodes(tmp_path / "nowhere")


def test_an_unknown_reader_lists_the_known_ones(source: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"Did you mean 'folder'\?.*stepscore ls readers"):
        open_episodes(source, reader="foldr")


def test_an_empty_source_says_why(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        def matches(self, path: Path) -> bool:
            return path.name == "nothing here"

        def read(self, path: Path, options: ReadOptions) -> Listing:
            return Listing([], (Problem("a.bin", "it is broken"),))

    monkeypatch.setitem(reader_registry._targets, "test-nothing", Nothing)
    (source / "nothing here").mkdir()
    with pytest.raises(SourceError, match=r"read as test-nothing.*a\.bin: it is broken"):
        open_episodes(source / "nothing here")


def test_every_builtin_reader_answers_without_raising_for_any_path(tmp_path: Path) -> None:
    lay(tmp_path, "file.bin", "empty/x")
    for path in (tmp_path, tmp_path / "file.bin", tmp_path / "nowhere", tmp_path / "empty"):
        for name in ("lerobot", "lerobot-eval", "hdf5", "curves", "prm"):
            assert reader_registry.get(name)().matches(path) is False


# Views and clips of an episode


def test_a_view_is_named_unless_there_is_one() -> None:
    one, two = FakeView(), FakeView(n=20)
    assert Episode("e", "x", views={"top": one}).view() is one
    several = Episode("e", "x", views={"top": one, "wrist": two})
    assert several.view("wrist") is two
    with pytest.raises(OptionError, match="several views: top, wrist"):
        several.view()
    with pytest.raises(UnknownNameError, match=r"'wrst' in episode e. Did you mean 'wrist'"):
        several.view("wrst")
    with pytest.raises(EpisodeError, match="has no video"):
        Episode("e", "x").view()
    assert Episode("e", "x").info is None


def test_the_main_view_is_the_first() -> None:
    views = {"top": FakeView(), "wrist": FakeView(n=20)}
    assert Episode("e", "x", views=views).main_view == "top"
    assert Episode("e", "x", views=views).with_views(["wrist", "top"]).main_view == "wrist"
    with pytest.raises(EpisodeError, match="Episode e has no video"):
        _ = Episode("e", "x").main_view


def test_a_clip_carries_frames_times_and_numbers(tmp_path: Path) -> None:
    write_video(tmp_path / "a.mp4", 20, fps=10)
    (episode,) = open_episodes(tmp_path)
    clip = episode.clip(times=[0.0, 0.55, 1.9])
    assert clip.indices.tolist() == [0, 5, 19]
    assert np.allclose(clip.timestamps, [0.0, 0.5, 1.9])
    assert len(episode.clip(fps=2.0)) == 4
    assert episode.clip(count=3, size=48).frames.shape == (3, 32, 48, 3)
    assert repr(clip) == "Clip(3 frames, 96x64, 0.00-1.90 s, indices 0-19)"
    assert repr(episode.clip(indices=[4])) == "Clip(1 frame, 96x64, 0.40-0.40 s, indices 4-4)"


def test_the_fingerprint_changes_with_the_images_and_not_with_the_name(tmp_path: Path) -> None:
    write_video(tmp_path / "a" / "v.mp4", 5)
    write_video(tmp_path / "b" / "w.mp4", 5)
    write_video(tmp_path / "c" / "v.mp4", 6)
    prints = [episode.fingerprint for episode in open_episodes(tmp_path)]
    assert prints[0] == prints[1] != prints[2]
