"""Read untrusted Parquet files within limits.

A footer of a few bytes can claim 10^12 rows, and a column with one repeated string can grow a thousandfold
when read. The memory for a read is therefore first estimated from the footer. String columns are read in
dictionary form, and their expanded size is checked before they are expanded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepscore._untrusted import check_regular, shown
from stepscore.errors import StepScoreError

MAX_TABLE_BYTES = 1 << 29
"""Largest amount of memory for the columns read from one file, in bytes."""

MAX_COLUMNS = 10_000
"""Largest number of columns of a table."""

_BATCH_ROWS = 256

Error = type[StepScoreError]


@contextmanager
def open_parquet(path: Path, error: Error) -> Iterator[Any]:
    """Open a file for reading; raise ``error`` if the file or part of its content cannot be read."""
    import pyarrow.parquet as pq

    check_regular(path, error)
    try:
        # Pass a file object, not a path, because a folder called "a=b" would add a column.
        with path.open("rb") as raw, pq.ParquetFile(raw) as file:
            if file.metadata.num_columns > MAX_COLUMNS:
                raise error(
                    f"{shown(path)} has {file.metadata.num_columns} columns; at most {MAX_COLUMNS} are read."
                )
            yield file
    except StepScoreError:
        raise
    except Exception as problem:  # Arrow raises ArrowException, OSError, ValueError, KeyError ...
        raise error(f"Cannot read {shown(path)} as parquet: {str(problem)[:200]}.") from problem


def read_parquet(
    path: Path, error: Error, columns: Sequence[str] | None = None, *, row_group: int | None = None
) -> Any:
    """Return the table in a file, optionally limited to some columns or one row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_parquet(path, error) as file:
        schema, metadata = file.schema_arrow, file.metadata
        names = list(schema.names) if columns is None else list(columns)
        groups = None if row_group is None else [row_group]
        n_rows = metadata.num_rows if row_group is None else metadata.row_group(row_group).num_rows
        check_size(file, names, path, error, row_groups=groups)
        texts = [name for name in names if _is_text(schema.field(name).type)]
        with path.open("rb") as raw, pq.ParquetFile(raw, read_dictionary=texts) as compact:
            if any(pa.types.is_nested(schema.field(name).type) for name in names):
                table = _read_by_batches(compact, names, path, error, groups)
            elif row_group is not None:
                table = compact.read_row_group(row_group, columns=names, use_threads=False)
            else:
                table = compact.read(columns=names) if columns is not None else compact.read()
        left = MAX_TABLE_BYTES - 8 * n_rows * len(names)
        for name in texts:
            left -= _text_bytes(table.column(name))
            if left < 0:
                raise error(_too_large(path, f"the texts of column {name!r}"))
        for name in names:
            if _holds_times(schema.field(name).type):
                _check_times(table.column(name), f"{shown(path)}: column {shown(name)!r}", error)
        fields = [pa.field(field.name, schema.field(field.name).type) for field in table.schema]
        return table.cast(pa.schema(fields, metadata=table.schema.metadata))


def _read_by_batches(
    file: Any, columns: Sequence[str], path: Path, error: Error, row_groups: Sequence[int] | None = None
) -> Any:
    """Return the table, read in small batches because strings inside lists are expanded while reading."""
    import pyarrow as pa

    batches, size = [], 0
    for batch in file.iter_batches(_BATCH_ROWS, row_groups=row_groups, columns=list(columns)):
        batches.append(batch)
        size += batch.nbytes
        if size > MAX_TABLE_BYTES:
            raise error(_too_large(path, f"the columns {', '.join(columns)[:200]}"))
    return pa.Table.from_batches(batches) if batches else file.read(columns=list(columns))


def check_size(
    file: Any, columns: Sequence[str], path: Path, error: Error, *, row_groups: Sequence[int] | None = None
) -> None:
    """Raise ``error`` if reading these columns of an open file would need more than ``MAX_TABLE_BYTES``."""
    metadata, wanted = file.metadata, set(columns)
    numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
    n_rows = metadata.num_rows if row_groups is None else sum(metadata.row_group(i).num_rows for i in numbers)
    claimed = 8 * n_rows * len(wanted)
    if n_rows < 0 or claimed > MAX_TABLE_BYTES:
        raise error(_too_large(path, f"{n_rows} rows of {len(wanted)} columns"))
    for number in numbers:
        group = metadata.row_group(number)
        for column in range(group.num_columns):
            chunk = group.column(column)
            if wanted & {chunk.path_in_schema, chunk.path_in_schema.partition(".")[0]}:
                claimed += max(0, chunk.total_uncompressed_size)
                if claimed > MAX_TABLE_BYTES:
                    raise error(_too_large(path, f"column {chunk.path_in_schema!r}"))


def _too_large(path: Path, what: str) -> str:
    return f"{shown(path)}: {what} would take more than {MAX_TABLE_BYTES >> 20} MiB. Split the file, or leave it out."


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _holds_times(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _holds_times(kind.value_type)
    inside = [kind.field(number).type for number in range(kind.num_fields)]
    return bool(pa.types.is_temporal(kind)) or any(_holds_times(one) for one in inside)


def _check_times(column: Any, where: str, error: Error) -> None:
    """Raise ``error`` for dates and times that Python cannot represent; Arrow allows any year and time zone."""
    try:
        column.to_pylist()
    except Exception as problem:  # OverflowError, ValueError or a time zone library's error
        raise error(f"{where} holds a date or time that cannot be read ({str(problem)[:200]}).") from problem


def _text_bytes(column: Any) -> int:
    """Return the size of a string column in bytes after dictionary expansion."""
    import pyarrow as pa
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.binary_length(chunk.dictionary)
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
        else:
            total += chunk.nbytes
    return total
