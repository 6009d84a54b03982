from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from stepscore.cli.app import app
from stepscore.episodes import Label
from stepscore.episodes.labels.labels import COLUMNS, read_labels
from stepscore.errors import ManifestError, OptionError, RunError
from stepscore.procedures.labels_table import merge_labels, write_labels

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
    with pytest.raises(OptionError, match=r"labels\.csv must be named labels\.parquet"):
        write_labels(tmp_path / "labels.csv", ROWS)
    with pytest.raises(RunError, match="Cannot write"):
        write_labels(tmp_path / "nowhere" / "labels.parquet", ROWS)


def test_files_of_other_episodes_and_other_kinds_are_merged(tmp_path: Path) -> None:
    stages, progress, both = (tmp_path / f"{name}.parquet" for name in ("stages", "progress", "both"))
    write_labels(stages, ROWS)
    write_labels(progress, {"b": [Label("progress", "robust", start_s=0.0, value=1.0)], "c": ROWS["b"]})
    assert merge_labels([stages, progress, stages], both) == (2, 3, 7, 0)
    found = read_labels(both)
    assert sorted(found) == ["a", "b", "c"]
    assert {row.kind for row in found["b"]} == {"stage", "progress"}
    with pytest.raises(OptionError, match="exists"):
        merge_labels([stages], both)


def test_the_same_labels_count_once_and_others_of_the_same_kind_are_a_contradiction(tmp_path: Path) -> None:
    one, again, other = (tmp_path / f"{name}.parquet" for name in ("one", "again", "other"))
    write_labels(one, ROWS)
    write_labels(
        again, {name: [replace(row, created="later") for row in rows] for name, rows in ROWS.items()}
    )
    assert merge_labels([one, again], tmp_path / "merged.parquet") == (2, 2, 4, 2)
    write_labels(other, {"b": [Label("stage", "lift", 0.5, 2.0)]})
    with pytest.raises(ManifestError, match="different stage labels of episode b"):
        merge_labels([one, other], tmp_path / "wrong.parquet")
    assert not (tmp_path / "wrong.parquet").exists()


def test_the_command_says_what_labels_files_are_merged_to(tmp_path: Path) -> None:
    write_labels(tmp_path / "one.parquet", ROWS)
    for more, said in (([], "-o LABELS.parquet"), (["-o", "x.parquet", "--partial"], "is for runs")):
        result = CliRunner().invoke(app, ["merge", str(tmp_path / "one.parquet"), *more])
        assert said in str(result.exception)
