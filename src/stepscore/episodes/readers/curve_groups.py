"""Rows of many episodes in one file: read once, or a row group at a time, then a few microseconds per episode."""

from __future__ import annotations

import difflib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore._untrusted import check_regular
from stepscore._untrusted.parquet_files import open_parquet, read_parquet
from stepscore.episodes.naming import safe_name
from stepscore.episodes.readers.curve_rows import Cells, Rows, is_empty, read_large, rows_from_arrow
from stepscore.errors import CurveError
from stepscore.types import IntArray

Key = Literal["episode_id", "episode_index"]
"""The column that states which episode a row belongs to: by id, or by LeRobot's ``episode_index``."""

_MAX_LOADED_FILES = 4
_loading = threading.Lock()


@dataclass(frozen=True)
class GroupedRows:
    """The rows of a file by episode. Rows of an episode need not be adjacent; their order is kept.

    Attributes:
        rows: All rows; of a large Parquet file a few row groups at a time.
        key: The column they are grouped by.
        groups: Positions of each episode's rows.
    """

    rows: Rows | PagedRows
    key: Key
    groups: Mapping[str, IntArray]

    def __iter__(self) -> Iterator[str]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def of(self, episode: str) -> Rows:
        """Return the rows of one episode; CurveError names the closest if there are none."""
        if episode not in self.groups:
            near = list(islice(self.groups, 1000))  # of more, comparing takes longer than reading
            close = difflib.get_close_matches(episode, near, n=1) or near[:1]
            raise CurveError(
                f"{self.rows.path} has no rows with {self.key} {episode!r}; it has {len(self)} episodes"
                f"{f', such as {close[0][:200]!r}' if close else ''}."
            )
        return self.rows.take(self.groups[episode])


def grouped_rows(path: Path, key: Key) -> GroupedRows:
    """Read the rows of a file by episode. The last few files stay loaded until they change on disk."""
    stat = check_regular(path, CurveError)
    with _loading:
        return _load(str(path), key, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=_MAX_LOADED_FILES)
def _load(path: str, key: Key, mtime_ns: int, size: int) -> GroupedRows:
    # Time and size are part of the cache's key, so that a file that was written again is read again.
    del mtime_ns, size
    numbers: dict[str, int] = {}
    paged = paged_rows(Path(path))
    if paged is not None:
        codes = np.concatenate([_page_codes(page, key, numbers) for page in paged.pages([key])])
        if not _scattered(paged, codes, len(numbers)):
            return _grouped(paged, key, numbers, codes)
        numbers = {}
    rows = read_large(Path(path))
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in _names(rows, key)], dtype=np.int64)
    return _grouped(rows, key, numbers, codes)


def _page_codes(page: Rows, key: Key, numbers: dict[str, int]) -> IntArray:
    """Return the number of each row's episode; new episodes are added to ``numbers``."""
    names, places = distinct_cells(page.columns[key])
    if key == "episode_id" and all(isinstance(name, str) and not is_empty(name) for name in names):
        known = [numbers.setdefault(str(name), len(numbers)) for name in names]
        return np.array(known, dtype=np.int64)[places]
    return np.array([numbers.setdefault(name, len(numbers)) for name in _names(page, key)], dtype=np.int64)


def _scattered(rows: PagedRows, codes: IntArray, episodes: int) -> bool:
    """Return whether the rows of an episode lie in several row groups: each would be read again and again."""
    first = np.full(episodes, len(rows))
    np.minimum.at(first, codes, np.arange(len(codes)))
    last = np.zeros(episodes, dtype=np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    return float(np.mean(rows.page_of(last) - rows.page_of(first))) > 1.0


def _grouped(rows: Rows | PagedRows, key: Key, numbers: dict[str, int], codes: IntArray) -> GroupedRows:
    order = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[order], np.arange(len(numbers) + 1))
    groups: dict[str, IntArray] = {}
    for name, code in numbers.items():
        key_name = safe_name(name)
        while key_name in groups:  # another name that reads the same once its characters are replaced
            key_name += "%"
        groups[key_name] = order[starts[code] : starts[code + 1]]
    return GroupedRows(rows, key, groups)


def _names(rows: Rows, key: Key) -> list[str]:
    """Return which episode each row belongs to."""
    if key == "episode_index":
        wanted = rows.floats(key)
        wrong = np.flatnonzero(
            ~(np.isfinite(wanted) & (wanted == np.floor(wanted)) & (np.abs(wanted) < 2**53))
        )
        if len(wrong):
            raise CurveError(f"{rows.at(int(wrong[0]))}: episode_index must be an integer.")
        return [str(number) for number in wanted.astype(np.int64).tolist()]
    names: list[str] = []
    for row, cell in enumerate(rows.cells(key)):
        if is_empty(cell):
            raise CurveError(f"{rows.at(row)}: no episode_id; every row must state its episode.")
        names.append(cell if isinstance(cell, str) else _plain(cell))
    return names


def _plain(cell: object) -> str:
    """Return an id that is a number as the file shows it: 12 and not 12.0."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


MANY_ROWS = 200_000
"""Rows from which on a file of several row groups is read by row groups."""

_ROWS_IN_MEMORY = 1 << 20
_FEWEST_PAGES = 2


class PagedRows:
    """All rows of a Parquet file; a page is a row group, read when rows of it are taken."""

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
        """Return the page that each row is on."""
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
    """Return what each column states of each episode, and the episodes whose rows contradict each other."""
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
