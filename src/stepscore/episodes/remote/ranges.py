"""A file on another machine: byte ranges of it are fetched into a local file of the same size.

Next to the local file, ``NAME.ranges`` states which ranges it holds, for which size and version. Data is written
first and stated after, so that a killed process leaves at most ranges that are fetched again. A file that was
replaced is started again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from stepscore._files import user_cache_folder, write_json
from stepscore._locks import locked
from stepscore.episodes.remote import limits
from stepscore.episodes.remote.cache import cache_limit, is_cache_only
from stepscore.episodes.remote.filesystem import open_filesystem
from stepscore.episodes.remote.hub import hub_folder
from stepscore.episodes.remote.hub_cache import hub_copy
from stepscore.episodes.remote.hub_http import read_hub_ranges
from stepscore.episodes.remote.limits import wait_for_store
from stepscore.episodes.remote.reasons import reason
from stepscore.errors import SourceError, StepScoreError, VideoError

Range = tuple[int, int]
"""First byte and the one after the last."""

GAP_BYTES = 1 << 14
"""Ranges nearer than this are fetched as one: a request takes as long as some kilobytes."""

REQUEST_BYTES = 1 << 25
"""Most bytes asked for at a time, which are in memory until they are written."""


_TRIES = 3


def remote_folder(url: str) -> Path:
    """Return the place of a dataset in the user's cache folder."""
    name = PurePosixPath(url).name[:80] or "root"
    return user_cache_folder() / "remote" / f"{name}-{hashlib.sha256(url.encode()).hexdigest()[:16]}"


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset on another machine; a value that other processes and machines can use.

    Attributes:
        folder: URL of the dataset.
        name: POSIX path of the file in it.
        size: Its bytes.
        tag: Its version as the store states it (ETag, checksum or date); empty where it states none.
        offline: Fetch nothing: what is not there is an error.
    """

    folder: str
    name: str
    size: int
    tag: str
    offline: bool = False

    @property
    def path(self) -> Path:
        """Its place on this machine: in the Hub's own cache where all of it was downloaded, else in ours."""
        return self._copy() or self._place

    @property
    def url(self) -> str:
        """Its URL."""
        return f"{self.folder}/{self.name}"

    def is_whole(self) -> bool:
        """Return whether all of it is on this machine."""
        return not missing_ranges([(0, self.size)], self._held())

    def describes_dataset(self) -> bool:
        """Return whether it is one of the files that listing reads: of ``meta/``, or recorded progress."""
        return self.name.startswith("meta/") or (
            "/" not in self.name and self.name.endswith("_progress.parquet")
        )

    def fetch_all(self) -> Path:
        """Fetch what is missing of the whole file; return its place on this machine."""
        return self.fetch([(0, self.size)])

    def fetch(self, ranges: Iterable[Range]) -> Path:
        """Fetch what is missing of these ranges; return the file's place on this machine.

        Raises:
            VideoError: The store does not give them, or fetching is forbidden.
            SourceError: The cache folder cannot be written.
        """
        wanted = merged_ranges(ranges, self.size, GAP_BYTES)
        try:
            self._mark_used()
            fetched = self._fetch_missing(wanted)
            if fetched:
                cache_limit().count(fetched)
            elif self.size == 0:
                self._write([], [])
        except OSError as error:
            raise SourceError(
                f"Cannot write {self._place}: {error.strerror or error}. "
                "Set STEPSCORE_CACHE to a folder with room, or lower STEPSCORE_REMOTE_CACHE_GB."
            ) from error
        return self.path

    @property
    def _place(self) -> Path:
        return remote_folder(self.folder) / self.name

    def _copy(self) -> Path | None:
        # What describes the dataset is read from one folder, which is ours.
        return None if self.describes_dataset() else hub_copy(self.folder, self.name, self.size)

    @property
    def _state(self) -> Path:
        return self._place.with_name(f"{self._place.name}.ranges")

    def _held(self) -> list[Range]:
        """Return the ranges that are on this machine."""
        return self._written() if self._copy() is None else [(0, self.size)]

    def _written(self) -> list[Range]:
        """Return the ranges that were fetched; none of another version of the file."""
        try:
            state = json.loads(self._state.read_text(encoding="utf-8"))
            if (state["size"], state["tag"]) == (
                self.size,
                self.tag,
            ) and self._place.stat().st_size == self.size:
                return [(int(start), int(end)) for start, end in state["ranges"]]
        except (OSError, ValueError, KeyError, TypeError):
            pass  # not begun yet, or damaged: started again
        return []

    def _mark_used(self) -> None:
        """Note the time of its last use, so that it is not removed while it is read."""
        if self._state.exists():
            # Whoever removes files holds the lock between looking at that time and removing.
            with suppress(OSError), locked(self._lock):
                os.utime(self._state)

    def _fetch_missing(self, wanted: Sequence[Range]) -> int:
        """Fetch what is missing of the ranges; return how many bytes that was."""
        fetched = 0
        # Another process may remove the file while a slow store is asked for more of it; then it is started again.
        for _ in range(_TRIES):
            missing = missing_ranges(wanted, self._held())
            if not missing:
                return fetched
            if self.offline or is_cache_only():
                raise VideoError(f"{self.url} has not been fetched far enough.")
            self._check_room(sum(end - start for start, end in missing))
            for parts in _requests(missing):
                self._write(parts, self._download(parts))
            fetched += sum(end - start for start, end in missing)
        return fetched

    def _check_room(self, size: int) -> None:
        """Refuse to fetch more than the disk has room for: a store lists files of any size."""
        folder = user_cache_folder()
        free = shutil.disk_usage(next(path for path in (folder, *folder.parents) if path.exists())).free
        room = max(0, free - limits.KEPT_FREE_BYTES)
        if size > max(room, REQUEST_BYTES):
            raise VideoError(
                f"{self.url} is listed with {self.size:,} bytes, of which {size:,} are needed here; the disk of the "
                f"cache folder has room for {room:,}. Set STEPSCORE_CACHE to a folder on a larger disk."
            )

    def _download(self, parts: Sequence[Range]) -> list[bytes]:
        starts, ends = ([part[side] for part in parts] for side in (0, 1))
        contents: list[bytes]
        try:
            if (hub := hub_folder(self.folder)) is not None:
                contents = read_hub_ranges(hub, self.name, self.size, parts)
            else:
                filesystem, path = open_filesystem(self.url)
                size = sum(ends) - sum(starts)
                contents = wait_for_store(
                    *(filesystem, "cat_ranges", [path] * len(parts), starts, ends),
                    seconds=limits.time_for(size),
                    on_error="raise",
                )
        except StepScoreError:
            raise
        except Exception as error:  # file systems share no base of their errors
            raise VideoError(f"Cannot fetch {self.url}: {reason(error)}.") from error
        for content, start, end in zip(contents, starts, ends, strict=True):
            if len(content) != end - start:
                raise VideoError(
                    f"{self.url}: the store sent {len(content)} bytes instead of {end - start}. "
                    "Was the file replaced? Open the dataset again."
                )
        return contents

    def _write(self, parts: Sequence[Range], contents: Sequence[bytes]) -> None:
        """Write ranges into the local file, which is made as large as the remote one unless it is there."""
        self._place.parent.mkdir(parents=True, exist_ok=True)
        with locked(self._lock):
            held = self._written()
            if not held:
                # A new file: whoever still decodes another version keeps the one that is open.
                self._state.unlink(missing_ok=True)
                self._place.unlink(missing_ok=True)
                with self._place.open("wb") as file:
                    file.truncate(self.size)
            with self._place.open("r+b") as file:
                for (start, _), content in zip(parts, contents, strict=True):
                    file.seek(start)
                    file.write(content)
            self._stamp()
            ranges = merged_ranges([*held, *parts], self.size)
            write_json(self._state, {"size": self.size, "tag": self.tag, "ranges": ranges}, indent=None)

    def _stamp(self) -> None:
        """Set the file's time from its version, because cached indexes of it are keyed by that time."""
        seconds = int.from_bytes(hashlib.sha256(self.tag.encode()).digest()[:4]) >> 2
        os.utime(self._place, (seconds, seconds))

    @property
    def _lock(self) -> Path:
        return self._place.with_name(f"{self._place.name}.lock")


