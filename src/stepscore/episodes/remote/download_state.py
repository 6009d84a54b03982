"""Which remote datasets are kept on this machine, in part or whole, and how to be rid of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from stepscore._untrusted import read_json
from stepscore.episodes.remote.cache_limit import KeptFile, cache_limit
from stepscore.episodes.remote.listing import LISTING
from stepscore.errors import SourceError


@dataclass(frozen=True)
class FetchedDataset:
    """What is kept of a dataset on another machine.

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
    """Return the datasets of which something is kept, the one used last first."""
    limit = cache_limit()
    by_folder: dict[str, list[KeptFile]] = defaultdict(list)
    for file in limit.kept():
        by_folder[file.ranges.relative_to(limit.folder).parts[0]].append(file)
    datasets = []
    for name, files in by_folder.items():
        url = name
        with suppress(SourceError, KeyError, TypeError):  # not listed to the end: known by its folder alone
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
