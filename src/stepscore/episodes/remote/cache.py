"""The cache of remote files on this machine, and its size limit: least recently used files are removed first."""

from __future__ import annotations

import json
import math
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from stepscore._files import user_cache_folder
from stepscore._locks import locked
from stepscore._untrusted import read_json
from stepscore.errors import OptionError, SourceError

LISTING = ".files.json"
"""The file list, kept in the dataset's folder on this machine."""

LIMIT_GB = 20.0
"""Gigabytes kept, unless ``STEPSCORE_REMOTE_CACHE_GB`` states another number."""

IN_USE_S = 60.0
"""Seconds since its last use in which a file is not removed: someone may be decoding it."""

_CHECK_SHARE = 0.02
"""Share of the limit after which the folder is looked through again, since that takes time itself."""


class KeptFile(NamedTuple):
    """A file of which ranges are kept, and when it was last used."""

    used: float
    size: int
    ranges: Path


class CacheLimit:
    """Counts what is fetched and removes files when there is too much.

    Args:
        folder: Where remote files are kept.
        limit: Most bytes.
        in_use_s: Seconds since its last use in which a file is not removed.
    """

    def __init__(self, folder: Path, limit: float, in_use_s: float = IN_USE_S) -> None:
        self.folder, self.limit, self.in_use_s = folder, limit, in_use_s
        self._lock = threading.Lock()
        self._since_check = limit  # others may have filled it before: the first fetch checks

    def count(self, fetched: int) -> None:
        """Count bytes that were fetched; from time to time, remove what is too much."""
        with self._lock:
            self._since_check += fetched
            if self._since_check < _CHECK_SHARE * self.limit:
                return
            self._since_check = 0
        self.trim()

    def trim(self) -> int:
        """Remove the files used longest ago until the rest is within the limit; return the bytes removed."""
        kept = sorted(self.kept())
        return self.remove(kept, sum(file.size for file in kept) - self.limit)

    def remove(self, files: Iterable[KeptFile], enough: float = math.inf) -> int:
        """Remove files one after the other, none that is in use, until it is enough; return the bytes removed."""
        removed = 0
        folders: set[Path] = set()
        for file in files:
            if removed >= enough:
                break
            path = file.ranges.with_suffix("")
            with suppress(OSError), locked(path.with_name(f"{path.name}.lock")):
                if not self._in_use(file.ranges.stat().st_mtime):  # it may have been used meanwhile
                    path.unlink()
                    file.ranges.unlink()
                    removed += file.size
                    folders.add(self.folder / path.relative_to(self.folder).parts[0])
        for folder in folders:
            self._remove_rest(folder)
        return removed

    def _remove_rest(self, folder: Path) -> None:
        """Remove the file list and the empty folders of a dataset of which nothing else is left."""
        with suppress(OSError):
            for path in folder.rglob("*"):
                if path.suffix == ".ranges" or (path.is_file() and self._in_use(path.stat().st_ctime)):
                    return
            shutil.rmtree(folder, ignore_errors=True)

    def _in_use(self, used: float) -> bool:
        return time.time() - used < self.in_use_s

    def size(self) -> int:
        """Return the bytes that are kept."""
        return sum(file.size for file in self.kept())

    def kept(self) -> Iterator[KeptFile]:
        """Yield the files of which ranges are kept."""
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = Path(folder) / name
                if path.suffix == ".ranges":
                    with suppress(OSError, ValueError, KeyError, TypeError):
                        ranges = json.loads(path.read_text(encoding="utf-8"))["ranges"]
                        yield KeptFile(path.stat().st_mtime, sum(end - start for start, end in ranges), path)


def cache_limit() -> CacheLimit:
    """Return this user's cache limit; OptionError if ``STEPSCORE_REMOTE_CACHE_GB`` is not above 0."""
    text = os.environ.get("STEPSCORE_REMOTE_CACHE_GB", str(LIMIT_GB))
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < 1e9:
        raise OptionError(f"STEPSCORE_REMOTE_CACHE_GB is {text[:40]!r}; expected gigabytes, such as 20.")
    return _limit(user_cache_folder() / "remote", gigabytes * 1e9)


@lru_cache(maxsize=8)
def _limit(folder: Path, limit: float) -> CacheLimit:
    return CacheLimit(folder, limit)


_cache_only: ContextVar[bool] = ContextVar("stepscore_cache_only", default=False)


@contextmanager
def cache_only() -> Iterator[None]:
    """Use only what was fetched before: inside, no request is sent, and a missing file is an error."""
    token = _cache_only.set(True)
    try:
        yield
    finally:
        _cache_only.reset(token)


def is_cache_only() -> bool:
    """Return whether nothing may be fetched now."""
    return _cache_only.get()


@dataclass(frozen=True)
class FetchedDataset:
    """The cached part of a remote dataset.

    Attributes:
        url: Its URL; on the Hub, at one commit.
        files: How many of its files there is something of.
        bytes: How much of them.
        used: Time of the last use of any, in seconds since 1970.
    """

    url: str
    files: int
    bytes: int
    used: float


def fetched_datasets() -> list[FetchedDataset]:
    """Return the datasets with cached files, the most recently used first."""
    limit = cache_limit()
    by_folder: dict[str, list[KeptFile]] = defaultdict(list)
    for file in limit.kept():
        by_folder[file.ranges.relative_to(limit.folder).parts[0]].append(file)
    datasets = []
    for name, files in by_folder.items():
        url = name
        with suppress(SourceError, KeyError, TypeError):  # listing unfinished: only its folder is known
            url = str(read_json(limit.folder / name / LISTING, SourceError)["url"])
        size, used = sum(file.size for file in files), max(file.used for file in files)
        datasets.append(FetchedDataset(url, len(files), size, used))
    return sorted(datasets, key=lambda dataset: -dataset.used)


def remove_fetched(before: float | None = None) -> int:
    """Remove what was fetched, but for files that are in use; return the bytes removed.

    Args:
        before: Only files whose last use was before this time, in seconds since 1970.
    """
    limit = cache_limit()
    until = time.time() if before is None else before
    files: Sequence[KeptFile] = [file for file in limit.kept() if file.used <= until]
    return limit.remove(files)
