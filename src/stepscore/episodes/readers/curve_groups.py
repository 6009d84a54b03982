"""Rows of many episodes in one file: read once, or a row group at a time, then a few microseconds per episode."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore._untrusted import check_regular
from stepscore.episodes.naming import safe_name
from stepscore.episodes.readers.curve_rows import Rows, is_empty, read_large
from stepscore.episodes.readers.paged_rows import PagedRows, distinct_cells, paged_rows
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
        """Return the rows of one episode; CurveError names the closest where there are none."""
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
            raise CurveError(f"{rows.at(int(wrong[0]))}: episode_index must be a whole number.")
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
