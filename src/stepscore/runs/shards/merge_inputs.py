"""The inputs of a merge: runs and shards in the given folders, and what they lack."""

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
from stepscore.runs.shards.manifest import Manifest, ShardContent, read_manifest, read_shard_content
from stepscore.runs.shards.shard import Shard

MAX_NAMED = 5
"""Most missing episodes that a message names."""


@dataclass(frozen=True)
class Part:
    """A run, or one shard of a run with its planned content; ``name`` is for messages."""

    folder: Path
    info: Mapping[str, Any]
    entries: Mapping[str, Entry]
    name: str
    content: ShardContent | None = None

    @property
    def journal(self) -> Path:
        """Its journal."""
        return self.folder / "journal.jsonl"


@dataclass(frozen=True)
class Parts:
    """All parts, the one that was written last at the end, and a sentence for each shard without a folder."""

    parts: Sequence[Part]
    absent: Sequence[str]

    def protocol(self) -> Protocol:
        """Return the protocol of all parts; raise ProtocolMismatchError if they have more than one."""
        first = Protocol(self.parts[0].info["protocol"])
        for part in self.parts[1:]:
            if differences := Protocol(part.info["protocol"]).differences(first):
                raise ProtocolMismatchError(
                    f"{part.name} has another protocol than {self.parts[0].name} ({'; '.join(differences)}). "
                    "Results are never mixed: merge runs of one protocol."
                )
        return first

    def gaps(self, merged: Mapping[str, object]) -> list[str]:
        """Return a sentence for everything that is missing from all parts together."""
        found = [*self.absent]
        for part in self.parts:
            finished = part.info["status"] == "finished"
            status = "" if finished else f" ({shown(str(part.info['status']))})"
            if part.content is None and not finished:
                judged = f"{len(part.entries)} of {part.info['selected']} episodes are judged"
                found.append(f"{part.name} is unfinished{status}: {judged}")
            elif part.content is not None:
                ids = part.content.episodes
                if missing := [name for name in ids if name not in merged]:
                    named = ", ".join(map(shown, missing[:MAX_NAMED]))
                    more = f" and {len(missing) - MAX_NAMED} more" if len(missing) > MAX_NAMED else ""
                    found.append(
                        f"{part.name} lacks {len(missing)} of {len(ids)} episodes{status}: {named}{more}"
                    )
        return found


def find_parts(folders: Iterable[Path]) -> Parts:
    """Return the runs and shards in folders; raise RunError if one holds neither, or nothing was judged."""
    parts: list[Part] = []
    manifests: dict[tuple[object, ...], tuple[Manifest, Path, set[int]]] = {}
    for folder in folders:
        manifest = read_manifest(folder)
        if manifest is None:
            if (found := _part(folder, shown(folder))) is None:
                raise RunError(
                    f"{shown(folder)} is not a run folder (it has no run.json and no shards.json). "
                    "Make one: stepscore judge SOURCE --judge J -o RUN"
                )
            parts.append(found)
            continue
        _, _, present = manifests.setdefault(manifest.cut, (manifest, folder, set()))
        for number in range(1, manifest.shards + 1):
            shard = Shard(number, manifest.shards)
            if (found := _part(shard.folder(folder), f"shard {shard} of {shown(folder)}")) is not None:
                present.add(number)
                parts.append(found)
    for part in parts:  # a shard's folder can also be given directly
        if part.content is not None and (known := manifests.get(part.content.cut)) is not None:
            known[2].add(part.content.index)
    absent = [
        f"shard {shard} of {shown(folder)} was never started ({span.length} episodes)"
        for manifest, folder, present in manifests.values()
        for shard in (Shard(number, manifest.shards) for number in range(1, manifest.shards + 1))
        if shard.index not in present and (span := shard.span(manifest.episodes, manifest.batch)).length
    ]
    if not parts:
        raise RunError(f"Nothing has been judged yet: {' '.join(absent[:MAX_NAMED])}")
    return Parts(sorted(parts, key=lambda part: str(part.info["updated"])), absent)


def _part(folder: Path, name: str) -> Part | None:
    info = read_info(folder) if folder.is_dir() else None
    if info is None:
        return None
    journal = folder / "journal.jsonl"
    entries = index(journal, journal_state(journal).size) if journal.is_file() else {}
    return Part(folder, info, entries, name, read_shard_content(folder))
