"""The judge that repeats what another tool wrote: curves, verdicts and success scores from a file."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from stepscore._untrusted import check_hashable, check_regular, read_json
from stepscore.episodes import Episode
from stepscore.episodes.readers import SUFFIXES, Key, Rows, column_names, grouped_rows, read_rows
from stepscore.errors import CurveError, OptionError
from stepscore.judges.base import Ask
from stepscore.judges.common.option_checks import check_options, optional, positive, whole
from stepscore.judges.recorded.formats import RecordedCurve, parse_pred_vllm, parse_rows
from stepscore.judges.recorded.timestamps import check_within, place_rows
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, Judgement

CURVE_SUFFIXES = (*SUFFIXES, ".json")
"""Suffixes of files that may hold a curve: tables, and ``pred_vllm.json``."""

_KEYS: tuple[Key, ...] = ("episode_id", "episode_index")


@dataclass(frozen=True)
class Recorded:
    """Progress and verdicts as another tool wrote them; ``docs/judges/recorded.md`` lists the formats and columns.

    The curve has one point per row of the file. A value outside 0..1 is kept in the channel ``raw`` and is
    unknown in ``progress``.

    Attributes:
        path: A table with a column ``episode_id`` (or LeRobot's ``episode_index``), or a folder with
            ``<episode id>.curve.csv`` and the like. ``None`` takes the file found beside each episode.
        interval: Frames between rows of a file that states no times. ``None`` finds it from their number.
        column: The column that is progress. ``None`` takes the format's own.
        scale: Factor of progress: 0.01 for a file in percent, which is never guessed.
        clip: Whether values outside 0..1 become 0 or 1 in ``progress`` instead of unknown.
    """

    path: str | None = field(default=None, metadata=names("path"))
    interval: int | None = None
    column: str | None = field(default=None, metadata=names("text"))
    scale: float = 1.0
    clip: bool = False
    name = "recorded"
    version = 1
    models = ()

    def __post_init__(self) -> None:
        if self.path is not None and not os.path.exists(str(self.path)):
            raise OptionError(f"path is {str(self.path)!r}; there is no such file or folder.")
        check_options(self, interval=optional(whole(1)), scale=positive())
        if self.column is not None and not isinstance(self.column, str):
            raise OptionError(f"column is {self.column!r}; it must be the name of a column.")
        if not isinstance(self.clip, bool):
            raise OptionError(f"clip is {self.clip!r}; it must be true or false.")

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number; a file or folder given by ``path`` enters by its content."""
        return {
            "path": None if self.path is None else f"sha256:{_content_digest(Path(self.path))}",
            "interval": self.interval,
            "column": self.column,
            "scale": float(self.scale),
            "clip": self.clip,
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return the file's curve and verdicts of the episode. Raises CurveError when it cannot be found or read."""
        file = self._find(episode)
        recorded = self._read(file, episode)
        for verdict in recorded.verdicts:
            _check_subgoal(verdict.subgoal, episode, file)
            check_within(verdict.when_s, f"{file}, subgoal {verdict.subgoal!r}: when_s", episode)
        curve = None
        if recorded.values is not None:
            times, source = place_rows(recorded, episode, self.interval, file)
            progress, channels = self._absolute(recorded, recorded.values, file)
            curve = Curve(times, progress, channels, time_source=source)
        return Judgement(curve, recorded.verdicts, recorded.success_score)

    def _find(self, episode: Episode) -> Path:
        if self.path is None:
            if not episode.recorded:
                raise CurveError(
                    f"Episode {episode.id} has no recorded curve beside it: no <stem>.curve.csv, .jsonl or "
                    ".parquet, and no other such file in a folder of its own. Give one: -J path=FILE"
                )
            return _the_only(list(episode.recorded), f"Episode {episode.id}")
        given = Path(self.path)
        if not os.path.isdir(given):
            return given
        candidates = [given / f"{episode.id}.curve{suffix}" for suffix in CURVE_SUFFIXES]
        existing = [path for path in candidates if os.path.isfile(path)]
        if not existing:
            raise CurveError(
                f"No file {candidates[0]} (or {', '.join(CURVE_SUFFIXES[1:])}) for episode {episode.id}."
            )
        return _the_only(existing, f"Episode {episode.id}")

    def _is_given(self, file: Path) -> bool:
        return self.path is not None and Path(self.path) == file

    def _read(self, file: Path, episode: Episode) -> RecordedCurve:
        if file.suffix.lower() == ".json":
            if self._is_given(file):
                raise CurveError(f"{file} holds one episode and does not state which; {_KEYED}")
            if self.column is not None:
                raise CurveError(
                    f"{file}: -J column= is for tables; the progress of a .json file is 'progress'."
                )
            return parse_pred_vllm(read_json(file, CurveError), file)
        return parse_rows(self._rows(file, episode), self.column)

    def _rows(self, file: Path, episode: Episode) -> Rows:
        """Return the rows of this episode: all of a file of its own, or those with its key."""
        names = _columns_of(file)
        key = next((key for key in _KEYS if key in names), None)
        if key is None:
            if self._is_given(file):
                raise CurveError(
                    f"{file} has no column 'episode_id'; {_KEYED} It has: {', '.join(names[:50])}."
                )
            rows = read_rows(file)
            if late := set(_KEYS) & set(rows.columns):
                raise CurveError(f"{rows.at(0)}: no {late.pop()}, though a later row has one.")
            return rows
        if key == "episode_id":
            return grouped_rows(file, key).of(episode.id)
        if episode.source_index is None:
            raise CurveError(
                f"{file} numbers its episodes (episode_index), but episode {episode.id} has no number in its "
                "source. Give a file with a column 'episode_id'."
            )
        return grouped_rows(file, key).of(str(episode.source_index))

    def _absolute(
        self, recorded: RecordedCurve, values: FloatArray, file: Path
    ) -> tuple[FloatArray, Mapping[str, FloatArray]]:
        """Return progress in 0..1 or NaN, and the channels, with ``raw`` where a value lies outside."""
        raw = values * self.scale
        outside = (raw < 0.0) | (raw > 1.0)
        if not np.any(outside):
            return raw, recorded.channels
        if "raw" in recorded.channels:
            raise CurveError(
                f"{file}, row {recorded.rows[np.argmax(outside)]}: progress lies outside 0..1. It would "
                "be kept in the channel 'raw', but the file has a column 'raw' of its own. Rename that."
            )
        progress = np.clip(raw, 0.0, 1.0) if self.clip else np.where(outside, math.nan, raw)
        return progress, {**recorded.channels, "raw": raw}


_KEYED = "a file given with path= must say in a column 'episode_id' which row is of which episode."


def _the_only(files: list[Path], whose: str) -> Path:
    if len(files) > 1:
        raise CurveError(
            f"{whose} has {len(files)} recorded curves: {', '.join(map(str, files))}. Keep one, or choose: "
            "-J path=FILE"
        )
    return files[0]


def _check_subgoal(name: str, episode: Episode, file: Path) -> None:
    known = [subgoal.name for subgoal in episode.subgoals]
    if known and name not in known:
        raise CurveError(
            f"{file}: verdict on unknown subgoal {name!r}; the subgoals of episode {episode.id} are: "
            f"{', '.join(known)}."
        )


def _content_digest(path: Path) -> str:
    """Return the sha256 of a file, or of the names and contents of a folder's curve files.

    A file of a folder that cannot be read (a pipe, one without permission) enters by its name; its episode fails.
    """
    if not path.is_dir():
        status = check_hashable(path, OptionError)
        return _digest_of((("", str(path), status.st_mtime_ns, status.st_size),))
    files = sorted((p.relative_to(path).as_posix(), p) for p in path.rglob("*.curve.*"))
    stats = []
    for name, file in files:
        if file.suffix in CURVE_SUFFIXES:
            try:
                status = check_hashable(file, CurveError)
                stats.append((name, str(file), status.st_mtime_ns, status.st_size))
            except CurveError:
                stats.append((name, "", 0, 0))
    return _digest_of(tuple(stats))


def _columns_of(path: Path) -> tuple[str, ...]:
    """Return the columns of a file, read once while it does not change."""
    status = check_regular(path, CurveError)
    return _read_columns(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _read_columns(path: Path, mtime_ns: int, size: int) -> tuple[str, ...]:
    del mtime_ns, size  # part of the cache's key, so that a file that was written again is read again
    return column_names(path)


@lru_cache(maxsize=8)
def _digest_of(files: tuple[tuple[str, str, int, int], ...]) -> str:
    # Keyed by time and size as well, so that a file that was written again is hashed again.
    digest = hashlib.sha256()
    for name, path, _, _ in files:
        digest.update(os.fsencode(name) + b"\0" + _file_digest(path))
    return digest.hexdigest()


def _file_digest(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        return f"unreadable: {error.strerror}".encode()
