"""The schema of a line in the journal; all tables can be rebuilt from these lines.

A line that violates the schema counts as damaged, and the error message names the field. Counts, costs and
answers are not checked here. They come from a server, so an invalid value becomes unknown and the episode is
kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, NotRequired

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from stepscore._untrusted import INT64
from stepscore.errors import first_field_error
from stepscore.runs.records import RESERVED_COLUMNS

_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_Int = Annotated[int, Field(ge=INT64.start, lt=INT64.stop)] | None
_Progress = Annotated[float, Field(ge=0, le=1)] | None
_Float = float | None
# The limit makes pydantic check characters and reject unpaired surrogates, which no table can store.
_Str = Annotated[str, Field(max_length=1 << 26)]
_Text = _Str | None


class _View(TypedDict):
    name: _Str
    location: _Text


class _Goal(TypedDict):
    view: _Str
    location: _Text


class _Stage(TypedDict):
    name: _Str
    start_s: _Float
    end_s: _Float


class _Subgoal(TypedDict):
    name: _Str
    criterion: _Text
    mode: _Text
    view: _Text
    reviewed: bool | None
    label: bool | None


class _Points(TypedDict):
    time_s: list[float]
    progress: list[_Progress]


class _Episode(TypedDict):
    source: _Str
    source_index: _Int
    first_frame: _Int
    n_frames: _Int
    fps: _Float
    duration_s: _Float
    fingerprint: _Text
    instruction: _Str
    task: _Text
    policy: _Text
    robot: _Text
    dataset: _Text
    pair: _Text
    views: list[_View]
    success: bool | None
    success_mode: _Text
    stages: list[_Stage]
    subgoals: list[_Subgoal]
    goals: NotRequired[list[_Goal]]
    labelled_progress: NotRequired[dict[str, _Points]]
    metadata: _Text


class _Curve(_Points):
    channels: dict[_Str, list[_Float]]
    calibrated: bool
    time_source: _Str


class _Verdict(TypedDict):
    subgoal: _Str
    answer: _Str
    score: _Float
    when_s: _Float
    why: _Text


class _Judgement(TypedDict):
    success_score: _Float
    success_probability: NotRequired[_Progress]
    success_calibrated: NotRequired[bool]
    facts: dict[_Str, _Float]
    error: _Text
    curve: NotRequired[_Curve]
    verdicts: list[_Verdict]


@with_config(_STRICT)
class _Described(TypedDict):
    """A line that updates an episode's description."""

    id: _Str
    episode: _Episode


@with_config(_STRICT)
class _Judged(_Described):
    """A line with the judgement of an episode."""

    key: _Str
    judgement: _Judgement
    calls: list[dict[str, Any]]
    usage: dict[str, Any]


_DESCRIBED, _JUDGED = TypeAdapter(_Described), TypeAdapter(_Judged)


def checked_record(record: object) -> dict[str, Any]:
    """Return a record without unknown fields; raise a ValueError that names its first invalid field."""
    schema: TypeAdapter[Any] = _JUDGED if isinstance(record, dict) and "judgement" in record else _DESCRIBED
    try:
        checked: dict[str, Any] = schema.validate_python(record)
    except ValidationError as error:
        wrong = first_field_error(error)
        raise ValueError(f"{wrong.field[:200]}: {wrong.message}" if wrong.field else wrong.message) from error
    for name, labelled in checked["episode"].get("labelled_progress", {}).items():
        _check_points(f"episode.labelled_progress.{name[:80]!r}", labelled, {})
    curve = checked["judgement"].get("curve") if "judgement" in checked else None
    if curve is not None:
        _check_points("judgement.curve", curve, curve["channels"])
        if taken := RESERVED_COLUMNS & curve["channels"].keys():
            raise ValueError(f"judgement.curve.channels: {min(taken)!r} is the name of another column")
    return checked


def count_or_none(value: object) -> int | None:
    """Return a count; ``None`` unless it is a non-negative integer that fits into a column."""
    return value if type(value) is int and 0 <= value < INT64.stop else None


def amount_or_none(value: object) -> float | None:
    """Return seconds or a cost; ``None`` unless it is a finite, non-negative number."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1e300 and math.isfinite(value) else None


def text_or_none(value: object) -> str | None:
    """Return text unchanged, and any other value as JSON."""
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else json.dumps(value)
    except RecursionError:
        return None
    # Tables cannot store unpaired surrogates, so they become question marks.
    return text.encode("utf-8", "replace").decode()


def _check_points(where: str, points: Mapping[str, Any], channels: Mapping[str, Sequence[Any]]) -> None:
    times = points["time_s"]
    for name, values in {"progress": points["progress"], **channels}.items():
        if len(values) != len(times):
            raise ValueError(f"{where}: {len(times)} times, but {len(values)} values of {name[:80]!r}")
    if not all(before < after for before, after in pairwise(times)):
        raise ValueError(f"{where}.time_s: Times should be increasing")
