"""LeRobot datasets as episodes."""

from __future__ import annotations

import json
import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore._untrusted.parquet_files import open_parquet
from stepscore.episodes import Episode, open_episodes
from stepscore.episodes.lerobot import data_files as lerobot_data
from stepscore.episodes.lerobot.meta import short_names
from stepscore.episodes.lerobot.reader import LeRobotReader
from stepscore.episodes.source import ReadOptions
from stepscore.episodes.video import VideoView
from stepscore.errors import OptionError, SourceError, VideoError
from tests.episodes.lerobot.datasets import FPS, LENGTHS, TOP, WRIST, add_column, change_info, dataset
from tests.media import decode_all, numbers_of

LAYOUTS = [
    pytest.param({"version": version, "codec": codec}, id=f"{version}-{codec}")
    for version in ("v3.0", "v2.1")
    for codec in ("h264", "av1")
]


@pytest.fixture(scope="module", params=LAYOUTS)
def any_layout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Odd lengths, so that with a keyframe every second frame episodes begin on odd frames of the file.
    return dataset(tmp_path_factory.mktemp("lerobot") / "blocks", robot="so101", **request.param)


@pytest.fixture(scope="module")
def v3(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return dataset(tmp_path_factory.mktemp("lerobot") / "blocks")


def test_a_folder_with_meta_info_is_a_dataset(v3: Path, tmp_path: Path) -> None:
    assert LeRobotReader().matches(v3)
    assert not LeRobotReader().matches(tmp_path)
    assert not LeRobotReader().matches(tmp_path / "absent")


def test_episodes_say_what_the_dataset_says(any_layout: Path) -> None:
    episodes = open_episodes(any_layout)
    assert episodes.reader == "lerobot"
    assert episodes.problems == ()
    assert [episode.id for episode in episodes] == [f"episode_{k:06d}" for k in range(5)]
    episode = episodes["episode_000002"]
    assert (episode.source_index, episode.instruction, episode.task) == (
        2,
        "pick up block 0",
        "pick up block 0",
    )
    assert (episode.robot, episode.dataset, episode.policy) == ("so101", "blocks", None)
    assert list(episode.views) == ["top", "wrist"]
    assert episode.info is not None
    assert episode.info[:5] == (12, FPS, 96, 64, 1.2)
    assert episode.metadata["dataset_from_index"] == 12


def test_every_frame_of_every_episode_is_its_own(any_layout: Path) -> None:
    for k, episode in enumerate(open_episodes(any_layout)):
        numbers = [32 * k + i for i in range(LENGTHS[k])]
        clip = episode.clip("top", indices=range(LENGTHS[k]))
        assert numbers_of(clip.frames) == numbers
        np.testing.assert_array_equal(clip.timestamps, np.arange(LENGTHS[k]) / FPS)
        assert numbers_of(255 - episode.clip("wrist", indices=range(LENGTHS[k])).frames) == numbers


def path_of(episode: Episode) -> Path:
    view = episode.view("top")
    assert isinstance(view, VideoView)
    return view.path


def test_frames_at_episode_boundaries_are_bit_identical_to_a_full_decode(any_layout: Path) -> None:
    """Each frame alone, so that every one is reached by a seek, against decoding the whole file."""
    whole: dict[Path, list[Any]] = {}
    for k, episode in enumerate(open_episodes(any_layout)):
        for view in episode.views.values():
            assert isinstance(view, VideoView)
            oracle = whole.setdefault(view.path, decode_all(view.path))
            first = view.info().first_frame
            for i in range(LENGTHS[k]):
                np.testing.assert_array_equal(view.read([i])[0], oracle[first + i])
    assert sum(len(frames) for frames in whole.values()) == 2 * sum(LENGTHS)


def test_an_episode_in_a_shared_file_knows_where_it_begins(v3: Path) -> None:
    episodes = open_episodes(v3)
    assert [episode.info and episode.info.first_frame for episode in episodes] == [0, 7, 0, 12, 0]
    paths = [path_of(episode) for episode in episodes]
    assert paths[0] == paths[1] != paths[2]
    assert len({episode.fingerprint for episode in episodes}) == 5


def test_success_is_true_where_it_was_true_at_some_time(any_layout: Path) -> None:
    episodes = open_episodes(any_layout)
    assert [episode.labels.success for episode in episodes] == [True, False, True, True, True]
    assert {episode.labels.success_mode for episode in episodes} == {"ever"}
    assert any("next.success" in rule for rule in episodes.rules)


def test_success_is_found_in_whichever_batch_of_rows_it_stands(
    v3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lerobot_data._label_columns.cache_clear()
    monkeypatch.setattr(lerobot_data, "_BATCH_ROWS", 4)
    assert [e.labels.success for e in open_episodes(v3)] == [True, False, True, True, True]
    lerobot_data._label_columns.cache_clear()


def test_listing_reads_no_data_and_an_episode_reads_its_own_file_once(
    v3: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def noted(path: Path, error: Any) -> Any:
        opened.append(path.name)
        return open_parquet(path, error)

    lerobot_data._label_columns.cache_clear()
    monkeypatch.setattr(lerobot_data, "open_parquet", noted)
    episodes = open_episodes(v3)
    assert len(episodes) == 5
    assert opened == []
    assert [episodes[k].labels.success for k in (2, 3, 3, 2)] == [True, True, True, True]
    assert opened == ["file-001.parquet"]


def test_episodes_can_be_sliced_and_travel_to_other_processes(v3: Path) -> None:
    listing = LeRobotReader().read(v3, ReadOptions())
    assert [episode.source_index for episode in listing.episodes[1:4][::-1]] == [3, 2, 1]
    assert listing.episodes[-1].source_index == 4
    with pytest.raises(IndexError):
        listing.episodes[5]
    episode = pickle.loads(pickle.dumps(listing.episodes[3]))
    assert numbers_of(episode.clip("top", count=2).frames) == [96, 98]


def test_cameras_are_named_shortly_unless_that_is_ambiguous() -> None:
    assert short_names(["observation.images.top", "observation.image"]) == {
        "image": "observation.image",
        "top": "observation.images.top",
    }
    assert short_names(["observation.top", "observation.images.top"]) == {
        "observation.images.top": "observation.images.top",
        "observation.top": "observation.top",
    }
    # The view of the whole scene first, whatever the order in info.json.
    assert list(short_names(["observation.images.wrist", "observation.images.front"])) == ["front", "wrist"]


def test_depth_maps_are_left_out_and_named(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3,))
    info = json.loads((root / "meta/info.json").read_text())
    wrist = {**info["features"][WRIST], "info": {"is_depth_map": True}}
    change_info(root, features={WRIST: wrist})
    episodes = open_episodes(root)
    assert list(episodes[0].views) == ["top"]
    assert f"Not read, because they are depth maps: {WRIST}." in episodes.rules


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_image_features_are_read_from_the_data_files(tmp_path: Path, version: str) -> None:
    root = dataset(tmp_path / "blocks", version=version, images=[TOP])
    for k, episode in enumerate(open_episodes(root)):
        view = episode.view("top")
        assert view.info() == (LENGTHS[k], FPS, 96, 64, LENGTHS[k] / FPS, 0)
        asked = [LENGTHS[k] - 1, 0, 0, 1]
        assert numbers_of(view.read(asked)) == [32 * k + i for i in asked]
        assert numbers_of(255 - episode.view("wrist").read(asked)) == [32 * k + i for i in asked]
        assert pickle.loads(pickle.dumps(view)) == view
    digests = {episode.view("top").digest() for episode in open_episodes(root)}
    assert len(digests) == 5


def test_images_of_an_episode_may_lie_in_several_row_groups(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", images=[TOP, WRIST], episodes_per_file=None)
    path = next(root.glob("data/*/*.parquet"))
    pq.write_table(pq.read_table(path), path, row_group_size=5)
    for k, episode in enumerate(open_episodes(root)):
        assert numbers_of(episode.view("top").read(range(LENGTHS[k]))) == [
            32 * k + i for i in range(LENGTHS[k])
        ]


def test_images_that_are_not_in_the_file_are_errors(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", images=[TOP], lengths=(4, 3))
    path = next(root.glob("data/*/*.parquet"))
    table = pq.read_table(path)
    images = table[TOP].to_pylist()
    images[2]["bytes"] = None
    column = table.schema.get_field_index(TOP)
    pq.write_table(table.set_column(column, TOP, pa.array(images, table.schema.field(TOP).type)), path)
    episodes = open_episodes(root)
    assert numbers_of(episodes[0].view("top").read([1])) == [1]
    with pytest.raises(VideoError, match=r"episode 0: frame 2 has no image"):
        episodes[0].view("top").read([2])
    pq.write_table(table.slice(0, 5), path)
    with pytest.raises(VideoError, match=r"episode 1: 1 rows in the file instead of 3"):
        episodes[1].view("top").read([0])


SPARSE = {
    "sparse_subtask_names": ["reach", "lift"],
    "sparse_subtask_start_frames": [0, 3],
    "sparse_subtask_end_frames": [3, 6],
}
DENSE = {
    "dense_subtask_names": ["reach", "grasp", "lift"],
    "dense_subtask_start_frames": [0, 2, 4],
    "dense_subtask_end_frames": [2, 4, 6],
}


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_subtask_columns_become_stages(tmp_path: Path, version: str) -> None:
    legacy = {name.removeprefix("sparse_"): value for name, value in SPARSE.items()}
    root = dataset(
        tmp_path / "blocks",
        version=version,
        lengths=(7, 7, 7, 7),
        extras=[{**SPARSE, **DENSE}, DENSE, legacy],
    )
    episodes = open_episodes(root)
    assert episodes[0].labels.stages == (("reach", 0.0, 0.3), ("lift", 0.3, 0.6))
    stages = episodes[0].metadata["dense_stages"]
    assert isinstance(stages, list | tuple)
    assert stages[1] == {"name": "grasp", "start_s": 0.2, "end_s": 0.4}
    assert [stage.name for stage in episodes[1].labels.stages] == ["reach", "grasp", "lift"]
    assert episodes[2].labels.stages == episodes[0].labels.stages
    assert episodes[3].labels.stages == ()
    assert episodes[0].labels.success is True
    assert episodes.problems == ()


def test_stages_that_make_no_sense_are_left_out_and_reported(tmp_path: Path) -> None:
    overlapping = {**SPARSE, "sparse_subtask_start_frames": [0, 2]}
    uneven = {**SPARSE, "sparse_subtask_end_frames": [3]}
    root = dataset(tmp_path / "blocks", lengths=(7, 7), extras=[overlapping, uneven])
    episodes = open_episodes(root)
    assert [episode.labels.stages for episode in episodes] == [(), ()]
    assert [problem.where for problem in episodes.problems] == ["episode_000000", "episode_000001"]
    assert "overlaps" in episodes.problems[0].why


def spoken_dataset(root: Path, *spoken: tuple[str | None, float | None, str]) -> Path:
    """Two episodes; in the first, of 0.7 s, these texts are said at these seconds in these styles."""
    root = dataset(root, lengths=(7, 5))
    row = {"role": "assistant", "camera": None, "tool_calls": None}
    rows = [{**row, "content": text, "timestamp": at, "style": style} for text, at, style in spoken]
    texts = [(name, pa.string()) for name in ("role", "content", "style", "camera", "tool_calls")]
    struct = pa.struct([*texts, ("timestamp", pa.float32())])
    column = pa.array([rows] * 7 + [[]] * 5, pa.list_(struct))
    add_column(root / "data/chunk-000/file-000.parquet", "language_persistent", column)
    change_info(root, features={"language_persistent": {"dtype": "language", "shape": [1], "names": None}})
    return root


def test_spoken_subtasks_become_stages_until_the_next(tmp_path: Path) -> None:
    spoken = (("lift", 0.4, "subtask"), ("do it", 0.0, "plan"), ("reach", 0.0, "subtask"))
    first, second = open_episodes(spoken_dataset(tmp_path / "blocks", *spoken, spoken[0]))
    assert [stage.name for stage in first.labels.stages] == ["reach", "lift"]
    np.testing.assert_allclose(
        [stage[1:] for stage in first.labels.stages], [[0, 0.4], [0.4, 0.7]], atol=1e-6
    )
    assert first.labels.success is True
    assert "labels_error" not in first.metadata
    assert second.labels.stages == ()


@pytest.mark.parametrize(
    ("text", "at", "said"),
    [
        ("grasp", 0.0, "'grasp' and 'reach' both begin at 0 s"),
        ("leave", 0.7, "'leave' begins at 0.7 s"),
        ("leave", 1.5, "'leave' begins at 1.5 s"),
        ("come", -0.5, "'come' begins at -0.5 s"),
        ("grasp", None, "'grasp' begins at nan s"),
        (None, 0.3, "the subtask at 0.3 s has no text"),
    ],
)
def test_a_spoken_subtask_that_cannot_be_a_stage_is_reported(
    tmp_path: Path, text: str | None, at: float | None, said: str
) -> None:
    root = spoken_dataset(tmp_path / "blocks", ("reach", 0.0, "subtask"), (text, at, "subtask"))
    first, _ = open_episodes(root)
    assert first.labels.stages == ()
    assert first.labels.success is True, "which does not depend on what was spoken"
    assert said in str(first.metadata["labels_error"])


def test_progress_files_are_recorded_curves_of_every_episode(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3, 3))
    assert open_episodes(root)[0].recorded == ()
    for name in ("sarm_progress.parquet", "topreward_progress.parquet"):
        pq.write_table(pa.table({"index": [0]}), root / name)
    for episode in open_episodes(root):
        assert [path.name for path in episode.recorded] == [
            "sarm_progress.parquet",
            "topreward_progress.parquet",
        ]


def test_several_tasks_of_an_episode_are_kept(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3, 3), version="v2.1")
    path = root / "meta/episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["tasks"], rows[1]["tasks"] = ["first this", "then that"], []
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    episodes = open_episodes(root)
    assert episodes[0].instruction == "first this"
    assert episodes[0].metadata["tasks"] == ("first this", "then that")
    assert (episodes[1].instruction, episodes[1].task) == ("", None)
    assert [problem.where for problem in episodes.problems] == ["episode_000001"]


@pytest.mark.parametrize("version", ["v3.0", "v2.1"])
def test_a_missing_video_is_listed_and_reported_and_fails_on_use(tmp_path: Path, version: str) -> None:
    root = dataset(tmp_path / "blocks", version=version)
    gone = path_of(open_episodes(root)[2])
    gone.unlink()
    episodes = open_episodes(root)
    assert len(episodes) == 5
    named = {problem.where for problem in episodes.problems}
    assert named == ({"episode_000002", "episode_000003"} if version == "v3.0" else {"episode_000002"})
    assert f"view 'top': no file {gone.relative_to(root).as_posix()}" in episodes.problems[0].why
    with pytest.raises(VideoError, match=r"No video at"):
        episodes[2].clip("top", count=1)
    assert numbers_of(255 - episodes[2].clip("wrist", count=1).frames) == [64]


def test_a_video_shorter_than_its_episodes_gives_those_that_are_whole(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(5, 5))
    path = root / "meta/episodes/chunk-000/file-000.parquet"
    table = pq.read_table(path)
    longer = table.set_column(table.schema.get_field_index("length"), "length", pa.array([5, 9]))
    pq.write_table(longer, path)
    first, second = open_episodes(root)
    assert numbers_of(first.clip("top", count=5).frames) == [0, 1, 2, 3, 4]
    with pytest.raises(VideoError, match=r"9 frames at 10 fps, but only 5 are in the file"):
        second.clip("top", count=1)


def test_a_data_file_that_cannot_be_read_costs_the_label_alone(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks")
    (root / "data/chunk-000/file-000.parquet").write_bytes(b"not parquet")
    episodes = open_episodes(root)
    assert episodes[0].labels.success is None
    assert "file-000.parquet" in str(episodes[0].metadata["labels_error"])
    assert numbers_of(episodes[0].clip("top", count=2).frames) == [0, 6]
    assert episodes[2].labels.success is True
    (root / "data/chunk-000/file-000.parquet").unlink()
    missing = open_episodes(root).problems
    assert [problem.where for problem in missing] == ["episode_000000", "episode_000001"]
    assert missing[0].why == "labels from next.success: no file data/chunk-000/file-000.parquet"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("meta/info.json", b"{", r"info.json is not JSON"),
        ("meta/info.json", b'{"codebase_version": "v3.0"}', r"info.json: fps: Field required"),
        ("meta/episodes/chunk-000/file-001.parquet", b"PAR1", r"Cannot read .*file-001.parquet"),
    ],
)
def test_corrupt_meta_files_are_named(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    root = dataset(tmp_path / "blocks")
    (root / file).write_bytes(content)
    with pytest.raises(SourceError, match=message):
        open_episodes(root)


def test_wrong_meta_is_named(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3, 3, 3))
    change_info(root, codebase_version="v1.6")
    with pytest.raises(SourceError, match=r"codebase_version is 'v1.6'; v3.0, v2.1 and v2.0 can be read"):
        open_episodes(root)
    change_info(root, codebase_version="v3.0", video_path="videos/{nonsense}.mp4")
    with pytest.raises(SourceError, match=r"info.json: the path template 'videos/\{nonsense\}.mp4'"):
        open_episodes(root)
    first = root / "meta/episodes/chunk-000/file-000.parquet"
    stale = root / "meta/episodes/chunk-000/file-007.parquet"
    stale.write_bytes(first.read_bytes())
    with pytest.raises(SourceError, match=r"episode 0 appears twice"):
        open_episodes(root)
    stale.unlink()
    pq.write_table(pq.read_table(first).drop_columns(["length"]), first)
    with pytest.raises(SourceError, match=r"file-000.parquet: there is no column 'length'"):
        open_episodes(root)


def test_wrong_lines_of_v21_are_named(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3, 3), version="v2.1")
    path = root / "meta/episodes.jsonl"
    path.write_text(path.read_text() + '{"length": 2}\n')
    with pytest.raises(SourceError, match=r"episodes.jsonl, line 3: .*length"):
        open_episodes(root)
    path.unlink()
    with pytest.raises(SourceError, match=r"Cannot read .*episodes.jsonl"):
        open_episodes(root)


def test_templates_of_info_json_decide_where_files_are(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks")
    (root / "videos").rename(root / "clips")
    change_info(root, video_path="clips/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4")
    assert numbers_of(open_episodes(root)[1].clip("top", count=2).frames) == [32, 36]


def test_a_dataset_has_no_folders_to_take_a_policy_from(v3: Path) -> None:
    with pytest.raises(OptionError, match=r"policy-from 1"):
        open_episodes(v3, policy_from=1)


def test_ten_thousand_episodes_are_listed_in_little_time(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", lengths=(3,), version="v2.1")
    info = json.loads((root / "meta/info.json").read_text())
    del info["features"]["next.success"]
    (root / "meta/info.json").write_text(json.dumps(info))
    row = json.loads((root / "meta/episodes.jsonl").read_text())
    lines = (json.dumps({**row, "episode_index": k}) for k in range(10_000))
    (root / "meta/episodes.jsonl").write_text("\n".join(lines))
    begin = time.process_time()
    episodes = open_episodes(root)
    assert sum(1 for _ in episodes) == 10_000
    assert time.process_time() - begin < 5.0  # half a millisecond an episode, on a slow machine
    assert len(episodes.problems) == 2 * 9_999
