"""Large tables of curves are read a row group at a time, and give what a whole reading gives."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.scale.episodes import write_source
from stepscore import open_episodes
from stepscore.episodes import Episode
from stepscore.episodes.readers import curve_groups, grouped_rows
from stepscore.episodes.readers import curve_groups as paged_rows
from stepscore.episodes.readers.curve_groups import PagedRows
from stepscore.episodes.readers.curves import EPISODE_COLUMNS
from stepscore.errors import CurveError


@pytest.fixture(autouse=True)
def fresh() -> None:
    curve_groups._load.cache_clear()


def listed(path: Path) -> list[tuple[object, ...]]:
    def described(episode: Episode) -> tuple[object, ...]:
        return (
            episode.id,
            *(getattr(episode, name) for name in EPISODE_COLUMNS if name != "success"),
            episode.labels.success,
            episode.error,
        )

    return [described(episode) for episode in open_episodes(path)]


def test_a_paged_table_lists_and_reads_what_a_whole_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_source(tmp_path, 1_200, points=8)
    whole, by_whole = grouped_rows(path, "episode_id"), listed(path)
    curve_groups._load.cache_clear()
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1_000)
    paged, by_page = grouped_rows(path, "episode_id"), listed(path)
    assert isinstance(paged.rows, PagedRows)
    assert not isinstance(whole.rows, PagedRows)
    assert by_page == by_whole
    for name in ("episode_000000", "episode_000499", "episode_000500", "episode_001199"):
        one, other = whole.of(name), paged.of(name)
        assert one.numbers.tolist() == other.numbers.tolist()
        for column in whole.rows.columns:
            assert repr(list(one.cells(column))) == repr(list(other.cells(column)))


def rows_of(path: Path, ids: list[str], policies: list[str | None], group: int) -> Path:
    table = pa.table({"episode_id": ids, "time_s": [float(i) for i in range(len(ids))], "policy": policies})
    table = table.append_column("progress", pa.array([0.5] * len(ids)))
    pq.write_table(table, path, row_group_size=group)
    return path


def test_an_episode_across_two_row_groups_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1)
    ids = ["a"] * 4 + ["b"] * 4 + ["c"] * 4
    path = rows_of(tmp_path / "x.parquet", ids, [None] * 5 + ["pi0"] * 7, 6)
    table = grouped_rows(path, "episode_id")
    assert table.of("b").floats("time_s").tolist() == [4.0, 5.0, 6.0, 7.0]
    assert table.of("b").numbers.tolist() == [5, 6, 7, 8]
    assert [episode.policy for episode in open_episodes(path)] == [None, "pi0", "pi0"]


def test_an_episode_that_contradicts_itself_has_the_error_of_a_whole_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rows_of(tmp_path / "x.parquet", ["a"] * 3 + ["b"] * 3, ["act", None, "pi0"] + ["act"] * 3, 2)
    by_whole = listed(path)
    curve_groups._load.cache_clear()
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1)
    assert listed(path) == by_whole
    assert "column policy is both 'act' and 'pi0'" in str(by_whole[0][-1])


def test_scattered_rows_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1)
    path = rows_of(tmp_path / "x.parquet", ["a", "b"] * 6, ["act"] * 12, 2)
    table = grouped_rows(path, "episode_id")
    assert not isinstance(table.rows, PagedRows)
    assert table.of("b").floats("time_s").tolist() == [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]


def test_a_row_without_an_episode_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1)
    path = tmp_path / "x.parquet"
    pq.write_table(
        pa.table({"episode_id": ["a", "a", "b", None], "progress": [0.1] * 4}), path, row_group_size=2
    )
    with pytest.raises(CurveError, match="row 4: no episode_id"):
        grouped_rows(path, "episode_id")


def test_a_row_takes_a_few_bytes_of_memory_however_wide_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_rows, "MANY_ROWS", 1_000)
    monkeypatch.setattr(paged_rows, "_ROWS_IN_MEMORY", 1)
    peaks = []
    for points in (10, 100):
        path = write_source(tmp_path / str(points), 2_000, points=points)
        curve_groups._load.cache_clear()
        tracemalloc.start()
        table = grouped_rows(path, "episode_id")
        assert sum(len(table.of(name)) for name in table) == 2_000 * (points + 3)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert isinstance(table.rows, PagedRows)
        assert len(table.rows._pages) == 2
    # Of every row no more stays than its episode and its place.
    assert (peaks[1] - peaks[0]) / (2_000 * 90) < 32
