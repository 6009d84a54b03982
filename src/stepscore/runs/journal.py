"""The journal: one flushed line per finished episode, from which all tables of a run are made.

Killing the process at any time loses at most the episodes in flight: a torn last line is dropped when the
journal is opened again. One process writes at a time; a lock, released by the system when the process dies,
keeps a second one out. Where the file system has no locks, or machines share it, a lease does (``_appending``).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, NoReturn

from stepscore._appending import (
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
"""Further files that grow in a leased folder; whoever takes it over gets new ones, as of the journal."""


@dataclass(frozen=True, slots=True)
class Entry:
    """An episode's latest lines in the journal, and what decides whether it is judged again.

    Attributes:
        judged_at: Byte offset of its latest judgement.
        described_at: Byte offset of its latest description.
        key: Hash of the judge's input, from :func:`input_key`.
        description: Hash of the description, so that changed labels are noticed.
        failed: Whether the judgement is an error.
        channels: Names of its curve's channels.
    """

    judged_at: int
    described_at: int
    key: str
    description: str
    failed: bool
    channels: tuple[str, ...]


class JournalState(NamedTuple):
    """How far a journal had grown at some time.

    Attributes:
        size: Its whole lines, in bytes; a torn last line is not counted.
        end: Hash of the last of them, which another journal of the same size does not have.
    """

    size: int
    end: str


class Journal:
    """A run's journal, open for appending.

    Use as a context manager; entering takes the lock or the lease and drops a torn last line.

    Args:
        path: The file.
        lease_s: Hold the folder by a lease of this many seconds; ``None`` for a lock, and for a lease where the file
            system has no locks, or none that other machines see, or another process has left a lease.
        on_wait: Called with a line before a wait for a lease.

    Attributes:
        lease: The lease; ``None`` where the journal is locked.
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
            if self._lease_s is not None or _was_leased(folder) or keeps_locks_local(folder):
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
        """Raise LeaseLostError where another process has taken over the folder; warn if one has cut the journal."""
        if self.lease is not None:
            self.lease.check()
        if self._file is not None:
            self._warn_if_cut(self._file)

    def _open(self) -> LineFile:
        # Not ``self.check``: a journal that is dropped without its end, by an interrupt, closes its file at once.
        check = (lambda: None) if self.lease is None else self.lease.check
        return LineFile(self.path, check=check, sync=self.lease is not None)

    def _take_lease(self) -> None:
        lease_s = LEASE_S if self._lease_s is None else self._lease_s
        self.lease = take_lease(self.path.parent, lease_s, on_wait=self._on_wait)
        if self.lease.taken_over:
            for name in (self.path.name, *LEASED_FILES):
                new_file(self.path.with_name(name))

    def _locked(self) -> bool:
        """Lock the file as well, which keeps out those who know no lease; where there are no locks, take a lease."""
        assert self._file is not None
        try:
            return _try_lock_again(self._file.file)
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
        """Write one line.

        Raises:
            EpisodeError: The line is too long.
            RunError: The disk is full, or failed; nothing before the line is lost.
        """
        assert self._file is not None, "the journal is not open"
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        # A server can send half of a surrogate pair, which no UTF-8 file can hold.
        line = text.encode("utf-8", "replace") + b"\n"
        if len(line) > MAX_LINE_BYTES:
            raise EpisodeError(
                f"The record of episode {str(record.get('id'))[:200]} has {len(line)} bytes; "
                f"a line of {shown(self.path)} has at most {MAX_LINE_BYTES}."
            )
        self._warn_if_cut(self._file)
        self._file.append(line)

    def _warn_if_cut(self, file: LineFile) -> None:
        lost = file.drop_cut_line()
        if lost:
            warnings.warn(
                f"{shown(self.path)} has lost its last {lost} bytes while this process was writing to it. "
                f"Something else cut it. {JUDGE_AGAIN}",
                stacklevel=3,
            )


def is_being_written(path: Path, observer: LeaseObserver | None = None) -> bool:
    """Return whether some process is writing to a journal now; one that was killed is not.

    Args:
        path: The journal.
        observer: See :func:`stepscore._appending.is_leased`.
    """
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return not try_lock(file) or is_leased(path.parent, observer)
    except OSError:
        return is_leased(path.parent, observer)


def _was_leased(folder: Path) -> bool:
    """Return whether a lease of the folder was not given back; its holder may be at work on another machine."""
    held = find_lease(folder)
    return held is not None and not held.released


def _try_lock_again(file: io.FileIO) -> bool:
    """Lock the journal; whoever only asks whether it is locked holds the lock for less than these tries take."""
    for _ in range(_LOCK_TRIES):
        if try_lock(file):
            return True
        time.sleep(RETRY_S)
    return False


def read_line(file: IO[bytes], offset: int) -> dict[str, Any]:
    """Return the checked record at a byte offset that :func:`index` found."""
    file.seek(offset)
    try:
        return checked_record(_decoded(file.readline(MAX_LINE_BYTES + 1)))
    except ValueError as error:
        raise RunError(f"{shown(file.name)} has changed while it was read: {error}.") from error


def read_lines(path: Path, size: int | None = None) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Iterate over number, byte offset and record of every whole line; a torn last line is left out.

    Args:
        path: The journal.
        size: Read only this many bytes, for a journal that grows meanwhile.
    """
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
    """Return the latest state of every episode in a journal, by episode id; empty where there is no journal.

    Args:
        path: The journal.
        size: See :func:`read_lines`.
    """
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
            # Most episodes have the same channels; they share the names.
            channels = channel_sets.setdefault(names, names)
            entries[name] = Entry(offset, offset, record["key"], description, failed, channels)
        elif name in entries:
            entries[name] = replace(entries[name], described_at=offset, description=description)
        else:
            _damaged(path, number, f"episode {name[:200]!r} is described before it was judged")
    return entries


def open_journal(path: Path) -> IO[bytes]:
    """Open a journal for reading; a RunError where it cannot be read or is no regular file."""
    check_regular(path, RunError)
    try:
        return path.open("rb")
    except OSError as error:
        raise RunError(f"Cannot read {shown(path)}: {error.strerror or error}.") from error


def journal_state(path: Path) -> JournalState:
    """Return how far a journal has grown by now."""
    with open_journal(path) as file:
        size = whole_lines(file)
        return JournalState(size, _end(file, size))


def state_at(path: Path, size: int) -> JournalState:
    """Return the state in which a journal had this size; where it is shorter, one that no journal has."""
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
    # Of text that is not ours only what a terminal can show, on one line.
    raise RunError(
        f"{shown(path)}, line {number} is damaged ({shown(str(why))}). "
        "Delete that line to judge its episode again."
    )


def _end(file: IO[bytes], size: int) -> str:
    """Return a hash of the last bytes before ``size``."""
    return hashlib.sha256(_read_at(file, max(0, size - _TAIL_BYTES), size)).hexdigest()[:16]


def _read_at(file: IO[bytes] | io.FileIO, start: int, end: int) -> bytes:
    file.seek(start)
    return file.read(end - start) or b""
