"""Rows of meta/ that cannot be true: an error of that episode, or of the file, by file and field."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stepscore
from stepscore.episodes import open_episodes
from stepscore.errors import SourceError
from tests.episodes.lerobot.datasets import change_info, dataset
from tests.runs.test_bad_episodes import ReadFrames, error_of, without

BAD = "episode_000001"


def change_v2(root: Path, **fields: Any) -> None:
    """Change the row of the second episode of a v2.1 dataset."""
    path = root / "meta" / "episodes.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[1].update(fields)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def change_v3(root: Path, column: str, value: object) -> None:
    """Change a cell of the second episode of a v3.0 dataset; a text changes the column's type."""
    path = next((root / "meta" / "episodes").glob("*/*.parquet"))
    table = pq.read_table(path)
    cells = table[column].to_pylist()
    cells[1] = value
    kind = pa.string() if isinstance(value, str) else table[column].type
    made = pa.array([str(cell) for cell in cells] if isinstance(value, str) else cells, kind)
    pq.write_table(table.set_column(table.column_names.index(column), column, made), path)


def check_rest(root: Path, folder: Path) -> str:
    """Judge the dataset; return the bad episode's error after comparing the rest with a run without it."""
    episodes = open_episodes(root)
    assert episodes.ids() == ["episode_000000", BAD, "episode_000002"]
    alone = stepscore.score(
        episodes.select(["episode_000000", "episode_000002"]), ReadFrames(), out=folder / "a"
    )
    run = stepscore.score(episodes, ReadFrames(), out=folder / "b")
    assert without(run, BAD) == without(alone)
    return error_of(run, BAD)


@pytest.mark.parametrize("length", ["7", "many", -1, 2.5, True, [7], {}, None, 10**15, 1e300])
def test_a_length_that_is_no_number_is_one_row(tmp_path: Path, length: object) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(4, 3, 5))
    change_v2(root, length=length)
    error = check_rest(root, tmp_path)
    assert "length of episode 1 is" in error
    assert "expected an integer" in error


def test_a_missing_length_is_one_row(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(4, 3, 5))
    path = root / "meta" / "episodes.jsonl"
    path.write_text(path.read_text().replace('"length": 3', '"long": 3'))
    assert "length of episode 1 is 'None'" in check_rest(root, tmp_path)


@pytest.mark.parametrize("tasks", [7, {"a": 1}, 0.5])
def test_tasks_that_are_no_texts_are_one_row(tmp_path: Path, tasks: object) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(4, 3, 5))
    change_v2(root, tasks=tasks)
    assert "tasks of episode 1 is" in check_rest(root, tmp_path)


VIDEO = "videos/observation.images.top"


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("length", -3), ("length", None), ("length", 2**62),
        (f"{VIDEO}/from_timestamp", float("nan")), (f"{VIDEO}/from_timestamp", -1.0),
        (f"{VIDEO}/from_timestamp", 1e300),
        (f"{VIDEO}/chunk_index", -1), (f"{VIDEO}/file_index", 2**62), (f"{VIDEO}/file_index", None),
    ],
)  # fmt: skip
def test_a_cell_that_cannot_be_is_one_row(tmp_path: Path, column: str, value: object) -> None:
    root = dataset(tmp_path / "d", lengths=(4, 3, 5), episodes_per_file=9)
    change_v3(root, column, value)
    assert f"{column} of episode 1 is" in check_rest(root, tmp_path)


def test_a_column_of_text_is_every_episodes_error(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", lengths=(4, 3, 5), episodes_per_file=9)
    change_v3(root, "length", "three")
    episodes = open_episodes(root)
    assert [bool(one.error) for one in episodes] == [True] * 3
    assert len(episodes.problems) == 3


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (
            '{"episode_index": ' + "9" * 5000 + ', "length": 3, "tasks": []}',
            "expected an object with episode_index",
        ),
        ('{"episode_index": -1, "length": 3}', "expected an object with episode_index"),
        ('{"episode_index": 1e0, "length": 3}', "expected an object with episode_index"),
        ("[" * 9000, "nested"),
        ("[1]", "expected an object"),
        ('{"episode_index": 0, "length": 3, "tasks": []}', "appears twice"),
        ("nonsense", "is not JSON"),
    ],
)
def test_a_line_that_is_no_episode_names_file_and_line(tmp_path: Path, line: str, says: str) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(4, 3, 5))
    path = root / "meta" / "episodes.jsonl"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(SourceError, match=says) as refused:
        open_episodes(root)
    assert "episodes.jsonl" in str(refused.value)
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("field", "value"),
    [("fps", 0), ("fps", 1e-300), ("fps", 1e300), ("fps", "x"), ("fps", float("nan")), ("chunks_size", 0),
     ("features", 3), ("codebase_version", "v9"), ("data_path", 7), ("features", {"a": {"dtype": 3}})],
)  # fmt: skip
def test_information_that_cannot_be_names_the_field(tmp_path: Path, field: str, value: object) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(2,))
    path = root / "meta" / "info.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(SourceError, match=rf"info\.json: .*{field}"):
        open_episodes(root)


@pytest.mark.parametrize("name", ["meta/info.json", "meta/episodes.jsonl"])
def test_a_pipe_in_meta_is_not_opened(tmp_path: Path, name: str) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(2,))
    (root / name).unlink()
    os.mkfifo(root / name)
    with pytest.raises(SourceError):
        open_episodes(root, reader="lerobot")


def test_a_pipe_as_a_file_of_episodes_is_not_opened(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", lengths=(2,))
    path = next((root / "meta" / "episodes").glob("*/*.parquet"))
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SourceError, match="named pipe"):
        open_episodes(root)


def test_a_null_video_path_is_named(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", lengths=(2,))
    change_info(root, video_path=None)
    with pytest.raises(SourceError, match="video_path is null"):
        open_episodes(root)


def test_tens_of_thousands_of_episodes_are_listed(tmp_path: Path) -> None:
    root = dataset(tmp_path / "d", version="v2.1", lengths=(2,))
    rows = ({"episode_index": i, "length": 2, "tasks": ["pick up block 0"]} for i in range(20_000))
    (root / "meta" / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    change_info(root, features={}, video_path=None)
    path = root / "meta" / "info.json"
    info = json.loads(path.read_text())
    path.write_text(json.dumps({**info, "features": {"action": {"dtype": "float32", "shape": [3]}}}))
    episodes = open_episodes(root)
    assert len(episodes) == 20_000
    assert episodes["episode_019999"].instruction == "pick up block 0"
