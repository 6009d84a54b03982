from __future__ import annotations

import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stepscore.episodes import Label
from stepscore.episodes.labels.labels import COLUMNS, read_labels
from stepscore.errors import OptionError, RunError
from stepscore.procedures.labels_table import write_labels

ROWS = {
    "b": [Label("stage", "lift", 1.0, 2.0, author="me"), Label("stage", "reach", 0.0, 1.0, author="me")],
    "a": [Label("success", "holds", value=1.0), Label("progress", "robust", start_s=0.5, value=0.25)],
}


def test_labels_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "labels.parquet"
    assert write_labels(path, ROWS) == 4
    found = read_labels(path)
    assert [(row.name, row.start_s, row.end_s, row.author) for row in found["b"]] == [
        ("reach", 0.0, 1.0, "me"),
        ("lift", 1.0, 2.0, "me"),
    ]
    success = next(row for row in found["a"] if row.kind == "success")
    assert success.value == 1.0
    assert math.isnan(success.start_s)


def test_the_table_has_the_columns_of_labels_and_is_sorted(tmp_path: Path) -> None:
    write_labels(tmp_path / "a.parquet", ROWS)
    write_labels(tmp_path / "b.parquet", dict(reversed(ROWS.items())))
    table = pq.read_table(tmp_path / "a.parquet")
    assert tuple(table.column_names) == COLUMNS
    assert table.column("episode_id").to_pylist() == ["a", "a", "b", "b"]
    assert table.column("kind").to_pylist() == ["progress", "success", "stage", "stage"]
    assert table.column("start_s").to_pylist() == [0.5, None, 0.0, 1.0]
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"labels\.parquet, not labels\.csv"):
        write_labels(tmp_path / "labels.csv", ROWS)
    with pytest.raises(RunError, match="Cannot write"):
        write_labels(tmp_path / "nowhere" / "labels.parquet", ROWS)
