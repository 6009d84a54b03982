"""The journal: one flushed line per finished episode, from which all tables of a run are made.

Killing the process at any time loses at most the episodes in flight: a torn last line is dropped when the journal is
opened again. A lock, which the system releases when the process dies, keeps out a second writer; on file systems
without locks, or shared by machines, a lease does (``_journals``).
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, NoReturn

from stepscore._journals import (
    LEASE_S,
    MAX_LINE_BYTES,
    Lease,
    LeaseObserver,
    LineFile,
    find_lease,
    is_leased,
    new_file,
    take_lease,
    whole_lines,
)
from stepscore._locks import NO_LOCKS, RETRY_S, keeps_locks_local, try_lock
from stepscore._progress import track
from stepscore._untrusted import check_regular, shown
from stepscore.errors import EpisodeError, RunError
from stepscore.runs.protocol import canonical_json
from stepscore.runs.record_schema import checked_record

_TAIL_BYTES = 1 << 16
_LOCK_TRIES = 5

JUDGE_AGAIN = "Run the same judge command again to judge the missing episodes."

LEASED_FILES = ("attempts.jsonl", "answers.jsonl")
"""Other growing files of a leased folder; like the journal, they are copied when the folder is taken over."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An episode's latest judgement and description in the journal, by byte offset.

    ``key`` is the hash of the judge's input (:func:`input_key`), ``description`` that of the description, which shows
    changed labels, and ``channels`` are those of the curve.
    """

    judged_at: int
    described_at: int
    key: str
    description: str
    failed: bool
    channels: tuple[str, ...]


class JournalState(NamedTuple):
    """The bytes of a journal's whole lines at some time, and a hash of the last ones to tell journals apart."""

    size: int
    end: str


