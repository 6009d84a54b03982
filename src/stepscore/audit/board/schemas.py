"""Schemas of rows and of ``board.json``; the files are untrusted, and errors name file and field."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepscore._untrusted import read_json, shown
from stepscore.audit.board.board_metrics import BY_NAME
from stepscore.audit.board.row import FORMAT, BoardRow, Cost, Points
from stepscore.errors import ManifestError, StepScoreError, first_field_error
from stepscore.runs import Protocol
from stepscore.types import Estimate

MAX_BYTES = 1 << 27
"""Longest file of a row, most of which are curves."""
MAX_VIDEOS = 1_000_000
SLACK = 1e-9

Text = Annotated[str, Field(max_length=2000)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=10**15)]
Number = Annotated[float, Field(ge=-1e6, le=1e6)]
_STRICT = ConfigDict(extra="ignore", allow_inf_nan=False)


class EstimateSchema(BaseModel):
    """An estimate in a file."""

    model_config = _STRICT
    value: Number | None
    lo: Number | None = None
    hi: Number | None = None
    n: Count
    clusters: Count
    coverage: Annotated[float, Field(ge=0, le=1)] | None = None
    method: Text = ""

    @model_validator(mode="after")
    def _ordered(self) -> EstimateSchema:
        if self.value is not None and not self.n:
            raise ValueError("a value of no episode")
        if self.lo is not None and self.hi is not None and self.lo > self.hi:
            raise ValueError("lo is above hi")
        return self

    def estimate(self) -> Estimate:
        """Return it as an Estimate, null as NaN."""
        return Estimate.of_values(**self.model_dump())


class CostSchema(BaseModel):
    """A cost in a file."""

    model_config = _STRICT
    videos: Count = 0
    calls: Count = 0
    images: Count = 0
    tokens_in: Count = 0
    tokens_out: Count = 0
    cost: Annotated[float, Field(ge=0)] | None = None
    seconds_per_episode: Annotated[float, Field(ge=0)] | None = None


class _Points(BaseModel):
    model_config = _STRICT
    time_s: tuple[Annotated[float, Field(ge=0)], ...]
    progress: tuple[Annotated[float, Field(ge=-SLACK, le=1 + SLACK)] | None, ...]
    success_score: Number | None = None
    verdicts: dict[Text, Literal["yes", "no", "unknown"]] = {}

    @model_validator(mode="after")
    def _curve(self) -> _Points:
        if len(self.time_s) != len(self.progress):
            raise ValueError(f"{len(self.time_s)} times and {len(self.progress)} values")
        if any(after <= before for before, after in zip(self.time_s, self.time_s[1:], strict=False)):
            raise ValueError("times do not increase")
        return self


class _BenchmarkOf(BaseModel):
    model_config = _STRICT
    name: Text
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{16,64}$")]
    seed: Count | None = None
    episodes: Count


class RowSchema(BaseModel):
    """The fields that a row's own file and ``board.json`` share."""

    model_config = _STRICT
    label: Name
    judge: Name
    model: Text | None = None
    options: dict[Name, Any] = {}
    command: Text = ""
    protocol_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    trivial: bool = False
    reason: Text | None = None
    cost: CostSchema = CostSchema()
    estimates: Annotated[dict[Name, EstimateSchema], Field(max_length=1000)]
    missing: dict[Name, Text] = {}

    def row(self, **others: Any) -> BoardRow:
        """Return the row with its other fields."""
        return BoardRow(
            label=self.label,
            judge=self.judge,
            model=self.model,
            options=self.options,
            protocol_hash=self.protocol_hash,
            estimates={name: one.estimate() for name, one in self.estimates.items()},
            missing=self.missing,
            cost=Cost(**self.cost.model_dump()),
            command=self.command,
            reason=self.reason,
            trivial=self.trivial,
            **others,
        )


