"""The parts of a merge: runs and shards as they lie in the folders that were given, and what they lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stepscore._untrusted import shown
from stepscore.errors import ProtocolMismatchError, RunError
from stepscore.runs.journal import Entry, index, journal_state
from stepscore.runs.protocol import Protocol
from stepscore.runs.run_info import read_info
from stepscore.runs.shards.division import Division, ShardContent, read_division, read_shard_content
from stepscore.runs.shards.shard import Shard

MAX_NAMED = 5
"""Missing episodes of a part that a message names."""


@dataclass(frozen=True)
class Part:
    """A run, or one shard of a run, that is merged with others.

    Attributes:
        folder: Its folder.
        info: Its ``run.json``.
        entries: The latest state of every episode in its journal.
        name: Its folder, or folder and shard, as a message names it.
        content: What a shard is to hold; ``None`` where it does not say, and for a run.
    """

    folder: Path
    info: Mapping[str, Any]
    entries: Mapping[str, Entry]
    name: str
    content: ShardContent | None = None

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.folder / "journal.jsonl"

    @property
    def ids(self) -> Sequence[str] | None:
        """The ids it is to have; ``None`` where it does not say."""
        return None if self.content is None else self.content.episodes

    @property
    def finished(self) -> bool:
        """Whether its last start ended well."""
        return bool(self.info["status"] == "finished")


@dataclass(frozen=True)
class Parts:
    """All parts that a merge found.

    Attributes:
        parts: Those with a journal, the one that was written last at the end.
        absent: Shards that no folder has, each as a sentence.
    """

    parts: Sequence[Part]
    absent: Sequence[str]

    def protocol(self) -> Protocol:
        """Return the protocol of all parts.

        Raises:
            ProtocolMismatchError: They have more than one.
        """
        first = Protocol(self.parts[0].info["protocol"])
        for part in self.parts[1:]:
            if differences := Protocol(part.info["protocol"]).differences(first):
                raise ProtocolMismatchError(
                    f"{part.name} has another protocol than {self.parts[0].name} ({'; '.join(differences)}). "
                    "Results are never mixed: merge runs of one protocol."
                )
        return first

    def gaps(self, merged: Mapping[str, object]) -> list[str]:
        """Return what is missing, a sentence each, given what all parts have together."""
        found = [*self.absent]
        for part in self.parts:
            missing = [name for name in part.ids or () if name not in merged]
            if missing or (part.ids is None and not part.finished):
                found.append(_unfinished(part, missing))
        return found


def find_parts(folders: Iterable[Path]) -> Parts:
    """Return the runs and shards in folders.

    Args:
        folders: The folders.

    Raises:
        RunError: A folder holds neither, or nothing was judged in any.
    """
    parts: list[Part] = []
    divisions: dict[tuple[object, ...], tuple[Division, Path, set[int]]] = {}
    for folder in folders:
        division = read_division(folder)
        if division is None:
            parts.append(_plain(folder))
            continue
        _, _, present = divisions.setdefault(division.cut, (division, folder, set()))
        for index_ in range(1, division.shards + 1):
            shard = Shard(index_, division.shards)
            found = _part(shard.folder(folder), f"shard {shard} of {shown(folder)}")
            if found is not None:
                present.add(index_)
                parts.append(found)
    for part in parts:  # the folder of a shard may also be given by itself
        if part.content is not None and (known := divisions.get(part.content.cut)) is not None:
            known[2].add(part.content.index)
    absent = [
        _never_started(division, folder, number)
        for division, folder, present in divisions.values()
        for number in range(1, division.shards + 1)
        if number not in present and _length(division, number)
    ]
    if not parts:
        raise RunError(f"Nothing has been judged yet: {' '.join(absent[:MAX_NAMED])}")
    return Parts(sorted(parts, key=lambda part: str(part.info["updated"])), absent)


def _plain(folder: Path) -> Part:
    found = _part(folder, shown(folder))
    if found is None:
        raise RunError(
            f"{shown(folder)} is not a run folder (it has no run.json and no shards.json). "
            "Make one: stepscore judge SOURCE --judge J -o RUN"
        )
    return found


def _part(folder: Path, name: str) -> Part | None:
    info = read_info(folder) if folder.is_dir() else None
    journal = folder / "journal.jsonl"
    if info is None:
        return None
    entries = index(journal, journal_state(journal).size) if journal.is_file() else {}
    return Part(folder, info, entries, name, read_shard_content(folder))


def _length(division: Division, number: int) -> int:
    span = Shard(number, division.shards).span(division.episodes, division.batch)
    return span.stop - span.start


def _never_started(division: Division, folder: Path, number: int) -> str:
    return (
        f"shard {number}/{division.shards} of {shown(folder)} was never started "
        f"({_length(division, number)} episodes)"
    )


def _unfinished(part: Part, missing: Sequence[str]) -> str:
    status = "" if part.finished else f" ({shown(str(part.info['status']))})"
    if part.ids is None:
        judged = f"{len(part.entries)} of {part.info['selected']} episodes are judged"
        return f"{part.name} is unfinished{status}: {judged}"
    named = ", ".join(shown(name) for name in missing[:MAX_NAMED])
    more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
    return f"{part.name} lacks {len(missing)} of {len(part.ids)} episodes{status}: {named}{more}"
