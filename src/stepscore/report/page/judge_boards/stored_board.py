"""``board.json`` of a board of judges, checked field by field: the folder may be a stranger's."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._reading import read_json, shown
from stepscore.errors import RunError, first_field_error

FILE = "board.json"
FORMAT = 1
MAX_BYTES = 1 << 26

Text = Annotated[str, Field(max_length=100_000)]
Count = Annotated[int, Field(ge=0, le=1 << 53)]
Amount = Annotated[float, Field(ge=0)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False, strict=True)


class StoredEstimate(_Model):
    """An estimate; unknown is ``None``."""

    value: float | None
    lo: float | None = None
    hi: float | None = None
    n: Count
    clusters: Count
    coverage: float | None = None
    method: Text


class _Benchmark(_Model):
    name: Text
    description: Text = ""
    seed: int | None = None
    episodes: Count
    tasks: Annotated[list[Text], Field(max_length=10_000)] | Count
    fingerprint: Text


class _Metric(_Model):
    name: Text
    title: Text
    better: Literal["higher", "lower"]
    percent: bool


class _Cost(_Model):
    videos: Count | None = None
    calls: Count | None = None
    images: Count | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    cost: Amount | None = None
    seconds_per_episode: Amount | None = None


class _Row(_Model):
    label: Text
    judge: Text
    model: Text | None = None
    options: dict[Text, Any] = {}
    protocol_hash: Text | None = None
    trivial: bool
    claimed_by: Text | None = None
    estimates: Annotated[dict[Text, StoredEstimate], Field(max_length=1000)]
    cost: _Cost
    pareto: bool
    reason: Text | None = None


class _Published(_Model):
    label: Text
    source: Text
    note: Text = ""
    values: Annotated[dict[Text, float | None], Field(max_length=1000)]


class StoredBoard(_Model):
    """A board of judges as its folder holds it."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT)]
    benchmark: _Benchmark
    metrics: Annotated[list[_Metric], Field(max_length=1000)]
    front: dict[Text, Text] = {}
    rows: Annotated[list[_Row], Field(max_length=10_000)]
    published: Annotated[list[_Published], Field(max_length=10_000)] = []


def is_board(folder: Path) -> bool:
    """Return whether a folder is that of a board of judges."""
    try:
        return (folder / FILE).exists() and not (folder / "run.json").exists()
    except (OSError, ValueError):  # a name that no file can have
        return False


def read_board(folder: Path) -> StoredBoard:
    """Read a board's folder; what is not one is refused with the file and the field.

    Raises:
        RunError: ``board.json`` cannot be read, or is not a board.
    """
    path = folder / FILE
    try:
        return StoredBoard.model_validate(read_json(path, RunError, max_bytes=MAX_BYTES))
    except ValidationError as error:
        field, why = first_field_error(error)[:2]
        raise RunError(
            f"{shown(path)} is not a board of judges ({shown(field)}: {shown(why)}). "
            "Make one: stepscore bench DATASET --judges J -o BOARD"
        ) from error
