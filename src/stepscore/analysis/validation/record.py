"""A validation record: the few numbers of an audit that belong beside every score of the same protocol."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._files import write_json
from stepscore._untrusted import read_json, shown
from stepscore.errors import ManifestError, first_field_error
from stepscore.runs import finite_or_none
from stepscore.types import Estimate

FORMAT = 1
MAX_BYTES = 1 << 20
NAMES = {
    "success": "balanced accuracy of success",
    "grounding": "grounding",
    "round_trip": "return",
}
"""What is measured, and how a sentence calls it."""


@dataclass(frozen=True)
class Measured:
    """One number of a record, 0..1 or a correlation, with its 95 % interval; ``None`` where unknown."""

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
    """What an audit showed of one protocol.

    Attributes:
        protocol_hash: Of the judge with its model and options.
        judge: The judge's name.
        model: Its model string; ``None`` for a judge without one.
        measured_by: Who measured it; empty where not stated.
        created: When, as ISO 8601.
        source: What was judged.
        episodes: How many.
        tasks: Of which tasks.
        cameras: Shown by which cameras.
        success: Balanced accuracy of its verdicts on success; ``None`` where nothing was labelled.
        grounding: Share of successes that end higher under their own instruction than under another task's.
        round_trip: Rank correlation with the way there and back, when a video runs forwards, then backwards.
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
    """Read a record; what is not one is refused with the file and the field.

    Raises:
        ManifestError: The file cannot be read, or is not a validation record.
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
