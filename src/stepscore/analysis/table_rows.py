"""Rows of large tables as mappings: read a few at a time, equal values kept once.

A hundred thousand episodes have a handful of tasks, policies and lists of subgoals; as objects of their own they
would take gigabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_ROWS_AT_A_TIME = 2048
_MOST_SHARED = 20_000
_OWN = frozenset({"episode_id", "fingerprint"})


def table_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Iterate over the rows of a table; texts and lists that are equal are one object, not to be changed."""
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
