"""Answers kept beside a shard's journal, so that a machine without the first one's cache never asks twice.

The user's cache is on one machine. A shard that died may be rerun on another, and finds the answers to calls of its
unfinished episodes in this file of lines. The file is removed when the shard has judged all its episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscore._journals import MAX_LINE_BYTES, LineFile
from stepscore._reading import parse_json
from stepscore.errors import RunError
from stepscore.models.calls.answer_cache import CallCache


class SharedAnswers:
    """The call cache plus the answers in a file of the run folder, with the methods of :class:`CallCache`.

    ``check`` is called before each line; it raises if another process has taken over the folder.
    """

    def __init__(self, cache: CallCache, path: Path, check: Callable[[], None] = lambda: None) -> None:
        self.path, self._cache = path, cache
        self.claim, self.release = cache.claim, cache.release
        self._lines = LineFile(path, check=check, sync=True)
        self._lines.drop_torn_line()
        self._offsets: dict[str, int] = {}
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if (record := _record(line)) is not None:
                    self._offsets[record["key"]] = file.tell() - len(line)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the answer to a call; ``None`` if there is no readable one."""
        found = self._cache.get(key)
        if found is not None or key not in self._offsets:
            return found
        with self.path.open("rb") as file:
            file.seek(self._offsets[key])
            record = _record(file.readline(MAX_LINE_BYTES))
        return None if record is None else record["answer"]

    def put(self, key: str, model: str, value: dict[str, Any]) -> None:
        """Store an answer in both places; first in the folder, which another machine reads."""
        line = json.dumps({"key": key, "answer": value}, allow_nan=False).encode() + b"\n"
        if len(line) <= MAX_LINE_BYTES:
            self._offsets[key] = self._lines.append(line)
        self._cache.put(key, model, value)

    def forget(self, key: str) -> None:
        """Forget an unusable answer."""
        self._offsets.pop(key, None)
        self._cache.forget(key)

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._cache.close()


def _record(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line; ``None`` if it is damaged, and its call is made again."""
    try:
        record = parse_json(line, "", RunError)
    except RunError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("key"), str):
        return None
    return record if isinstance(record.get("answer"), dict) else None
