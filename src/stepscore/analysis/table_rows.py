"""Rows of large tables as mappings, read in batches and with equal values shared.

A hundred thousand episodes have a handful of tasks, policies and subgoal lists; separate objects would take
gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from stepscore.errors import UnknownNameError
from stepscore.types import FloatArray

EpisodeRow = Mapping[str, Any]
"""A row of ``episodes`` joined with ``judgements``, the model string, the run folder and the truth."""

EpisodeCurve = tuple[FloatArray, FloatArray]
"""Times in seconds, and the values of one channel."""

_ROWS_AT_A_TIME = 2048
_MOST_SHARED = 20_000
_OWN = frozenset({"episode_id", "fingerprint"})


def table_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table; equal texts and lists are one object and must not be changed."""
    shared: dict[object, Any] = {}

    def kept(value: Any) -> Any:
        if isinstance(value, str):
            key: object = value
        elif isinstance(value, list):
            key = (list, repr(value))
        else:
            return value
        found = shared.get(key)
        if found is None and len(shared) < _MOST_SHARED:
            shared[key] = found = value
        return value if found is None else found

    for batch in table.to_batches(max_chunksize=_ROWS_AT_A_TIME):
        for row in batch.to_pylist():
            yield {name: value if name in _OWN else kept(value) for name, value in row.items()}


def curves_by_episode(table: pa.Table, channel: str) -> Iterator[tuple[str, EpisodeCurve]]:
    """Iterate over a ``curves`` table, sorted by episode: id, times and the channel's values."""
    valid = [name for name in table.column_names if name not in ("episode_id", "time_s")]
    if channel not in valid:
        raise UnknownNameError("channel", channel, valid, where="this run's curves")
    if not len(table):
        return
    coded = table.column("episode_id").dictionary_encode().combine_chunks()
    codes = coded.indices.to_numpy()
    names = coded.dictionary.to_pylist()
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    times = table.column("time_s").to_numpy()
    values = table.column(channel).to_numpy()
    for start, end in zip(starts, [*starts[1:], len(codes)], strict=True):
        yield names[codes[start]], (times[start:end], values[start:end])
