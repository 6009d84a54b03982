"""The entries of a manifest file as mappings with their line numbers. Checks the syntax, not the fields."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stepscore._untrusted import parse_json, parse_yaml, read_text
from stepscore.errors import ManifestError

_LISTS = ("subgoals", "stages")
_MAPPINGS = ("views", "subgoal_labels", "goal", "metadata")


@dataclass(frozen=True, slots=True)
class Row:
    """One entry: its fields, its line (``"line 3"``) and where that is (file and line), for messages."""

    fields: Mapping[str, object]
    line: str
    where: str


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the entries of a .jsonl, .csv, .yaml or .yml file, in its order."""
    text = read_text(path, ManifestError)
    rows = {".jsonl": _jsonl, ".csv": _csv}.get(path.suffix.lower(), _yaml)
    for number, fields in rows(text, path):
        line = f"line {number}"
        if not isinstance(fields, Mapping) or not all(isinstance(key, str) for key in fields):
            raise ManifestError(f"{path}, {line}: expected a mapping of fields, got {str(fields)[:60]!r}.")
        yield Row(fields, line, f"{path}, {line}")


def _jsonl(text: str, path: Path) -> Iterator[tuple[int, object]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield number, parse_json(line, f"{path}, line {number}", ManifestError)


def _csv(text: str, path: Path) -> Iterator[tuple[int, object]]:
    """Yield rows of a csv file: empty cells are fields left out, ``a.b`` columns are entries of mapping ``a``."""
    table = csv.DictReader(io.StringIO(text, newline=""), restkey="", strict=True)
    try:
        for row in table:
            number = table.line_num
            if "" in row:
                columns = len(table.fieldnames or ())
                raise ManifestError(f"{path}, line {number}: more cells than the {columns} columns.")
            fields: dict[str, object] = {}
            for column, cell in row.items():
                if cell is not None and cell.strip():
                    _put(fields, column.strip(), cell.strip(), f"{path}, line {number}")
            yield number, fields
    except csv.Error as error:
        raise ManifestError(f"{path}, line {table.line_num}: not csv ({error}).") from error


def _put(fields: dict[str, object], column: str, cell: str, where: str) -> None:
    name, dot, key = column.partition(".")
    if dot and name in _MAPPINGS:
        group = fields.setdefault(name, {})
        if not isinstance(group, dict):
            raise ManifestError(f"{where}: columns {name!r} and {column!r} are both filled; keep one.")
        group[key] = cell
    elif (name in _LISTS or name in _MAPPINGS) and cell[0] in "[{":
        fields[column] = parse_json(cell, f"{where}: field {column!r}", ManifestError)
    elif column == "subgoals":
        fields[column] = [part.strip() for part in cell.split(";") if part.strip()]
    else:
        fields[column] = cell


def _yaml(text: str, path: Path) -> Iterator[tuple[int, object]]:
    """Yield entries of a YAML list, or of ``episodes`` with ``defaults`` filled in."""
    content = parse_yaml(text, str(path), ManifestError)
    # Its nodes have line numbers.
    node: Any = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    defaults: object = {}
    if isinstance(content, dict):
        extra = sorted(str(key) for key in content if key not in ("defaults", "episodes"))
        if extra:
            raise ManifestError(f"{path}: unknown field {extra[0]!r}. Allowed: defaults, episodes.")
        defaults, content = content.get("defaults") or {}, content.get("episodes")
        node = next((value for key, value in node.value if key.value == "episodes"), node)
    if not isinstance(content, list) or not isinstance(defaults, dict):
        raise ManifestError(f"{path}: expected a list of episodes, or a mapping with defaults and episodes.")
    for item, entry in zip(node.value, content, strict=True):
        yield item.start_mark.line + 1, {**defaults, **entry} if isinstance(entry, dict) else entry
