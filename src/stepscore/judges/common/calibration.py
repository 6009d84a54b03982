"""Calibration files: a monotone map from a judge's score to labelled progress, and what it was fitted on.

``stepscore calibrate RUN -o map.json`` writes one; ``-J calibration=map.json`` applies it. A map holds for
the judge, the options and the model it was fitted with, and is refused anywhere else.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from stepscore._files import write_json
from stepscore._reading import parse_json, read_text, shown
from stepscore.errors import OptionError, first_field_error
from stepscore.metrics import MonotoneMap
from stepscore.types import Curve

MAX_FILE_BYTES = 100_000_000
"""Longest calibration map that is read."""


@dataclass(frozen=True)
class FittedMap:
    """A map and the judge it belongs to.

    Attributes:
        map: The map itself.
        channel: Series of the curve that it takes: ``progress``, ``margin``, ``raw`` ...
        judge: Name of the judge it was fitted for.
        version: That judge's version.
        options: That judge's options, calibration aside.
        model: The model string; ``None`` for a judge that asks none.
        protocol: Hash of the protocol of the run it was fitted on.
        fit: Its training data: kind of truth, split, episodes, points.
        figures: Its errors on episodes it was not fitted on.
    """

    map: MonotoneMap
    channel: str
    judge: str
    version: int
    options: Mapping[str, Any]
    model: str | None
    protocol: str
    fit: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)

    def content(self) -> dict[str, object]:
        """Return what can change a number; this enters the protocol of a calibrated run."""
        return {"channel": self.channel, "x": list(self.map.x), "y": list(self.map.y)}

    def apply(self, curve: Curve) -> Curve:
        """Return the curve with its progress mapped; the progress before is the channel ``raw``."""
        if self.channel != "progress" and self.channel not in curve.channels:
            has = ", ".join(["progress", *sorted(curve.channels)])
            raise OptionError(
                f"The calibration map takes the channel {self.channel!r}; this judge gives {has}."
            )
        scores = curve.progress if self.channel == "progress" else curve.channels[self.channel]
        channels = {"raw": curve.progress, **curve.channels}
        return replace(curve, progress=self.map.apply(scores), channels=channels, calibrated=True)


class Calibratable(Protocol):
    """A judge that a map is checked against: its name, version and options."""

    name: str
    version: int

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, as JSON values."""


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    format: Literal[1]
    judge: str
    version: int
    options: dict[str, Any]
    model: str | None
    protocol: str
    channel: str
    x: list[float]
    y: list[float]
    fit: dict[str, Any]
    figures: dict[str, Any]


def write_calibration(fitted: FittedMap, path: Path) -> None:
    """Write a map as JSON, atomically."""
    content = {
        "format": 1,
        "judge": fitted.judge,
        "version": fitted.version,
        "options": dict(fitted.options),
        "model": fitted.model,
        "protocol": fitted.protocol,
        **fitted.content(),
        "fit": dict(fitted.fit),
        "figures": dict(fitted.figures),
    }
    write_json(path, content, indent=1, ensure_ascii=True, allow_nan=False, make_folder=True)


def read_calibration(path: str | Path) -> FittedMap:
    """Return the map in a file. Raises OptionError where it is not a valid one."""
    file = Path(path)
    if not os.path.exists(file):
        name = shown(file)
        raise OptionError(f"No calibration map at {name}. Make one: stepscore calibrate RUN -o {name}")
    text = read_text(file, OptionError, max_bytes=MAX_FILE_BYTES)
    value = parse_json(text, f"{shown(file)} is not a calibration map: it", OptionError)
    try:
        content = _File.model_validate(value)
    except ValidationError as error:
        first = first_field_error(error)
        raise OptionError(
            f"{shown(file)} is not a calibration map: {first.field or 'the file'}: {first.message}."
        ) from None
    try:
        fitted = MonotoneMap(tuple(content.x), tuple(content.y))
    except OptionError as error:
        raise OptionError(f"{file}: {error}") from error
    if content.y[0] < 0 or content.y[-1] > 1:
        raise OptionError(f"{file} maps to {content.y[0]:g}..{content.y[-1]:g}; progress lies in 0..1.")
    parts = {name: getattr(content, name) for name in ("channel", "judge", "version", "options", "model")}
    return FittedMap(fitted, **parts, protocol=content.protocol, fit=content.fit, figures=content.figures)


def check_calibration(fitted: FittedMap, judge: Calibratable, model: str | None) -> None:
    """Raise OptionError for a map that was fitted for another judge, other options or another model."""
    repair = "Fit one for it: judge without calibration, then stepscore calibrate RUN -o map.json"
    if (fitted.judge, fitted.version) != (judge.name, judge.version):
        raise OptionError(
            f"The calibration map was fitted for the judge {fitted.judge!r} (version {fitted.version}), "
            f"not {judge.name!r} (version {judge.version}). {repair}"
        )
    if fitted.model != model:
        raise OptionError(f"The calibration map was fitted with {fitted.model}, not {model}. {repair}")
    # Through JSON, because that is how the fitted options were kept: a tuple there is a list.
    mine = json.loads(json.dumps({k: v for k, v in judge.options().items() if k != "calibration"}))
    for name in sorted(mine.keys() | fitted.options.keys()):
        if mine.get(name) != fitted.options.get(name):
            raise OptionError(
                f"The calibration map was fitted with {name}={fitted.options.get(name)!r}, "
                f"not {mine.get(name)!r}. {repair}"
            )
