from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes.readers.curve_groups import grouped_rows
from stepscore.episodes.readers.curve_rows import column_names, is_empty, parse_number, read_large, read_rows
from stepscore.errors import CurveError

text = st.text(st.characters(codec="utf-8"), max_size=6)


@settings(max_examples=100, deadline=None)
@given(rows=st.lists(st.tuples(text, text, text), max_size=6))
def test_a_large_csv_is_read_as_a_small_one_is(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("episode_id", "progress", "why"), *rows])
    small, large = read_rows(path), read_large(path)
    assert small.numbers.tolist() == large.numbers.tolist() == list(range(1, len(rows) + 1))
    for number, name in enumerate(("episode_id", "progress", "why")):
        assert list(small.cells(name)) == list(large.cells(name)) == [row[number] for row in rows]


@settings(max_examples=50, deadline=None)
@given(keys=st.lists(st.sampled_from("abcd"), max_size=20))
def test_rows_are_grouped_by_episode_in_the_order_of_the_file(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text("episode_id,progress\n" + "".join(f"{key},{n}\n" for n, key in enumerate(keys)))
    groups = grouped_rows(path, "episode_id")
    assert set(groups) == set(keys)
    for key in set(keys):
        assert groups.of(key).floats("progress").tolist() == [n for n, k in enumerate(keys) if k == key]


@pytest.mark.parametrize(
    ("cell", "number"),
    [("0.5", 0.5), (" 1e-3 ", 1e-3), ("+2", 2.0), (3, 3.0), (0.25, 0.25), ("-inf", -math.inf)],
)
def test_a_number_is_what_the_cell_states(cell: object, number: float) -> None:
    assert parse_number(cell) == number


@pytest.mark.parametrize("cell", ["", " ", "nan", "NULL", None, math.nan])
def test_an_empty_cell_is_unknown(cell: object) -> None:
    assert math.isnan(parse_number(cell))


@pytest.mark.parametrize("cell", ["x", "1,5", "1_000", True, [1], {}, 10**400])
def test_anything_else_is_no_number(cell: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its message is not shown; the caller names the cell
        parse_number(cell)


@pytest.mark.parametrize(
    ("cell", "empty"), [(None, True), (" ", True), (math.nan, True), (0, False), ("0", False)]
)
def test_zero_is_not_empty(cell: object, empty: bool) -> None:
    assert is_empty(cell) is empty


def test_a_mark_of_byte_order_and_spaces_in_the_header_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("episode_id, progress\r\na,0.5\r\n".encode("utf-8-sig"))
    assert column_names(path) == ("episode_id", "progress")
    for rows in (read_rows(path), read_large(path)):
        assert rows.floats("progress").tolist() == [0.5]
        assert list(rows.cells("episode_id")) == ["a"]


def test_a_folder_called_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "policy=pi0"
    folder.mkdir()
    pq.write_table(pa.table({"progress": [0.5]}), folder / "x.parquet")
    assert set(read_rows(folder / "x.parquet").columns) == {"progress"}


def test_parquet_columns_of_every_kind_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    table = pa.table(
        {
            "small": pa.array([1, None], pa.int16()),
            "half": pa.array([0.5, None], pa.float32()),
            "exact": pa.array(["0.25", None]).cast(pa.decimal128(5, 2)),
            "nothing": pa.nulls(2),
            "word": pa.array(["a", "b"]).dictionary_encode(),
        }
    )
    pq.write_table(table, path)
    rows = read_rows(path)
    for name, first in (("small", 1.0), ("half", 0.5), ("exact", 0.25), ("nothing", math.nan)):
        np.testing.assert_array_equal(rows.floats(name), [first, math.nan])
    assert rows.cells("word") == ["a", "b"]
    assert rows.is_text("word")
    assert rows.is_text("nothing")
    assert not rows.is_text("small")


def test_ids_that_are_numbers_keep_every_digit(tmp_path: Path) -> None:
    big = 2**60
    pq.write_table(pa.table({"episode_id": [big, big + 1], "progress": [0.1, 0.2]}), tmp_path / "x.parquet")
    groups = grouped_rows(tmp_path / "x.parquet", "episode_id")
    assert list(groups) == [str(big), str(big + 1)]
    (tmp_path / "x.csv").write_text("episode_id,progress\n007,0.1\n7,0.2\n")
    assert list(grouped_rows(tmp_path / "x.csv", "episode_id")) == ["007", "7"]


def test_a_wrong_number_of_an_episode_names_the_row(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("episode_index,progress\n0,0.1\n1.5,0.2\n")
    with pytest.raises(CurveError, match=r"x\.csv, row 2: episode_index must be an integer"):
        grouped_rows(tmp_path / "x.csv", "episode_index")


def test_a_ragged_row_of_a_large_csv_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("episode_id,progress\na,0.1\nb\n")
    with pytest.raises(CurveError, match=r"Cannot read .*x\.csv as csv: .*Expected 2 columns, got 1"):
        grouped_rows(tmp_path / "x.csv", "episode_id")


def test_another_suffix_lists_the_possible_ones(tmp_path: Path) -> None:
    (tmp_path / "x.xlsx").write_text("")
    with pytest.raises(CurveError, match=r"\.csv, \.jsonl, \.parquet"):
        column_names(tmp_path / "x.xlsx")