class Journal:
    """A run's journal, open for appending within a ``with`` block, which holds its lock or lease.

    Args:
        path: The file.
        lease_s: Take a lease of this many seconds; ``None`` for a lock, unless the file system has no locks that
            other machines see, or another process has left a lease.
        on_wait: Called with a message before a wait for a lease.
    """

    def __init__(
        self,
        path: Path,
        lease_s: float | None = None,
        on_wait: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.path = path
        self.lease: Lease | None = None
        self._lease_s, self._on_wait = lease_s, on_wait
        self._file: LineFile | None = None

    def __enter__(self) -> Journal:
        try:
            folder = self.path.parent
            # A lease that was not given back: its holder may be active on another machine.
            leased = (held := find_lease(folder)) is not None and not held.released
            if leased or self._lease_s is not None or keeps_locks_local(folder):
                self._take_lease()
            self._file = self._open()
            if not self._locked():
                raise RunError(
                    f"Another process is writing to {shown(self.path.parent)}. "
                    "Wait for it, or choose another folder: -o RUN"
                )
            self._file.drop_torn_line()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def check(self) -> None:
        """Raise LeaseLostError if another process has taken over the folder; warn if one has cut the journal."""
        if self.lease is not None:
            self.lease.check()
        if self._file is not None:
            self._warn_if_cut(self._file)

    def _open(self) -> LineFile:
        # Not ``self.check``: the cycle would keep the file of an interrupted journal open.
        check = (lambda: None) if self.lease is None else self.lease.check
        return LineFile(self.path, check=check, sync=self.lease is not None)

    def _take_lease(self) -> None:
        lease_s = LEASE_S if self._lease_s is None else self._lease_s
        self.lease = take_lease(self.path.parent, lease_s, on_wait=self._on_wait)
        if self.lease.taken_over:
            for name in (self.path.name, *LEASED_FILES):
                new_file(self.path.with_name(name))

    def _locked(self) -> bool:
        """Lock the file, also under a lease, against processes without one; without locks, take a lease."""
        assert self._file is not None
        try:
            for _ in range(_LOCK_TRIES):  # a process that tests the lock holds it briefly
                if try_lock(self._file.file):
                    return True
                time.sleep(RETRY_S)
            return False
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise RunError(f"Cannot write {shown(self.path)}: {error.strerror or error}.") from error
        if self.lease is None:
            self._file.close()
            self._take_lease()
            self._file = self._open()
        return True

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if self.lease is not None:
            self.lease.release()
            self.lease = None

    def clear(self) -> None:
        """Drop every line."""
        assert self._file is not None, "the journal is not open"
        self.check()
        self._file.clear()

    def append(self, record: dict[str, Any]) -> None:
        """Write one line; raise EpisodeError if it is too long, RunError if the disk is full or failed."""
        assert self._file is not None, "the journal is not open"
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # A server can send half of a surrogate pair, which UTF-8 cannot encode.
        line = text.encode("utf-8", "replace") + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise EpisodeError(
                f"The record of episode {str(record.get('id'))[:200]} has {len(line)} bytes, more than the "
                f"{MAX_LINE_BYTES} allowed for a line of {shown(self.path)}."
            )
        self._warn_if_cut(self._file)
        self._file.append(line)

    def _warn_if_cut(self, file: LineFile) -> None:
        lost = file.drop_cut_line()
        if lost:
            warnings.warn(
                f"{shown(self.path)} lost its last {lost} bytes while this process was writing to it: "
                f"something else cut it. {JUDGE_AGAIN}",
                stacklevel=3,
            )


def is_being_written(path: Path, observer: LeaseObserver | None = None) -> bool:
    """Return whether a living process is writing to a journal; for ``observer`` see :func:`is_leased`."""
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return not try_lock(file) or is_leased(path.parent, observer)
    except OSError:
        return is_leased(path.parent, observer)


def read_record(file: IO[bytes], entry: Entry) -> dict[str, Any]:
    """Return the checked record of an entry from :func:`index`, with the latest description."""

    def read(offset: int) -> dict[str, Any]:
        file.seek(offset)
        try:
            return checked_record(_decoded(file.readline(MAX_LINE_BYTES + 1)))
        except ValueError as error:
            raise RunError(f"{shown(file.name)} changed while it was read: {error}.") from error

    record = read(entry.judged_at)
    if entry.described_at != entry.judged_at:
        record["episode"] = read(entry.described_at)["episode"]
    return record


def read_lines(path: Path, size: int | None = None) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yield number, byte offset and record of every whole line in the first ``size`` bytes, or all."""
    offset, number = 0, 0
    with open_journal(path) as file:
        while size is None or offset < size:
            number += 1
            line = file.readline(MAX_LINE_BYTES + 1)
            if len(line) > MAX_LINE_BYTES:
                _damaged(path, number, f"it has more than {MAX_LINE_BYTES} bytes")
            if not line.endswith(b"\n"):
                return
            try:
                record = _decoded(line)
                checked_record(record)
            except ValueError as error:
                _damaged(path, number, error)
            yield number, offset, record
            offset += len(line)


def index(path: Path, size: int | None = None) -> dict[str, Entry]:
    """Return the entry of every episode in the first ``size`` bytes of a journal; empty without a journal."""
    entries: dict[str, Entry] = {}
    channel_sets: dict[tuple[str, ...], tuple[str, ...]] = {}
    if not os.path.exists(path):
        return entries
    for number, offset, record in track(read_lines(path, size), "Reading the journal", None):
        name = record["id"]
        try:
            description = description_hash(record["episode"])
        except (RecursionError, ValueError) as error:  # ValueError: half of a surrogate pair
            _damaged(path, number, error)
        if "judgement" in record:
            failed = record["judgement"]["error"] is not None
            names = tuple(record["judgement"].get("curve", {}).get("channels", ()))
            # One tuple for all episodes with the same channels saves memory.
            channels = channel_sets.setdefault(names, names)
            entries[name] = Entry(offset, offset, record["key"], description, failed, channels)
        elif name in entries:
            entries[name] = replace(entries[name], described_at=offset, description=description)
        else:
            _damaged(path, number, f"it describes episode {name[:200]!r}, which was not judged before")
    return entries


def open_journal(path: Path) -> IO[bytes]:
    """Open a journal for reading; raise RunError if it is not a readable regular file."""
    check_regular(path, RunError)
    try:
        return path.open("rb")
    except OSError as error:
        raise RunError(f"Cannot read {shown(path)}: {error.strerror or error}.") from error


def journal_state(path: Path) -> JournalState:
    """Return the state of a journal now."""
    with open_journal(path) as file:
        size = whole_lines(file)
        return JournalState(size, _end(file, size))


def state_at(path: Path, size: int) -> JournalState:
    """Return the state of a journal when it had this size; an impossible one if it is shorter."""
    with open_journal(path) as file:
        return JournalState(size, _end(file, size) if file.seek(0, os.SEEK_END) >= size >= 0 else "")


def description_hash(row: Mapping[str, Any]) -> str:
    """Return a short hash of an episode's row."""
    return hashlib.sha256(canonical_json(row).encode()).hexdigest()[:16]


def _decoded(line: bytes) -> Any:
    try:
        return _DECODER.decode(line.decode("utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _damaged(path: Path, number: int, why: object) -> NoReturn:
    raise RunError(
        f"{shown(path)}, line {number} is damaged ({shown(str(why))}). "
        "Delete that line to judge its episode again."
    )


def _end(file: IO[bytes], size: int) -> str:
    """Return a hash of the last bytes before ``size``."""
    start = max(0, size - _TAIL_BYTES)
    file.seek(start)
    return hashlib.sha256(file.read(size - start)).hexdigest()[:16]
