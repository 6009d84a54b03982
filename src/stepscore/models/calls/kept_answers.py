"""Answers kept beside a shard's journal, so that a machine without the first one's cache asks nothing twice.

The user's cache is on one machine. A shard that died may be run again on another, and the answers to calls of its
unfinished episodes go with it in this file of lines. It is removed when the shard has judged all its episodes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscore._appending import MAX_LINE_BYTES, LineFile
from stepscore._untrusted import parse_json
from stepscore.errors import RunError
from stepscore.models.calls.answer_cache import CallCache


class KeptAnswers:
    """The call cache, and behind it the answers in a file of the run folder; used as a :class:`CallCache` is.

    Args:
        cache: The user's cache.
        path: The file.
        check: Called before each line; raises where the folder is no longer this process's.
    """

    def __init__(self, cache: CallCache, path: Path, check: Callable[[], None] = lambda: None) -> None:
        self.path, self._cache = path, cache
        self._lines = LineFile(path, check=check, sync=True)
        self._lines.drop_torn_line()
        self._offsets: dict[str, int] = {}
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                if (record := _record(line)) is not None:
                    self._offsets[record["key"]] = file.tell() - len(line)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return the answer to a call; ``None`` where there is none that can be read."""
        found = self._cache.get(key)
        if found is not None or key not in self._offsets:
            return found
        with self.path.open("rb") as file:
            file.seek(self._offsets[key])
            record = _record(file.readline(MAX_LINE_BYTES))
        return None if record is None else record["answer"]

    def put(self, key: str, model: str, value: dict[str, Any]) -> None:
        """Keep an answer in both places; first in the folder, which another machine reads."""
        line = json.dumps({"key": key, "answer": value}, allow_nan=False).encode() + b"\n"
        if len(line) <= MAX_LINE_BYTES:
            self._offsets[key] = self._lines.append(line)
        self._cache.put(key, model, value)

    def forget(self, key: str) -> None:
        """Forget an answer that cannot be used."""
        self._offsets.pop(key, None)
        self._cache.forget(key)

    def claim(self, key: str, owner: str, until: float) -> bool:
        """Claim a question before it is asked; see :meth:`CallCache.claim`."""
        return self._cache.claim(key, owner, until)

    def release(self, key: str, owner: str) -> None:
        """Give a claim back."""
        self._cache.release(key, owner)

    def close(self) -> None:
        """Close both files."""
        self._lines.close()
        self._cache.close()


def _record(line: bytes) -> dict[str, Any] | None:
    """Return a line's record; one that is damaged is as good as none, and its question is asked again."""
    try:
        record = parse_json(line, "", RunError)
    except RunError:
        return None
    if not isinstance(record, dict) or not isinstance(record.get("key"), str):
        return None
    return record if isinstance(record.get("answer"), dict) else None
