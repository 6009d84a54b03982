"""Rows of a file that another tool wrote (csv, jsonl or parquet), whole or by episode.

Cells keep their original values; :meth:`Rows.floats` converts a column to numbers, and the error for a cell
that is not a number names file, row and column. An unknown number is NaN. Every error is a CurveError.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from stepscore._untrusted import MAX_TEXT_BYTES, check_regular
from stepscore._untrusted.parquet_files import MAX_COLUMNS, MAX_TABLE_BYTES, open_parquet, read_parquet
from stepscore.errors import CurveError, StepScoreError
from stepscore.types import FloatArray, IntArray

SUFFIXES: Final = (".csv", ".jsonl", ".parquet")
UNKNOWN: Final = ("", "nan", "null")
"""Cells of a csv file that stand for an unknown number (case-insensitive)."""

ABSENT: Final = ("absent",)
"""The cell of a jsonl row that lacks the column (``null`` is ``None``)."""

Cells = Any
"""A column: an array of numbers (parquet), an arrow array (other parquet, large csv) or a sequence."""

_HEADER_LIMIT = 1 << 20
_LINE_LIMIT = 1 << 24


@dataclass(frozen=True)
class Rows:
    """Some rows of one file, by column.

    Attributes:
        path: The file.
        columns: Cells by column name, as the file's reader left them; read them by :meth:`cells` or :meth:`floats`.
        numbers: Each row's number in the file, from 1: data rows in csv and parquet, lines in jsonl.
        metadata: Metadata of a parquet file's schema.
    """

    path: Path
    columns: Mapping[str, Cells]
    numbers: IntArray
    metadata: Mapping[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, row: int) -> str:
        """Return the location of a row, for messages."""
        return f"{self.path}, row {self.numbers[row]}"

    def cells(self, name: str) -> Sequence[object]:
        """Return a column's cells with their original values."""
        return _listed(self.columns[name])

    def take(self, keep: IntArray) -> Rows:
        """Return only these rows, in this order."""
        columns = {name: _picked(cells, keep) for name, cells in self.columns.items()}
        return Rows(self.path, columns, self.numbers[keep], self.metadata)

    def floats(self, name: str) -> FloatArray:
        """Return a column as numbers, NaN where unknown. CurveError names the first cell that is not a number."""
        column = self.columns[name]
        if isinstance(column, np.ndarray):
            return column.astype(np.float64, copy=False)
        cells = _listed(column)
        values = np.empty(len(cells))
        for row, cell in enumerate(cells):
            try:
                values[row] = parse_number(cell)
            except ValueError:
                raise CurveError(
                    f"{self.at(row)}, column {name}: {str(cell)[:40]!r} is not a number. "
                    "Write a number, or leave the cell empty if it is unknown."
                ) from None
        return values

    def is_text(self, name: str) -> bool:
        """Return whether no cell of the column is a known number: text, true/false, or an empty column."""
        return not any(_is_known_number(cell) for cell in self.cells(name))


def _listed(cells: Cells) -> Sequence[object]:
    if isinstance(cells, list | tuple):
        return cells
    listed: list[object] = cells.tolist() if isinstance(cells, np.ndarray) else cells.to_pylist()
    return listed


def _picked(cells: Cells, keep: IntArray) -> Cells:
    if isinstance(cells, np.ndarray):
        return cells[keep]
    return [cells[i] for i in keep] if isinstance(cells, list | tuple) else cells.take(keep).to_pylist()


def parse_number(cell: object) -> float:
    """Return a cell as a number, NaN if unknown; ValueError if the cell is not a number."""
    if isinstance(cell, str):
        if cell.strip().lower() in UNKNOWN:
            return math.nan
        if "_" in cell:  # float() would take Python's digit separators
            raise ValueError(cell)
        return float(cell)
    if cell is None or cell is ABSENT:
        return math.nan
    if isinstance(cell, int | float) and not isinstance(cell, bool):
        try:
            return float(cell)
        except OverflowError:
            raise ValueError(cell) from None
    raise ValueError(cell)


def is_empty(cell: object) -> bool:
    """Return whether a cell is empty: absent, null, NaN or blank text."""
    return cell is None or cell is ABSENT or cell != cell or (isinstance(cell, str) and not cell.strip())


def _is_known_number(cell: object) -> bool:
    try:
        return not math.isnan(parse_number(cell))
    except ValueError:
        return False


def column_names(path: Path) -> tuple[str, ...]:
    """Return the columns of a file, read from its first line or its schema; of jsonl, those of the first row."""
    check_regular(path, CurveError)
    with _reading(path):
        if _suffix(path) == ".parquet":
            with open_parquet(path, CurveError) as file:
                names = tuple(file.schema_arrow.names)
        elif _suffix(path) == ".jsonl":
            with path.open(encoding="utf-8-sig") as file:
                lines = enumerate(iter(partial(file.readline, _LINE_LIMIT), ""), 1)
                first = next((numbered for numbered in lines if numbered[1].strip()), None)
            names = tuple(_json_row(first[1], path, first[0])) if first else ()
        elif _suffix(path) == ".csv":
            names = tuple(name.strip() for name in _csv_header(path))
        else:
            raise CurveError(f"{path}: a table of curves is one of {', '.join(SUFFIXES)}.")
    check_columns(len(names), path)
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise CurveError(f"{path}: column {twice!r} appears twice; rename or remove one.")
    return names


