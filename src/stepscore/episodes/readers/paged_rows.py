"""The rows of a large Parquet file, of which a few row groups are in memory at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from stepscore.episodes.parquet_files import open_parquet, read_parquet
from stepscore.episodes.readers.curve_rows import Cells, Rows, is_empty, rows_from_arrow
from stepscore.errors import CurveError
from stepscore.types import IntArray

MANY_ROWS = 200_000
"""Rows from which on a file of several row groups is read by row groups."""

_ROWS_IN_MEMORY = 1 << 20
_FEWEST_PAGES = 2


class PagedRows:
    """All rows of a Parquet file; a page is a row group, read when rows of it are taken.

    Attributes:
        path: The file.
        columns: The names of its columns.
    """

    def __init__(self, path: Path, columns: tuple[str, ...], starts: Sequence[int]) -> None:
        self.path, self.columns = path, columns
        self._starts = np.array(starts, dtype=np.int64)
        self._pages: OrderedDict[int, Rows] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return int(self._starts[-1])

    def pages(self, columns: Sequence[str]) -> Iterator[Rows]:
        """Iterate over the pages with only these columns."""
        for number in range(len(self._starts) - 1):
            yield self._read(number, columns)

    def page_of(self, rows: IntArray) -> IntArray:
        """Return the page that each row stands in."""
        return np.searchsorted(self._starts, rows, side="right") - 1

    def take(self, keep: IntArray) -> Rows:
        """Return only these rows, whose positions rise."""
        page = self.page_of(keep)
        parts = [
            self._page(int(number)).take(keep[page == number] - self._starts[number])
            for number in np.unique(page)
        ]
        if len(parts) == 1:
            return parts[0]
        columns = {name: _joined([part.columns[name] for part in parts]) for name in self.columns}
        return Rows(self.path, columns, np.concatenate([part.numbers for part in parts]), parts[0].metadata)

    def _page(self, number: int) -> Rows:
        with self._lock:
            if number not in self._pages:
                self._pages[number] = self._read(number, self.columns)
                while (
                    len(self._pages) > _FEWEST_PAGES and sum(map(len, self._pages.values())) > _ROWS_IN_MEMORY
                ):
                    self._pages.popitem(last=False)
            self._pages.move_to_end(number)
            return self._pages[number]

    def _read(self, number: int, columns: Sequence[str]) -> Rows:
        table = read_parquet(self.path, CurveError, columns, row_group=number)
        return rows_from_arrow(self.path, table, first=int(self._starts[number]) + 1)


def paged_rows(path: Path) -> PagedRows | None:
    """Return the rows of a large Parquet file by pages; ``None`` for a small one, or one of a single row group."""
    if path.suffix.lower() != ".parquet":
        return None
    with open_parquet(path, CurveError) as file:
        counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
        if len(counts) < 2 or sum(counts) < MANY_ROWS or min(counts) < 0:
            return None
        return PagedRows(path, tuple(file.schema_arrow.names), np.cumsum([0, *counts]).tolist())


def distinct_cells(cells: Cells) -> tuple[list[object], IntArray]:
    """Return a column's distinct cells, null among them, in the order of appearance, and each row's place there."""
    import pyarrow as pa

    array = cells if isinstance(cells, pa.Array) else pa.array(cells)
    coded = array.dictionary_encode(null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy().astype(np.int64)


def constant_cells(
    rows: PagedRows, codes: IntArray, episodes: int, columns: Sequence[str], text: Callable[[object], str]
) -> tuple[dict[str, list[str | None]], set[int]]:
    """Return what each column states of each episode, and the episodes whose rows contradict each other.

    Args:
        rows: The rows.
        codes: The episode of each row.
        episodes: How many there are.
        columns: Columns that describe an episode: the same in all its rows, or empty.
        text: A function that returns a cell as text.
    """
    numbers: dict[str, dict[str, int]] = {name: {} for name in columns}
    least = {name: np.full(episodes, np.iinfo(np.int64).max) for name in columns}
    most = {name: np.full(episodes, -1, dtype=np.int64) for name in columns}
    start = 0
    for page in rows.pages(columns):
        of_page = codes[start : start + len(page)]
        start += len(page)
        for name in columns:
            cells, places = distinct_cells(page.columns[name])
            known = [
                -1 if is_empty(cell) else numbers[name].setdefault(text(cell), len(numbers[name]))
                for cell in cells
            ]
            values = np.array(known, dtype=np.int64)[places]
            stated = values >= 0
            np.minimum.at(least[name], of_page[stated], values[stated])
            np.maximum.at(most[name], of_page[stated], values[stated])
    contradicting = {
        int(code)
        for name in columns
        for code in np.flatnonzero((most[name] >= 0) & (least[name] != most[name]))
    }
    texts = {name: [*numbers[name], None] for name in columns}  # -1 is the last: nothing stated
    return {name: [texts[name][k] for k in most[name].tolist()] for name in columns}, contradicting


def _joined(parts: list[Cells]) -> Cells:
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return [cell for part in parts for cell in part]
