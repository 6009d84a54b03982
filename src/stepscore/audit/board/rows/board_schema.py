"""``board.json`` from a file, checked field by field: the folder may be a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._untrusted import read_json, shown
from stepscore.audit.board.rows.row_schema import Count, Name, RowSchema, Text
from stepscore.errors import ManifestError, StepScoreError, first_field_error

FILE = "board.json"
FORMAT = 1
MAX_BYTES = 1 << 26
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
    """A board of judges as its folder holds it. Its metrics are its own: another version may have had others."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    benchmark: StoredBenchmark
    metrics: Annotated[list[StoredMetric], Field(max_length=1000)]
    front: StoredFront
    rows: Annotated[list[StoredRow], Field(max_length=MAX_ROWS)]
    published: Annotated[list[StoredFigures], Field(max_length=10_000)] = []


def is_board(folder: Path) -> bool:
    """Return whether a folder is that of a board of judges."""
    try:
        return (folder / FILE).exists() and not (folder / "run.json").exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_stored_board(path: Path, error_type: type[StepScoreError] = ManifestError) -> StoredBoard:
    """Read ``board.json`` as it is.

    Args:
        path: The file.
        error_type: What is raised where it cannot be read, or is not a board; the message names the field.
    """
    try:
        return StoredBoard.model_validate(read_json(path, error_type, max_bytes=MAX_BYTES))
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise not_a_board(path, field or "board", why, error_type) from error


def not_a_board(
    path: Path, field: str, why: str, error_type: type[StepScoreError] = ManifestError
) -> StepScoreError:
    """Return the error that a file is not a board, with the field and why."""
    return error_type(
        f"{shown(path)} is not a board of judges ({shown(field)}: {shown(why)}). "
        "Make one: stepscore bench DATASET --judges J -o BOARD"
    )