def _suffix(path: Path) -> str:
    return path.suffix.lower()


def read_rows(path: Path) -> Rows:
    """Read all rows of a small file."""
    column_names(path)
    _check_size(path, MAX_TEXT_BYTES)
    with _reading(path):
        if _suffix(path) == ".parquet":
            return rows_from_arrow(path, read_parquet(path, CurveError))
        if _suffix(path) == ".jsonl":
            return _read_jsonl(path)
        return _read_csv(path)


def read_large(path: Path) -> Rows:
    """Read all rows of a large file; csv goes through arrow, so text columns are compact arrow arrays.

    Arrow is ten times as fast as the csv module on a million rows, and ten times as slow on fifty.
    """
    names = column_names(path)
    if _suffix(path) != ".csv":
        return read_rows(path)
    _check_size(path, MAX_TABLE_BYTES)
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with _reading(path):
        header = _csv_header(path)
        table = arrow_csv.read_csv(
            path,
            read_options=arrow_csv.ReadOptions(use_threads=False),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(column_types=dict.fromkeys(header, pa.string())),
        )
    return rows_from_arrow(path, table.rename_columns(list(names)))


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert library errors on a bad file into a CurveError that names the file."""
    try:
        yield
    except StepScoreError:
        raise
    except OSError as error:
        raise CurveError(f"Cannot read {path}: {error.strerror or error}.") from error
    # Arrow raises ValueError for damaged files, and so do json and utf-8 decoding.
    except (ValueError, KeyError, TypeError, csv.Error, RecursionError, NotImplementedError) as error:
        raise CurveError(f"Cannot read {path} as {_suffix(path)[1:]}: {str(error)[:200]}.") from error


def check_columns(n: int, path: Path) -> None:
    """Raise CurveError for a table with more than ``MAX_COLUMNS`` columns."""
    if n > MAX_COLUMNS:
        raise CurveError(f"{path} has {n} columns; at most {MAX_COLUMNS} are read.")


def _check_size(path: Path, most: int) -> None:
    # Parquet files state their size in their footer, which is checked when they are read.
    if _suffix(path) != ".parquet" and check_regular(path, CurveError).st_size > most:
        raise CurveError(f"{path} has more than {most >> 20} MiB, the limit for such a file. Split it.")


def _csv_header(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return next(csv.reader([file.readline(_HEADER_LIMIT)], strict=True), [])


def _read_csv(path: Path) -> Rows:
    with path.open(encoding="utf-8-sig", newline="") as file:
        table = list(csv.reader(file, strict=True))
    header = [name.strip() for name in table[0]] if table else []
    # An empty line is an unknown value in a file with one column, and is ignored in other files.
    body = [row or [""] for row in table[1:] if row or len(header) == 1]
    for number, row in enumerate(body, start=1):
        if len(row) != len(header):
            raise CurveError(f"{path}, row {number}: {len(row)} cells where the header has {len(header)}.")
    cells = zip(*body, strict=True) if body else [() for _ in header]
    return Rows(path, dict(zip(header, cells, strict=True)), np.arange(1, len(body) + 1))


def _json_row(text: str, path: Path, line: int) -> Mapping[str, object]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CurveError(f"{path}, row {line}: not JSON ({error}).") from error
    if not isinstance(row, dict):
        raise CurveError(f"{path}, row {line}: expected an object, got {text.strip()[:40]!r}.")
    return row


def _read_jsonl(path: Path) -> Rows:
    rows: list[Mapping[str, object]] = []
    numbers: list[int] = []
    names: dict[str, None] = {}
    with path.open(encoding="utf-8-sig") as file:
        for line, text in enumerate(file, start=1):
            if text.strip():
                row = _json_row(text, path, line)
                rows.append(row)
                numbers.append(line)
                if not names.keys() >= row.keys():
                    names.update(dict.fromkeys(row))
                    check_columns(len(names), path)
    if len(names) * len(rows) > MAX_TABLE_BYTES // 8:
        raise CurveError(f"{path} has {len(names)} columns in {len(rows)} rows, too many to read.")
    columns = {name: [row.get(name, ABSENT) for row in rows] for name in names}
    return Rows(path, columns, np.array(numbers, dtype=np.int64))


def rows_from_arrow(path: Path, table: Any, first: int = 1) -> Rows:
    """Return the rows of an Arrow table, numbered from ``first``."""
    import pyarrow as pa

    def cells(column: Any) -> Cells:
        kind = column.type
        if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            return column.cast(pa.float64(), safe=False).to_numpy()
        if pa.types.is_integer(kind) and not column.null_count:  # kept whole: an id may exceed a float
            return column.to_numpy()
        return column.combine_chunks()

    columns = {name: cells(table.column(name)) for name in table.column_names}
    stated = table.schema.metadata or {}
    metadata = {key.decode(errors="replace"): value.decode(errors="replace") for key, value in stated.items()}
    return Rows(path, columns, np.arange(first, first + table.num_rows), metadata)