class _Row(RowSchema):
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    benchmark: _BenchmarkOf
    measured_by: Text = ""
    model_options: dict[Name, Any] = {}
    protocol: dict[str, Any]
    curves: Annotated[dict[Name, _Points], Field(max_length=MAX_VIDEOS)]

    @model_validator(mode="after")
    def _whole(self) -> _Row:
        unknown = sorted(set(self.estimates) - set(BY_NAME))
        if unknown:
            raise ValueError(f"unknown metric {unknown[0]!r}")
        if Protocol(self.protocol).hash != self.protocol_hash:
            raise ValueError("protocol_hash is not that of the protocol")
        if any(one.value is not None for one in self.estimates.values()) and not self.curves:
            raise ValueError("numbers without the curves behind them")
        return self


def read_row(path: Path) -> BoardRow:
    """Read a row written by ``bench``.

    Raises:
        ManifestError: The file cannot be read or is invalid; the message names the field.
    """
    content = read_json(path, ManifestError, max_bytes=MAX_BYTES)
    try:
        row = _Row.model_validate(content)
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise ManifestError(
            f"{shown(path)} is not a row of a board ({shown(field or 'row')}: {shown(why)}). "
            "`stepscore bench` writes rows into BOARD/rows."
        ) from error
    return row.row(
        model_options=row.model_options,
        protocol=row.protocol,
        benchmark=row.benchmark.model_dump(),
        measured_by=row.measured_by,
        curves={name: Points(**one.model_dump()) for name, one in row.curves.items()},
    )


FILE = "board.json"
BOARD_FORMAT = 1
MAX_BOARD_BYTES = 1 << 26
MAX_ROWS = 10_000

LongText = Annotated[str, Field(max_length=100_000)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)


class StoredBenchmark(_Model):
    """What a board says of its data."""

    name: LongText
    description: LongText = ""
    seed: int | None = None
    episodes: Count
    tasks: Annotated[list[LongText], Field(max_length=10_000)] | Count
    pairs: Count = 0
    questions: Count = 0
    success: dict[Literal["ever", "holds"], Count] = {}
    fingerprint: Text


class StoredMetric(_Model):
    """A column."""

    name: Text
    title: Text
    better: Literal["higher", "lower"]
    percent: bool


class StoredRow(RowSchema):
    """A row."""

    model_config = ConfigDict(strict=True)
    claimed_by: Text | None = None
    pareto: bool


class StoredFront(_Model):
    """The accuracy and the cost of the Pareto front."""

    metric: Name
    cost: Literal["money", "tokens", "images"]


class StoredFigures(_Model):
    """Figures that others published of a judge."""

    label: Text
    source: Text
    note: Text = ""
    values: Annotated[dict[Text, float | None], Field(max_length=1000)]


class StoredBoard(_Model):
    """A stored board with its own list of metrics: other versions may have others."""

    format: Annotated[int, Field(ge=BOARD_FORMAT, le=BOARD_FORMAT)]
    benchmark: StoredBenchmark
    metrics: Annotated[list[StoredMetric], Field(max_length=1000)]
    front: StoredFront
    rows: Annotated[list[StoredRow], Field(max_length=MAX_ROWS)]
    published: Annotated[list[StoredFigures], Field(max_length=10_000)] = []


def is_board(folder: Path) -> bool:
    """Return whether a folder holds a board of judges."""
    try:
        return (folder / FILE).exists() and not (folder / "run.json").exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_stored_board(path: Path, error_type: type[StepScoreError] = ManifestError) -> StoredBoard:
    """Read ``board.json``; raise ``error_type``, naming the field, if it cannot be read or is invalid."""
    try:
        return StoredBoard.model_validate(read_json(path, error_type, max_bytes=MAX_BOARD_BYTES))
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise not_a_board(path, field or "board", why, error_type) from error


def not_a_board(
    path: Path, field: str, why: str, error_type: type[StepScoreError] = ManifestError
) -> StepScoreError:
    """Return the error for a file that is not a board."""
    return error_type(
        f"{shown(path)} is not a board of judges ({shown(field)}: {shown(why)}). "
        "Make one: stepscore bench DATASET --judges J -o BOARD"
    )
