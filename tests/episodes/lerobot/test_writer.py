"""LeRobot datasets that others can read: what is on disk, against the documented layout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import av
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.lerobot.writing import layout as lerobot_layout
from stepscore.episodes.lerobot.writing.features import Stats
from stepscore.episodes.lerobot.writing.video_encoding import Encoding, VideoFile, encode_frame
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot
from stepscore.errors import OptionError
from tests.episodes.lerobot.datasets import FPS, LENGTHS, TOP, WRIST, dataset, recordings
from tests.media import numbered, numbers_of, write_video


def test_v30_has_the_documented_files(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", robot="so101")
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    videos = {f"videos/{key}/chunk-000/file-00{n}.mp4" for key in (TOP, WRIST) for n in range(3)}
    data = {f"data/chunk-000/file-00{n}.parquet" for n in range(3)}
    episodes = {f"meta/episodes/chunk-000/file-00{n}.parquet" for n in range(3)}
    meta = {"meta/info.json", "meta/stats.json", "meta/tasks.parquet"}
    assert files == videos | data | episodes | meta
    info = json.loads((root / "meta/info.json").read_text())
    assert (info["codebase_version"], info["fps"], info["robot_type"]) == ("v3.0", FPS, "so101")
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (5, sum(LENGTHS), 2)
    assert info["splits"] == {"train": "0:5"}
    assert info["features"]["action"] == {"dtype": "float32", "shape": [3], "names": None}
    assert info["features"]["next.success"] == {"dtype": "bool", "shape": [1], "names": None}
    assert info["features"][TOP]["shape"] == [64, 96, 3]
    assert info["features"][TOP]["info"]["video.codec"] == "h264"
    assert info["features"]["index"] == {"dtype": "int64", "shape": [1], "names": None}


def test_v30_rows_say_where_episodes_are(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks")
    rows = [row for path in sorted(root.glob("meta/episodes/*/*")) for row in pq.read_table(path).to_pylist()]
    assert [row["episode_index"] for row in rows] == list(range(5))
    assert [(row["dataset_from_index"], row["dataset_to_index"]) for row in rows] == [
        (0, 7),
        (7, 12),
        (12, 24),
        (24, 27),
        (27, 36),
    ]
    assert [row["data/file_index"] for row in rows] == [0, 0, 1, 1, 2]
    assert [row[f"videos/{TOP}/file_index"] for row in rows] == [0, 0, 1, 1, 2]
    spans = [(row[f"videos/{TOP}/from_timestamp"], row[f"videos/{TOP}/to_timestamp"]) for row in rows]
    np.testing.assert_allclose(spans, [(0, 0.7), (0.7, 1.2), (0, 1.2), (1.2, 1.5), (0, 0.9)])
    assert [row["meta/episodes/file_index"] for row in rows] == [0, 0, 1, 1, 2]
    assert rows[1]["tasks"] == ["pick up block 1"]


def test_data_has_the_columns_and_types_loaders_expect(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks")
    file = pq.ParquetFile(root / "data/chunk-000/file-001.parquet")
    assert file.num_row_groups == 2  # one an episode
    schema = file.schema_arrow
    assert schema.field("observation.state").type == pa.list_(pa.float32(), 2)
    assert schema.field("next.success").type == pa.bool_()
    assert schema.field("timestamp").type == pa.float32()
    assert TOP not in schema.names
    table = file.read()
    assert table["index"].to_pylist() == list(range(12, 27))
    assert table["frame_index"].to_pylist() == [*range(12), *range(3)]
    assert table["episode_index"].to_pylist() == [2] * 12 + [3] * 3
    assert table["task_index"].to_pylist() == [0] * 12 + [1] * 3
    np.testing.assert_allclose(table["timestamp"].to_numpy()[:12], np.arange(12) / 10, atol=1e-6)
    assert table["observation.state"].to_pylist()[3] == [3.0, 2.0]


def test_tasks_are_in_the_order_of_their_number_with_the_text_as_index(tmp_path: Path) -> None:
    table = pq.read_table(dataset(tmp_path / "blocks") / "meta/tasks.parquet")
    assert table.to_pydict() == {"task_index": [0, 1], "task": ["pick up block 0", "pick up block 1"]}
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == ["task"]


def test_v21_has_one_file_an_episode_and_lines_of_meta(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks", version="v2.1", extras=[{"note": "shaky"}])
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}
    assert f"videos/chunk-000/{TOP}/episode_000004.mp4" in files
    assert "data/chunk-000/episode_000004.parquet" in files
    assert "meta/stats.json" not in files
    info = json.loads((root / "meta/info.json").read_text())
    assert (info["codebase_version"], info["total_videos"], info["total_chunks"]) == ("v2.1", 10, 1)
    lines = [json.loads(line) for line in (root / "meta/episodes.jsonl").read_text().splitlines()]
    assert lines[0] == {"episode_index": 0, "tasks": ["pick up block 0"], "length": 7, "note": "shaky"}
    tasks = [json.loads(line) for line in (root / "meta/tasks.jsonl").read_text().splitlines()]
    assert tasks[1] == {"task_index": 1, "task": "pick up block 1"}
    stats = [json.loads(line) for line in (root / "meta/episodes_stats.jsonl").read_text().splitlines()]
    assert stats[2]["stats"]["observation.state"]["max"] == [11.0, 2.0]


@pytest.mark.parametrize("codec", ["h264", "av1"])
def test_every_episode_begins_with_a_keyframe_at_its_own_second(tmp_path: Path, codec: str) -> None:
    root = dataset(tmp_path / "blocks", codec=codec, gop=100, episodes_per_file=None)
    with av.open(str(next(root.glob(f"videos/{TOP}/*/*.mp4")))) as container:
        assert container.streams.video[0].codec_context.name in ("h264", "libdav1d", "av1")
        found = [p for p in container.demux(video=0) if p.size]
    keys = [round((p.pts or 0) * p.time_base * FPS) for p in found if p.is_keyframe]
    assert set(np.cumsum((0, *LENGTHS[:-1]))) <= set(keys)
    assert [(p.pts or 0) * p.time_base * FPS for p in found] == list(range(sum(LENGTHS)))


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux tells the scheduling of threads.")
def test_writing_av1_leaves_every_thread_at_its_scheduling(tmp_path: Path) -> None:
    # As root, which alone may be real-time, SVT-AV1 sets SCHED_FIFO 99 for its threads and the one that calls it.
    def real_time() -> dict[str, int]:
        policies = {thread: os.sched_getscheduler(int(thread)) for thread in os.listdir("/proc/self/task")}
        return {thread: policy for thread, policy in policies.items() if policy != os.SCHED_OTHER}

    assert real_time() == {}
    file = VideoFile(tmp_path / "open.mp4", Encoding("av1", Fraction(10), gop=10, crf=30), 96, 64)
    for number in range(3):
        file.add(numbered(number))
        assert real_time() == {}  # the encoder's own threads, too
    file.close()
    assert real_time() == {}
    write_video(tmp_path / "numbered.mp4", 3, codec="av1")
    assert real_time() == {}


def test_one_encoder_is_opened_at_a_time() -> None:
    """Whatever another one has made real-time meanwhile would be restored as it was found."""
    together: list[int] = []

    class Stream:
        codec_context = SimpleNamespace(is_open=False)
        opening = 0

        def encode(self, frame: object) -> list[Any]:
            Stream.opening += 1
            time.sleep(0.05)
            together.append(Stream.opening)
            Stream.opening -= 1
            return []

    threads = [threading.Thread(target=encode_frame, args=(Stream(), None)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [1, 1, 1]


def test_statistics_are_those_of_all_frames(tmp_path: Path) -> None:
    root = dataset(tmp_path / "blocks")
    stats = json.loads((root / "meta/stats.json").read_text())
    rows = np.concatenate([[(i, k) for i in range(n)] for k, n in enumerate(LENGTHS)])
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(
            stats["observation.state"][name], getattr(np, name)(rows, axis=0), rtol=1e-12
        )
    assert stats["observation.state"]["count"] == [sum(LENGTHS)]
    # Of a camera every tenth frame counts: here the first of each episode, and the eleventh of the third.
    sampled = np.stack([numbered(n) for n in (0, 32, 64, 74, 96, 128)]) / 255
    np.testing.assert_allclose(np.ravel(stats[TOP]["mean"]), sampled.mean(axis=(0, 1, 2)))
    np.testing.assert_allclose(np.ravel(stats[TOP]["std"]), sampled.std(axis=(0, 1, 2)))
    assert np.shape(stats[TOP]["mean"]) == (3, 1, 1)
    assert stats[TOP]["count"] == [6]


def test_merged_statistics_are_those_of_the_whole() -> None:
    values = np.random.default_rng(0).normal(3.0, 2.0, (50, 4))
    merged = Stats.merged([Stats.of(part) for part in np.split(values, [7, 20])])
    whole = Stats.of(values)
    for name in ("min", "max", "mean", "std"):
        np.testing.assert_allclose(getattr(merged, name), getattr(whole, name), rtol=1e-12)
    assert merged.count == 50


def test_images_are_kept_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepscore.episodes.lerobot.writing.writer._MAX_IMAGE_ROWS", 4)
    root = dataset(tmp_path / "blocks", images=[TOP])
    assert not (root / "videos" / TOP).exists()
    file = pq.ParquetFile(root / "data/chunk-000/file-000.parquet")
    assert file.num_row_groups == 4  # 7 and 5 frames, four at a time
    assert file.read()["frame_index"].to_pylist() == [*range(7), *range(5)]
    episode = open_episodes(root)[1]
    np.testing.assert_array_equal(
        episode.view("top").read(range(5)), np.stack([numbered(32 + i) for i in range(5)])
    )


def test_large_files_are_followed_by_new_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lerobot_layout, "VIDEO_MB", 0)
    root = dataset(tmp_path / "blocks", lengths=(3, 3, 3), episodes_per_file=None)
    assert len(list(root.glob(f"videos/{TOP}/*/*.mp4"))) == 3
    assert len(list(root.glob("data/*/*.parquet"))) == 1
    for k, episode in enumerate(open_episodes(root)):
        assert numbers_of(episode.clip("top", count=3).frames) == [32 * k, 32 * k + 1, 32 * k + 2]


def test_steps_are_taken_one_at_a_time(tmp_path: Path) -> None:
    alive: list[int] = []

    def one_at_a_time() -> Iterator[dict[str, Any]]:
        for i in range(40):
            alive.append(i)
            image = numbered(i)
            yield {TOP: image, "action": np.zeros(2)}
            alive.remove(i)
            image[:] = 0  # whoever still looked at it would see black
            assert len(alive) <= 1

    root = write_lerobot(tmp_path / "blocks", [Recording("wave", one_at_a_time())], fps=10)
    assert numbers_of(open_episodes(root)[0].clip("top", count=40).frames) == list(range(40))


MEMORY = """
import sys
from pathlib import Path
import numpy as np
from stepscore.episodes.lerobot.writing.video_encoding import Encoding, VideoFile
from stepscore.episodes.lerobot.writing.writer import Recording, write_lerobot

