"""Validation records: the few numbers of an audit that are quoted with every score of the same protocol.

A run's record is a file kept in the run, or one shipped with the package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._files import write_json
from stepscore._untrusted import read_json, shown
from stepscore.errors import ManifestError, OptionError, first_field_error
from stepscore.runs import Run, finite_or_none
from stepscore.types import Estimate

FORMAT = 1
MAX_BYTES = 1 << 20
NAMES = {
    "success": "balanced accuracy of success",
    "grounding": "grounding",
    "round_trip": "return",
}
"""What is measured, by its name in sentences."""


@dataclass(frozen=True)
class Measured:
    """A number of a record, 0..1 or a correlation, with its 95 % interval; ``None`` if unknown."""

    value: float | None
    lo: float | None
    hi: float | None
    n: int

    @classmethod
    def of(cls, estimate: Estimate) -> Measured:
        """Return an estimate's numbers."""
        value, lo, hi = (finite_or_none(one) for one in (estimate.value, estimate.lo, estimate.hi))
        return cls(value, lo, hi, estimate.n)

    @property
    def text(self) -> str:
        """Return it for a sentence."""
        if self.value is None:
            return "unknown"
        ends = "" if self.lo is None or self.hi is None else f" [{self.lo:.2f}, {self.hi:.2f}]"
        return f"{self.value:.2f}{ends}"


@dataclass(frozen=True)
class Validation:
    """The result of an audit of one protocol.

    Attributes:
        protocol_hash: Of the judge with its model and options.
        model: ``None`` for a judge without one.
        measured_by: Empty if not stated.
        created: ISO 8601.
        source: What was judged.
        success: Balanced accuracy of its success verdicts; ``None`` without labels.
        grounding: Share of successes that end higher under their own instruction than under another task's.
        round_trip: Rank correlation with the way there and back, for a video played forwards, then backwards.
    """

    protocol_hash: str
    judge: str
    model: str | None
    measured_by: str
    created: str
    source: str
    episodes: int
    tasks: tuple[str, ...]
    cameras: tuple[str, ...]
    success: Measured | None = None
    grounding: Measured | None = None
    round_trip: Measured | None = None

    @property
    def findings(self) -> str:
        """Return its numbers for a sentence: ``balanced accuracy of success 0.93 [0.88, 0.96], ...``."""
        found = [(name, getattr(self, field)) for field, name in NAMES.items()]
        return ", ".join(f"{name} {'unknown' if one is None else one.text}" for name, one in found)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as JSON values."""
        return {"format": FORMAT, **asdict(self)}

    def write(self, path: Path) -> Path:
        """Write the record to a file; return its path."""
        write_json(path, self.to_dict())
        return path


Text = Annotated[str, Field(max_length=1000)]


class _Measured(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    value: Annotated[float, Field(ge=-1, le=1)] | None
    lo: Annotated[float, Field(ge=-1, le=1)] | None = None
    hi: Annotated[float, Field(ge=-1, le=1)] | None = None
    n: Annotated[int, Field(ge=0)]


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    protocol_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{8,64}$")]
    judge: Text
    model: Text | None = None
    measured_by: Text = ""
    created: Text
    source: Text = ""
    episodes: Annotated[int, Field(ge=0)]
    tasks: Annotated[tuple[Text, ...], Field(max_length=10_000)]
    cameras: Annotated[tuple[Text, ...], Field(max_length=1000)]
    success: _Measured | None = None
    grounding: _Measured | None = None
    round_trip: _Measured | None = None


def read_validation(path: Path) -> Validation:
    """Read a record.

    Raises:
        ManifestError: The file cannot be read or is invalid; the message names the field.
    """
    try:
        read = _Record.model_validate(read_json(path, ManifestError, max_bytes=MAX_BYTES))
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise ManifestError(
            f"{shown(path)} is not a validation record ({shown(field)}: {shown(why)}). "
            "`stepscore audit` writes one as validation.json."
        ) from error
    values = read.model_dump(exclude={"format"})
    for name in NAMES:
        values[name] = None if values[name] is None else Measured(**values[name])
    return Validation(**values)


FILE = "validation.json"
SHIPPED = Path(__file__).parent / "validation_records"
"""Records shipped with the package, named by their protocol hash."""

SHOWN = 3
"""Most tasks in a sentence."""


@dataclass(frozen=True)
class _Quoted:
    record: Validation
    claim: str  # the file that states it; empty for one that is shipped


def add_validation(runs: Sequence[Run], file: Path) -> None:
    """Copy a record into the runs of its protocol, where later commands find it.

    Raises:
        ManifestError: The file is not a validation record.
        OptionError: No run has its protocol.
    """
    record = read_validation(file)
    same = [run for run in runs if run.protocol.hash == record.protocol_hash]
    if not same:
        have = ", ".join(dict.fromkeys(run.protocol.hash for run in runs))
        raise OptionError(
            f"{shown(file)} is for protocol {record.protocol_hash}, but these runs have {have}, so it does "
            "not apply to their scores. Audit this judge with the same model and options: stepscore audit"
        )
    for run in same:
        try:
            record.write(run.path / FILE)
        except OSError as error:
            raise OptionError(f"Cannot copy {shown(file)} to {shown(run.path)}: {error.strerror}.") from error


def find_validation(run: Run) -> Validation | None:
    """Return the record kept in the run, else the one shipped for its protocol, if any."""
    found = _find(run)
    return None if found is None else found.record


def validation_notes(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return a sentence per protocol with a record: its numbers, and the tasks and cameras it does not cover.

    Records that are not shipped are quoted as a claim of their author.
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
    """Return which tasks and cameras of the runs the record does not cover."""
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
    """Return an untrusted text on one line, short and printable."""
    line = " ".join(re.sub(r"[^\S ]|\x00", " ", "".join(c if c.isprintable() else " " for c in text)).split())
    return line if len(line) <= 80 else f"{line[:77]}..."