def merged_ranges(ranges: Iterable[Range], size: int, gap: int = 0) -> list[Range]:
    """Return ranges in order, within the file, those that overlap or are at most ``gap`` apart as one."""
    merged: list[Range] = []
    for start, end in sorted((max(0, start), min(size, end)) for start, end in ranges):
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + gap:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def missing_ranges(wanted: Sequence[Range], held: Sequence[Range]) -> list[Range]:
    """Return what of ``wanted`` is not in ``held``; both are in order and without overlaps."""
    missing: list[Range] = []
    for start, end in wanted:
        inside = [(max(a, start), min(b, end)) for a, b in held if a < end and b > start]
        edges = [(start, start), *inside, (end, end)]
        missing += [(left[1], right[0]) for left, right in pairwise(edges) if left[1] < right[0]]
    return missing


def _requests(ranges: Sequence[Range]) -> Iterator[list[Range]]:
    """Yield ranges to ask for at a time, together at most ``REQUEST_BYTES``."""
    batch: list[Range] = []
    left = REQUEST_BYTES
    for start, stop in ranges:
        at = start
        while at < stop:
            end = min(stop, at + left)
            batch.append((at, end))
            left -= end - at
            at = end
            if not left:
                yield batch
                batch, left = [], REQUEST_BYTES
    if batch:
        yield batch
