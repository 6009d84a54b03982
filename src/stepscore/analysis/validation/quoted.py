"""The validation record of a run: given by file and kept in the run, or shipped; and the sentence it is quoted by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from stepscore._untrusted import shown
from stepscore.analysis.validation.record import Validation, read_validation
from stepscore.errors import OptionError
from stepscore.runs import Run

FILE = "validation.json"
SHIPPED = Path(__file__).parent / "shipped"
"""Records that come with the package, each named by its protocol hash."""

SHOWN = 3
"""Tasks that a sentence names."""


@dataclass(frozen=True)
class _Quoted:
    record: Validation
    claim: str  # the file that states it; empty for one that is shipped


def add_validation(runs: Sequence[Run], file: Path) -> None:
    """Copy a record into the runs of its protocol, where later commands find it.

    Raises:
        ManifestError: The file is not a validation record.
        OptionError: None of the runs has its protocol.
    """
    record = read_validation(file)
    same = [run for run in runs if run.protocol.hash == record.protocol_hash]
    if not same:
        have = ", ".join(dict.fromkeys(run.protocol.hash for run in runs))
        raise OptionError(
            f"{shown(file)} is of protocol {record.protocol_hash}, these runs are of {have}: it says nothing of "
            "their scores. Audit this judge with the same model and options: stepscore audit"
        )
    for run in same:
        try:
            record.write(run.path / FILE)
        except OSError as error:
            raise OptionError(f"Cannot keep {shown(file)} in {shown(run.path)}: {error.strerror}.") from error


def find_validation(run: Run) -> Validation | None:
    """Return the record kept in the run, else the one shipped for its protocol; ``None`` without either."""
    found = _find(run)
    return None if found is None else found.record


def validation_notes(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return a sentence for each protocol with a record: what was measured, and what of the runs is outside of it.

    A record that is not shipped is quoted as a claim of who measured it.
    """
    together: dict[str, list[Run]] = {}
    for run in runs:
        together.setdefault(run.protocol.hash, []).append(run)
    notes = []
    for same in together.values():
        found = next((one for run in same if (one := _find(run)) is not None), None)
        if found is not None:
            notes.append(_sentence(found, same))
    return tuple(notes)


def _find(run: Run) -> _Quoted | None:
    own = run.path / FILE
    if own.exists():
        record = read_validation(own)
        # A file from elsewhere may lie in the folder: it is quoted only for the protocol that it names.
        return _Quoted(record, str(own)) if record.protocol_hash == run.protocol.hash else None
    shipped = SHIPPED / f"{run.protocol.hash}.json"
    return _Quoted(read_validation(shipped), "") if shipped.exists() else None


def _sentence(found: _Quoted, runs: Sequence[Run]) -> str:
    record = found.record
    who = _plain(record.measured_by) or "an unnamed author"
    start = f"According to {shown(found.claim)} by {who}, " if found.claim else "As shipped with StepScore, "
    day = _plain(record.created)[:10]
    on = f"{record.episodes} episodes of {len(record.tasks)} tasks, cameras {_listed(record.cameras)}"
    outside = _outside(record, runs)
    return f"{start}{_plain(record.judge)} was audited on {on} ({day}): {record.findings}." + (
        f" Outside of it here: {outside}." if outside else " All tasks and cameras here are in it."
    )


def _outside(record: Validation, runs: Sequence[Run]) -> str:
    """Return which tasks and cameras of the runs the record says nothing of; empty where there are none."""
    rows = [
        row for run in runs for row in run.episodes().select(["task", "instruction", "views"]).to_pylist()
    ]
    tasks = {str(row["task"] or row["instruction"]) for row in rows}
    cameras = {view["name"] for row in rows for view in row["views"] or ()}
    other_tasks, other_cameras = sorted(tasks - set(record.tasks)), sorted(cameras - set(record.cameras))
    parts = [f"{len(other_tasks)} of {len(tasks)} tasks ({_listed(other_tasks)})"] if other_tasks else []
    parts += [f"cameras {_listed(other_cameras)}"] if other_cameras else []
    return "; ".join(parts)


def _listed(names: Sequence[str]) -> str:
    some = ", ".join(_plain(name) for name in names[:SHOWN])
    return f"{some}, ..." if len(names) > SHOWN else some or "none"


def _plain(text: str) -> str:
    """Return a text of someone else on one line, short and printable."""
    line = " ".join(re.sub(r"[^\S ]|\x00", " ", "".join(c if c.isprintable() else " " for c in text)).split())
    return line if len(line) <= 80 else f"{line[:77]}..."
