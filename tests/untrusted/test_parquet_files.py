"""Parquet files from anywhere: what a read would take is known before it is taken."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stepscore._untrusted import parquet_files
from stepscore._untrusted.parquet_files import open_parquet, read_parquet
from stepscore.errors import SourceError


def written(path: Path, table: pa.Table, **options: object) -> Path:
    pq.write_table(table, path, **options)
    return path


TABLE = pa.table(
    {
        "n": [1, None, 3],
        "text": ["a", "b", None],
        "list": [[1, 2], [], None],
        "struct": [{"x": 1}, {"x": None}, None],
        "dict": pa.array(["u", "v", "u"]).dictionary_encode(),
        "texts": [["p", "q"], None, []],
    }
)


def test_a_table_is_read_as_arrow_reads_it(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", TABLE)
    assert read_parquet(path, SourceError).equals(pq.read_table(path))
    for columns in (["n"], ["text", "list"], ["dict", "texts"]):
        assert read_parquet(path, SourceError, columns).equals(pq.read_table(path, columns=columns))


def test_a_table_without_rows_keeps_its_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", TABLE.slice(0, 0))
    assert read_parquet(path, SourceError).schema.equals(TABLE.schema)


def test_one_text_repeated_a_million_times_is_refused(tmp_path: Path) -> None:
    """A hundred kB on disk, a gigabyte when each row is written out."""
    codes = pa.DictionaryArray.from_arrays(pa.array([0] * 1_000_000, pa.int32()), pa.array(["x" * 1000]))
    path = written(tmp_path / "x.parquet", pa.table({"t": codes}))
    assert path.stat().st_size < 200_000
    with pytest.raises(SourceError, match=r"texts of column 't' would take more than 512 MiB"):
        read_parquet(path, SourceError)


def test_a_text_repeated_in_lists_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_files, "MAX_TABLE_BYTES", 10_000_000)
    path = written(tmp_path / "x.parquet", pa.table({"t": [["x" * 1000]] * 20_000}))
    with pytest.raises(SourceError, match="would take more than 9 MiB"):
        read_parquet(path, SourceError)


def test_more_rows_than_memory_are_refused_by_the_footer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "x.parquet", pa.table({"n": [0] * 200_000, "m": [1] * 200_000}))
    monkeypatch.setattr(parquet_files, "MAX_TABLE_BYTES", 2_000_000)
    with pytest.raises(SourceError, match=r"200000 rows of 2 columns would take more than 1 MiB"):
        read_parquet(path, SourceError)
    assert read_parquet(path, SourceError, ["n"]).num_rows == 200_000


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    (tmp_path / "device.parquet").symlink_to("/dev/zero")
    for name in ("pipe.parquet", "device.parquet", "missing.parquet", "a\0b", "."):
        with pytest.raises(SourceError), open_parquet(tmp_path / name, SourceError):
            pass


def test_a_damaged_file_is_read_or_refused_by_its_name(tmp_path: Path) -> None:
    """Every cut, and a flipped byte at every place of the footer and some of the data."""
    content = written(tmp_path / "x.parquet", TABLE).read_bytes()
    places = [*range(0, len(content), 37), *range(len(content) - 300, len(content), 3)]
    for at in places:
        flipped = bytearray(content)
        flipped[at] ^= 0x91
        for damaged in (content[:at], bytes(flipped)):
            (tmp_path / "x.parquet").write_bytes(damaged)
            says = "x.parquet"
            try:
                read_parquet(tmp_path / "x.parquet", SourceError)
            except SourceError as error:
                says = str(error)
            assert "x.parquet" in says


@pytest.mark.parametrize(
    "column",
    [
        pa.array([10**12], pa.timestamp("s")),
        pa.array([1], pa.timestamp("s", tz="No/Where")),
        pa.array([2**62], pa.duration("s")),
        pa.array([10**9], pa.date32()),
        pa.array([[10**12]], pa.list_(pa.timestamp("s"))),
        pa.array([10**12], pa.timestamp("s")).dictionary_encode(),
    ],
    ids=lambda column: str(column.type)[:20],
)
def test_a_time_that_python_has_no_value_for_is_named(column: pa.Array, tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", pa.table({"n": [1], "t": column}))
    assert read_parquet(path, SourceError, ["n"])["n"].to_pylist() == [1]
    with pytest.raises(SourceError, match=r"column 't' holds a date or time that cannot be read \("):
        read_parquet(path, SourceError)
