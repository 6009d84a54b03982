"""Pairs of images from another tool's file, such as RoboPulse's, read by a mapping of its columns.

Files differ, so the user maps fields: ``before=front_before,after=front_after,...``. A field may be nested
(``meta.task``) or in a list (``images.2``). Eight images in GRM's layout need one name: ``images``, a list of
REFERENCE START, REFERENCE END, BEFORE and AFTER of the cameras front, left, right.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore._untrusted import parse_json, read_text, read_yaml, shown
from stepscore.audit.pairs.pair import MAX_PAIRS, SPANS, Pair, Span, check_ids, span_of
from stepscore.episodes import Episode, GoalFrame, check_image_root, image_view
from stepscore.errors import ManifestError, OptionError, UnknownNameError

CAMERAS = ("front", "left", "right")
COLUMNS = (
    "images",
    "start",
    "end",
    "before",
    "after",
    "label",
    "span",
    "instruction",
    "task",
    "id",
    "episode",
    "scene",
)
"""The columns that fields can be mapped to."""

LABELS = {
    **dict.fromkeys(("progress", "progressing", "advance", "forward", "rising", "positive", "better"), 1.0),
    **dict.fromkeys(
        ("regression", "regress", "regressing", "fall", "backward", "falling", "negative", "worse"), -1.0
    ),
}
"""Labels that are words; other labels are numbers, whose sign is the direction."""

_NUMBER = re.compile(r"([+-]?\d{1,9}(?:\.\d{1,12})?)\s*(%?)")


@dataclass(frozen=True)
class PairFile:
    """The pairs of a file.

    Attributes:
        clips: The images of each pair as an episode: start, BEFORE, AFTER.
        undirected: Number of records left out because their label is 0.
    """

    pairs: tuple[Pair, ...]
    clips: tuple[Episode, ...]
    undirected: int


def read_columns(text: str) -> dict[str, str]:
    """Return a column mapping from ``before=FIELD,after=FIELD,...`` or a YAML file with that content.

    Raises:
        OptionError: The text is malformed, or a required column is missing.
        UnknownNameError: A column is unknown.
    """
    found: dict[str, str] = {}
    if text.lower().endswith((".yaml", ".yml")):
        content = read_yaml(Path(text), ManifestError)
        if not isinstance(content, Mapping):
            raise ManifestError(f"{shown(text)}: expected a mapping such as `before: FIELD`.")
        found = {str(name): str(field) for name, field in content.items()}
    else:
        for part in filter(None, (part.strip() for part in text.split(","))):
            name, equals, field = part.partition("=")
            if not equals or not field.strip():
                raise OptionError(
                    f"--columns {shown(part)}: expected COLUMN=FIELD, for example label=answer."
                )
            found[name.strip()] = field.strip()
    for name in found:
        if name not in COLUMNS:
            raise UnknownNameError("column of --columns", name, COLUMNS)
    missing = [name for name in ("start", "before", "after") if name not in found and "images" not in found]
    missing += [name for name in ("label",) if name not in found]
    if missing:
        raise OptionError(
            f"--columns names no field for {', '.join(missing)}. Every pair needs label, and either images (eight in "
            "the layout of GRM) or start, before and after."
        )
    return found


def read_pair_file(path: Path, columns: Mapping[str, str], images: Path | None = None) -> PairFile:
    """Read pairs of images; errors name the file, the record and its fields.

    Args:
        path: A JSON file with a list of records, or JSON lines.
        columns: From :func:`read_columns`.
        images: Folder or zip archive that image paths are relative to; the file's folder by default.
    """
    root = path.parent if images is None else images
    check_image_root(root)
    pairs: list[Pair] = []
    clips: list[Episode] = []
    undirected = 0
    records = _records(path)
    if len(records) > MAX_PAIRS:
        raise ManifestError(f"{shown(path)} has more than {MAX_PAIRS} pairs.")
    for number, record in enumerate(records):
        row = _Row(record, columns, f"{shown(path)}, record {number}")
        change = row.change()
        if change == 0:
            undirected += 1
            continue
        pair = _pair(row, number, change)
        pairs.append(pair)
        clips.append(_clip(row, pair, root))
    check_ids(path, pairs)
    return PairFile(tuple(pairs), tuple(clips), undirected)


def _records(path: Path) -> list[Any]:
    """Return the records of a JSON list, of the only list in a JSON object, or of JSON lines."""
    text = read_text(path, ManifestError)
    if path.suffix.lower() in (".jsonl", ".ndjson"):
        return [
            parse_json(line, f"{shown(path)}:{number}", ManifestError)
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip()
        ]
    content = parse_json(text, shown(path), ManifestError)
    if isinstance(content, dict):
        lists = [value for value in content.values() if isinstance(value, list)]
        if len(lists) == 1:
            return lists[0]
        raise ManifestError(
            f"{shown(path)} is an object with {len(lists)} lists; expected a list of records, or an object with one."
        )
    if not isinstance(content, list):
        raise ManifestError(f"{shown(path)}: expected a list of records.")
    return content


@dataclass(frozen=True)
class _Row:
    """A record of the file under the mapping."""

    record: Any
    columns: Mapping[str, str]
    where: str

    def field(self, column: str) -> Any:
        """Return the value that a column is mapped to."""
        path = self.columns[column]
        if isinstance(self.record, Mapping) and path in self.record:
            return self.record[path]
        value = self.record
        for part in path.split("."):
            if isinstance(value, Mapping) and part in value:
                value = value[part]
            elif isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            else:
                raise ManifestError(
                    f"{self.where} has no field {shown(path)!r}, which --columns gives for {column}. {_has(value)}"
                )
        return value

    def text(self, column: str) -> str:
        """Return a text; empty if the column is not mapped."""
        if column not in self.columns:
            return ""
        value = self.field(column)
        if isinstance(value, list) and value:  # several wordings of one instruction
            value = value[0]
        if not isinstance(value, str | int | float):
            raise self._wrong(column, value, "a text")
        return str(value)[:10_000]

    def paths(self, column: str) -> list[str]:
        """Return one or several image paths."""
        value = self.field(column)
        paths = [value] if isinstance(value, str) else value
        if not isinstance(paths, list) or not paths or not all(isinstance(one, str) for one in paths):
            raise self._wrong(column, value, "a path or a list of paths")
        return paths

    def images(self) -> tuple[str, str | None, list[str], list[str]]:
        """Return the paths of the start, the end if any, and BEFORE and AFTER of every camera."""
        if "images" in self.columns:
            paths = self.paths("images")
            if len(paths) != 8:
                raise self._wrong("images", paths, "eight paths: START, END, three of BEFORE, three of AFTER")
            return paths[0], paths[1], paths[2:5], paths[5:]
        before, after = self.paths("before"), self.paths("after")
        if len(before) != len(after) or len(before) > len(CAMERAS):
            raise ManifestError(
                f"{self.where} has {len(before)} images before and {len(after)} after; expected equal numbers, one "
                f"to three: {', '.join(CAMERAS)}."
            )
        end = self.paths("end")[0] if "end" in self.columns else None
        return self.paths("start")[0], end, before, after

    def change(self) -> float:
        """Return the label as a change: a hop in -1..1, or 1 or -1 if only its direction is stated."""
        value = self.field("label")
        if isinstance(value, str):
            word = value.strip().lower()
            if word in LABELS:
                return LABELS[word]
            stated = _NUMBER.search(word)
            value = float(stated[1]) / (100 if stated[2] else 1) if stated is not None else value
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            allowed = ", ".join(list(LABELS)[:1] + [name for name, sign in LABELS.items() if sign < 0][:1])
            raise self._wrong("label", value, f"a number or one of {allowed} ...")
        return float(value) / 100 if abs(value) > 1 else float(value)

    def span(self, change: float) -> Span | None:
        """Return the span stated in the file, else that of the change if its size is known."""
        if "span" not in self.columns:
            return span_of(change) if abs(change) != 1 else None
        value = self.text("span").strip().lower()
        if value not in SPANS:
            raise self._wrong("span", value, f"one of {', '.join(SPANS)}")
        return value

    def _wrong(self, column: str, value: object, expected: str) -> ManifestError:
        given = shown(str(value)[:200])
        return ManifestError(
            f"{self.where}: field {shown(self.columns[column])!r} ({column}) is {given!r}; expected {expected}."
        )


def _has(value: object) -> str:
    if isinstance(value, Mapping):
        names = [shown(str(name)[:80]) for name in list(value)[:30]]
        return f"Its fields: {', '.join(names) or 'none'}."
    if isinstance(value, list):
        return f"It is a list of {len(value)} items."
    return "It is not an object."


def _pair(row: _Row, number: int, change: float) -> Pair:
    if not abs(change) <= 1:
        raise ManifestError(f"{row.where}: the change must be in -1..1, got {change:g}.")
    name = row.text("id") or f"pair_{number:06d}"
    return Pair(
        id=name,
        episode=row.text("episode") or name,
        played="forwards",
        before_s=1.0,
        after_s=2.0,
        change=change,
        span=row.span(change),
        task=row.text("task") or row.text("instruction"),
        scene=row.text("scene"),
        hop=math.nan if abs(change) == 1 else change,
    )


def _clip(row: _Row, pair: Pair, root: Path) -> Episode:
    start, end, before, after = row.images()
    frames: dict[str, Sequence[str]] = {
        camera: (start if camera == CAMERAS[0] else earlier, earlier, later)
        for camera, earlier, later in zip(CAMERAS, before, after, strict=False)
    }
    try:
        views = {camera: image_view(root, names) for camera, names in frames.items()}
        goals = {} if end is None else {CAMERAS[0]: GoalFrame(pair.id, image_view(root, (end,)))}
    except ManifestError as error:
        raise ManifestError(f"{row.where}: {error}") from None
    return Episode(
        id=pair.id,
        instruction=row.text("instruction") or row.text("task"),
        task=pair.task or None,
        views=views,
        goals=goals,
    )
