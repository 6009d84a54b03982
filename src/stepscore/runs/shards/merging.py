"""Merge shards, or several runs of one protocol, into one run.

The merged journal holds the latest successful judgement of every episode, sorted by id. Tables are made from it as
from any journal, so they are byte for byte those of an undivided run. Records are copied one by one; only an entry
for each episode is in memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from stepscore._files import atomic_path
from stepscore._journals import MAX_LINE_BYTES
from stepscore._progress import doing, track
from stepscore._untrusted import shown
from stepscore.errors import OptionError, RunError
from stepscore.models.calls import log_wait
from stepscore.runs.journal import Entry, Journal, open_journal, read_record
from stepscore.runs.protocol import Protocol
from stepscore.runs.record_schema import amount_or_none, count_or_none
from stepscore.runs.run import Run, open_run
from stepscore.runs.run_info import FORMAT, write_info
from stepscore.runs.shards.merge_inputs import Part, Parts, find_parts
from stepscore.runs.stored_tables import write_tables

_COUNTS = ("attempts", "answered", "refused", "lost")


class Chosen(NamedTuple):
    """The source of an episode's judgement."""

    part: Part
    entry: Entry


@dataclass(frozen=True)
class Merged:
    """The result of a merge: numbers of parts and of their episodes (failed, in several parts), and the run.

    There is no run if something is missing and ``partial`` was not set. ``gaps`` has a sentence for everything that
    is missing, and ``conflicts`` one for each id with different recordings, instructions or subgoals.
    """

    run: Run | None
    parts: int
    episodes: int
    failed: int
    duplicates: int
    conflicts: Sequence[str]
    gaps: Sequence[str]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing or contradictory."""
        return not self.gaps and not self.conflicts


def merge(folders: Sequence[str | Path], out: str | Path | None = None, *, partial: bool = False) -> Merged:
    """Merge the shards of a folder, or several folders with shards or runs, into one run.

    If several have the same episode, the latest successful judgement is taken.

    Args:
        folders: Run folders, divided or not, all of one protocol.
        out: The merged run's folder: new, or one of ``folders``; by default the only one of them.
        partial: Merge even if shards or episodes are missing, or recordings contradict each other.

    Raises:
        RunError: A folder is not a run, is damaged, or ``out`` holds something else.
        ProtocolMismatchError: The runs have different protocols.
    """
    sources = list(dict.fromkeys(Path(folder) for folder in folders))
    target = _target(sources, out)
    parts = find_parts(sources)
    protocol = parts.protocol()
    with doing("Choosing judgements"):
        chosen, duplicates, conflicts = _choose(parts.parts)
        gaps = parts.gaps(chosen)
    failed = sum(each.entry.failed for each in chosen.values())
    run = None
    if partial or not (gaps or conflicts):
        _write_journal(target / "journal.jsonl", chosen)
        info = _info(parts, protocol, chosen, gaps)
        write_info(target, info)
        write_tables(target, str(info["protocol"]["judge"]["name"]), protocol.hash)
        run = open_run(target)
    return Merged(run, len(parts.parts), len(chosen), failed, duplicates, conflicts, gaps)


def _target(sources: Sequence[Path], out: str | Path | None) -> Path:
    """Return the folder to write; refuse one with other content."""
    if out is None:
        if len(sources) != 1:
            raise OptionError("Several runs need a folder to merge into. Set -o RUN.")
        out = sources[0]
    target = Path(out)
    inside = any(_same(target, source) for source in sources)
    if not inside and target.exists() and not (target.is_dir() and next(target.iterdir(), None) is None):
        raise RunError(
            f"{shown(target)} exists and is not one of the runs to merge. Choose a new folder: -o RUN"
        )
    if (target / "journal.jsonl").is_file():
        with Journal(target / "journal.jsonl", on_wait=log_wait):
            pass  # refused if another process is writing to it
    return target


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and os.path.samefile(one, other)


def _choose(parts: Sequence[Part]) -> tuple[dict[str, Chosen], int, list[str]]:
    """Return the source of every judgement, the number of duplicate episodes, and the contradictions."""
    chosen: dict[str, Chosen] = {}
    duplicates: set[str] = set()
    conflicts: list[str] = []
    for part in parts:
        for name, entry in part.entries.items():
            before = chosen.get(name)
            if before is not None:
                duplicates.add(name)
                if entry.failed and not before.entry.failed:
                    continue
                if entry.key != before.entry.key and entry.failed == before.entry.failed:
                    conflicts.append(
                        f"episode {shown(name)} of {part.name} is not the one of {before.part.name}: its recording, "
                        "instruction or subgoals differ"
                    )
            chosen[name] = Chosen(part, entry)
    return chosen, len(duplicates), conflicts


def _write_journal(path: Path, chosen: Mapping[str, Chosen]) -> None:
    """Write the chosen records by episode id; the journal gets its name when it is complete."""
    with (
        atomic_path(path, make_folder=True) as temporary,
        temporary.open("xb") as file,
        ExitStack() as opened,
    ):
        # One journal is open at a time: shards have consecutive ids, and there may be more than a process may open.
        part: Part | None = None
        for name in track(sorted(chosen), "Writing the journal", len(chosen)):
            if chosen[name].part is not part:
                opened.close()
                part = chosen[name].part
                lines = opened.enter_context(open_journal(part.journal))
            file.write(_line(lines, chosen[name].entry))
        file.flush()
        os.fsync(file.fileno())


def _line(lines: IO[bytes], entry: Entry) -> bytes:
    """Return the line of a judgement, with the episode's latest description."""
    if entry.described_at == entry.judged_at:
        lines.seek(entry.judged_at)
        return lines.readline(MAX_LINE_BYTES)
    record = read_record(lines, entry)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _info(
    parts: Parts, protocol: Protocol, chosen: Mapping[str, Chosen], gaps: Sequence[str]
) -> dict[str, Any]:
    """Return the ``run.json`` of the merged run, with the first start's date and the sums of all parts."""
    infos = [part.info for part in parts.parts]
    failed = sum(each.entry.failed for each in chosen.values())
    seconds = sum(float(info["last"].get("seconds", 0.0)) for info in infos)
    spent = _sum_spent([_mapping(_mapping(info.get("spent")).get("total")) for info in infos])
    sources = list(dict.fromkeys(str(info["source"]) for info in infos))
    return {
        "format": FORMAT,
        "protocol": dict(protocol.content),
        "protocol_hash": protocol.hash,
        "source": sources[0],
        "reader": infos[0]["reader"],
        "status": "merged in part" if gaps else "finished",
        "created": min(str(info["created"]) for info in infos),
        "updated": datetime.now(UTC).isoformat(timespec="seconds"),
        "selected": len(chosen),
        "workers": max(count_or_none(info.get("workers")) or 1 for info in infos),
        "versions": dict(infos[-1]["versions"]),
        "licences": {name: licence for info in infos for name, licence in info.get("licences", {}).items()},
        "spent": {"this_start": spent, "total": spent},
        "last": {"judged": len(chosen) - failed, "reused": 0, "failed": failed, "seconds": round(seconds, 3)},
        "merged": {"parts": len(infos), "sources": sources, "missing": list(gaps)},
    }


def _sum_spent(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all parts spent; one unknown cost makes the sum unknown."""
    costs = [amount_or_none(part.get("cost", 0.0)) for part in parts]
    known = [cost for cost in costs if cost is not None]
    return {
        **{name: sum(count_or_none(part.get(name)) or 0 for part in parts) for name in _COUNTS},
        "cost": float(sum(known)) if len(known) == len(costs) else None,
        "exact": all(part.get("exact", True) is True for part in parts),
    }


def _mapping(value: object) -> Mapping[str, Any]:
    """Return a value of the untrusted ``run.json`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}
