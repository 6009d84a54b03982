"""``board.json`` from a file: what is not one is refused with the file and the field."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from stepscore._reading import read_json, shown
from stepscore.audit.board.rows.metrics import BY_NAME
from stepscore.audit.board.rows.row_schema import CostSchema, EstimateSchema, Name, Text
from stepscore.errors import ManifestError, first_field_error

FORMAT = 1
MAX_BYTES = 1 << 26
MAX_ROWS = 10_000
_STRICT = ConfigDict(extra="ignore", allow_inf_nan=False)


def _known(name: str) -> str:
    if name not in BY_NAME:
        raise ValueError(f"unknown metric {name[:100]!r}")
    return name


Metric = Annotated[str, AfterValidator(_known)]


class StoredRow(BaseModel):
    """A row of ``board.json``."""

    model_config = _STRICT
    label: Name
    judge: Name
    model: Text | None = None
    options: dict[Name, Any] = {}
    protocol_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    trivial: bool = False
    claimed_by: Text | None = None
    estimates: dict[Metric, EstimateSchema]
    missing: dict[Name, Text] = {}
    cost: CostSchema
    reason: Text | None = None
    command: Text = ""


class _Front(BaseModel):
    model_config = _STRICT
    metric: Metric
    cost: Literal["money", "tokens", "images"]


class StoredBoard(BaseModel):
    """``board.json``."""

    model_config = _STRICT
    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    benchmark: dict[Name, Any]
    front: _Front
    rows: Annotated[list[StoredRow], Field(max_length=MAX_ROWS)]


def read_stored_board(path: Path) -> StoredBoard:
    """Read ``board.json`` as it is.

    Raises:
        ManifestError: The file cannot be read, or is not a board.
    """
    content = read_json(path, ManifestError, max_bytes=MAX_BYTES)
    try:
        return StoredBoard.model_validate(content)
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise ManifestError(
            f"{shown(path)} is not a board ({shown(field or 'board')}: {shown(why)}). `stepscore bench` writes one."
        ) from error