def memory_mb(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))

def steps(n):
    for i in range(n):
        yield {"observation.images.top": np.full((240, 320, 3), i % 200, np.uint8), "action": np.zeros(7)}

before = memory_mb("VmRSS")
write_lerobot(Path(sys.argv[1]), [Recording("wait", steps(int(sys.argv[2])))], fps=30)
print(memory_mb("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_memory_does_not_grow_with_the_recording(tmp_path: Path) -> None:
    added_mb = {}
    for n in (100, 1000):
        command = [sys.executable, "-c", MEMORY, str(tmp_path / str(n)), str(n)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        added_mb[n] = float(done.stdout)
    assert added_mb[1000] < added_mb[100] + 20  # the frames alone are 200 MB


@pytest.mark.parametrize("fps", [15, 29.97, 12.5])
def test_any_frame_rate_is_kept(tmp_path: Path, fps: float) -> None:
    steps = lambda: ({TOP: numbered(i)} for i in range(8))  # noqa: E731
    root = write_lerobot(tmp_path / "blocks", [Recording("a", steps()), Recording("b", steps())], fps=fps)
    second = open_episodes(root)[1]
    assert second.info is not None
    assert second.info.fps == pytest.approx(fps, rel=1e-4)
    assert numbers_of(second.clip("top", count=8).frames) == list(range(8))


def test_texts_and_single_numbers_are_features_too(tmp_path: Path) -> None:
    step = {TOP: numbered(0), "reward": 0.5, "count": 3, "note": "fine"}
    root = write_lerobot(tmp_path / "blocks", [Recording("a", [step, step])], fps=10)
    table = pq.read_table(next(root.glob("data/*/*.parquet")))
    assert table["note"].to_pylist() == ["fine", "fine"]
    assert table.schema.field("reward").type == pa.float32()
    assert table.schema.field("count").type == pa.int64()
    assert "note" not in json.loads((root / "meta/stats.json").read_text())


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    step = {TOP: numbered(0), "action": np.zeros(2)}

    def write(*recordings: Recording, **options: Any) -> None:
        folder = tmp_path / f"set_{len(list(tmp_path.iterdir()))}"
        write_lerobot(folder, recordings, **{"fps": 10, **options})

    with pytest.raises(OptionError, match=r"no recordings"):
        write()
    with pytest.raises(OptionError, match=r"Recording 0 \('a'\) has no frames"):
        write(Recording("a", []))
    with pytest.raises(OptionError, match=r"Recording 1: feature 'action' is missing"):
        write(Recording("a", [step]), Recording("b", [{TOP: numbered(0)}]))
    with pytest.raises(OptionError, match=r"feature 'speed' is unknown"):
        write(Recording("a", [step, {**step, "speed": 1.0}]))
    with pytest.raises(OptionError, match=r"'index'"):
        write(Recording("a", [{**step, "index": 1}]))
    with pytest.raises(OptionError, match=r"'map' is \(2, 2\) float64"):
        write(Recording("a", [{**step, "map": np.zeros((2, 2))}]))
    with pytest.raises(OptionError, match=r"95x64; a 4:2:0 video needs even sides"):
        write(Recording("a", [{TOP: numbered(0, 95, 64)}]))
    with pytest.raises(OptionError, match=r"\(32, 48, 3\); the first was \(64, 96, 3\)"):
        write(Recording("a", [step, {**step, TOP: numbered(0, 48, 32)}]))
    with pytest.raises(OptionError, match=r"'action' is \(3,\) in a frame; the first was \(2,\)"):
        write(Recording("a", [step, {**step, "action": np.zeros(3)}]))
    with pytest.raises(OptionError, match=r"images names 'side'"):
        write(Recording("a", [step]), images=["side"])
    with pytest.raises(OptionError, match=r"codec is 'vp9'. Allowed: h264, av1"):
        write(Recording("a", [step]), codec="vp9")
    with pytest.raises(OptionError, match=r"version is 'v1.0'. Allowed: v3.0, v2.1"):
        write(Recording("a", [step]), version="v1.0")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OptionError, match=r"not empty"):
        write_lerobot(tmp_path, recordings(), fps=10)


def test_an_unfinished_dataset_is_not_taken_for_one(tmp_path: Path) -> None:
    def breaks() -> Iterator[dict[str, Any]]:
        yield {TOP: numbered(0)}
        raise RuntimeError("the simulator fell over")

    with pytest.raises(RuntimeError, match="fell over"):
        write_lerobot(tmp_path / "blocks", [Recording("a", breaks())], fps=10)
    assert not (tmp_path / "blocks/meta/info.json").exists()
