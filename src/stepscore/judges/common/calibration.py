"""Calibration files: a judge's score mapped to labelled progress and to the probability of success.

``stepscore calibrate RUN -o map.json`` writes one; ``-J calibration=map.json`` applies it. A map holds for
the judge, the options and the weights it was fitted with, and is refused anywhere else.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._files import write_json
from stepscore._untrusted import parse_json, read_text, shown
from stepscore.episodes import Episode
from stepscore.errors import OptionError, first_field_error
from stepscore.judges.common.success_map import (
    PROBABILITY_CHANNEL,
    FittedSuccess,
    channel_values,
    final_score,
)
from stepscore.metrics import MonotoneMap, SuccessMap
from stepscore.models import Model
from stepscore.types import Curve, Judgement, SuccessMode

MAX_FILE_BYTES = 100_000_000
"""Longest calibration map that is read."""

IDENTITY_KEYS = ("weights", "gate", "revision", "root")
"""Parts of a model's description that tell its weights from others of the same name."""


@dataclass(frozen=True)
class FittedMap:
    """Maps and the judge they belong to.

    Attributes:
        map: The map to progress; ``None`` where no progress was labelled.
        channel: Series of the curve that it takes: ``progress``, ``margin``, ``raw`` ...
        judge: Name of the judge it was fitted for.
        version: That judge's version.
        options: That judge's options, calibration aside.
        model: The model string; ``None`` for a judge that asks none.
        protocol: Hash of the protocol of the run it was fitted on.
        fit: Training data of the map to progress: kind of truth, split, episodes, points.
        figures: Its errors on episodes it was not fitted on.
        identity: Digests of the model's weights, or the revision its server reports; ``None`` in files of format 1.
        success: The map to the probability of success, where one was fitted.
        fingerprints: Of all episodes that either map was fitted on; none are known in files of format 1.
        done_at: Mapped progress at the end that separates labelled successes from failures best; ``None`` where
            nothing says so.
    """

    map: MonotoneMap | None
    channel: str
    judge: str
    version: int
    options: Mapping[str, Any]
    model: str | None
    protocol: str
    fit: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    identity: Mapping[str, Any] | None = None
    success: FittedSuccess | None = None
    fingerprints: frozenset[str] = frozenset()
    done_at: float | None = None

    def content(self) -> dict[str, object]:
        """Return what can change a number; this enters the protocol of a calibrated run."""
        progress: dict[str, object] = {"channel": self.channel}
        if self.map is not None:
            progress |= {"x": list(self.map.x), "y": list(self.map.y)}
        if self.done_at is not None:
            progress["done_at"] = self.done_at
        return progress if self.success is None else {**progress, "success": self.success.content()}

    def apply(self, curve: Curve) -> Curve:
        """Return the curve with its progress mapped; the progress before is the channel ``raw``."""
        if self.map is None:
            return curve
        scores = channel_values(curve, self.channel)
        channels = {"raw": curve.progress, **curve.channels}
        return replace(curve, progress=self.map.apply(scores), channels=channels, calibrated=True)

    def apply_to(self, judgement: Judgement, episode: Episode) -> Judgement:
        """Return the judgement of an episode with its progress and its success mapped.

        The curve gets the channel ``success_probability``. The fact ``fitted_on`` is 1 where a map was fitted on this
        episode, and ``pooled_map`` is 1 where its task has no term of its own in the success map.
        """
        if judgement.curve is None:
            return judgement
        facts = dict(judgement.facts)
        if self.fingerprints:
            facts["fitted_on"] = float(episode.fingerprint in self.fingerprints)
        judged = replace(judgement, curve=self.apply(judgement.curve), facts=facts)
        if self.success is None or not self.success.holds_for(episode):
            return judged
        # From the curve as it was: the map may take the progress that the other one has just replaced.
        probabilities = self.success.probabilities(judgement.curve, episode)
        assert judged.curve is not None
        channels = {**judged.curve.channels, PROBABILITY_CHANNEL: probabilities}
        facts["pooled_map"] = float(self.success.task_of(episode) is None)
        return replace(
            judged,
            curve=replace(judged.curve, channels=channels),
            facts=facts,
            success_probability=final_score(probabilities, self.success.mode),
            success_calibrated=True,
        )


class Calibratable(Protocol):
    """A judge that a map is checked against: its name, version and options."""

    name: str

    @property
    def version(self) -> int:
        """Rises when the same input may score differently."""

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, as JSON values."""


class _Success(BaseModel):
    model_config = ConfigDict(extra="forbid")
    mode: SuccessMode
    channel: str
    intercept: float
    slope: float
    tasks: dict[str, float]
    fit: dict[str, Any]
    figures: dict[str, Any]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")
    format: Literal[1, 2]
    judge: str
    version: int
    options: dict[str, Any]
    model: str | None
    protocol: str
    channel: str
    x: list[float] = []
    y: list[float] = []
    fit: dict[str, Any]
    figures: dict[str, Any]
    identity: dict[str, Any] | None = None
    success: _Success | None = None
    fingerprints: list[str] = []
    done_at: float | None = Field(None, ge=0, le=1)


def write_calibration(fitted: FittedMap, path: Path) -> None:
    """Write maps as JSON, atomically."""
    content: dict[str, Any] = {
        "format": 2,
        "judge": fitted.judge,
        "version": fitted.version,
        "options": dict(fitted.options),
        "model": fitted.model,
        "identity": None if fitted.identity is None else dict(fitted.identity),
        "protocol": fitted.protocol,
        **fitted.content(),
        "fit": dict(fitted.fit),
        "figures": dict(fitted.figures),
        "fingerprints": sorted(fitted.fingerprints),
    }
    if fitted.success is not None:
        facts = {"fit": dict(fitted.success.fit), "figures": dict(fitted.success.figures)}
        content["success"] = {**fitted.success.content(), **facts}
    write_json(path, content, indent=1, ensure_ascii=True, allow_nan=False, make_folder=True)


def read_calibration(path: str | Path) -> FittedMap:
    """Return the maps in a file. Raises OptionError where it is not a valid one."""
    file = Path(path)
    if not os.path.exists(file):
        name = shown(file)
        raise OptionError(
            f"No calibration map at {name}. Make one: stepscore calibrate RUN -o {shlex.quote(name)}"
        )
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
        fitted, success = _progress_map(content), _success_map(content)
    except OptionError as error:
        raise OptionError(f"{file}: {error}") from error
    names = ("channel", "judge", "version", "options", "model", "protocol", "fit", "figures")
    parts = {name: getattr(content, name) for name in (*names, "identity", "done_at")}
    return FittedMap(fitted, **parts, success=success, fingerprints=frozenset(content.fingerprints))


def check_calibration(fitted: FittedMap, judge: Calibratable, model: Model | None) -> None:
    """Raise OptionError for a map that was fitted for another judge, other options or another model."""
    if (why := calibration_mismatch(fitted, judge, model)) is not None:
        repair = "Fit one for it: judge without calibration, then stepscore calibrate RUN -o map.json"
        raise OptionError(f"The calibration map was fitted {why}. {repair}")


def calibration_mismatch(fitted: FittedMap, judge: Calibratable, model: Model | None) -> str | None:
    """Return for which other judge, options or model a map was fitted; ``None`` where it holds for these."""
    if (fitted.judge, fitted.version) != (judge.name, judge.version):
        return (
            f"for the judge {fitted.judge!r} (version {fitted.version}), "
            f"not {judge.name!r} (version {judge.version})"
        )
    name = None if model is None else model.name
    if fitted.model != name:
        return f"with {fitted.model}, not {name}"
    # Through JSON, because that is how the fitted options were kept: a tuple there is a list.
    mine = json.loads(json.dumps({k: v for k, v in judge.options().items() if k != "calibration"}))
    for option in sorted(mine.keys() | fitted.options.keys()):
        if mine.get(option) != fitted.options.get(option):
            return f"with {option}={fitted.options.get(option)!r}, not {mine.get(option)!r}"
    if fitted.identity is not None and model is not None:
        own = model_identity(model.describe())
        for part in sorted(own.keys() | fitted.identity.keys()):
            if own.get(part) != fitted.identity.get(part):
                return f"with another {part} of {name} ({fitted.identity.get(part)!r}, not {own.get(part)!r})"
    return None


def model_identity(description: Mapping[str, object] | None) -> dict[str, object]:
    """Return what tells a model's weights from others of its name: digests, or the revision its server reports."""
    return {key: value for key, value in (description or {}).items() if key in IDENTITY_KEYS}


def _progress_map(content: _File) -> MonotoneMap | None:
    if content.success is not None and not content.x and not content.y:
        return None
    fitted = MonotoneMap(tuple(content.x), tuple(content.y))
    if content.y[0] < 0 or content.y[-1] > 1:
        raise OptionError(f"it maps to {content.y[0]:g}..{content.y[-1]:g}; progress lies in 0..1.")
    return fitted


def _success_map(content: _File) -> FittedSuccess | None:
    found = content.success
    if found is None:
        return None
    fitted = SuccessMap(found.intercept, found.slope, found.tasks)
    return FittedSuccess(fitted, found.channel, found.mode, found.fit, found.figures)


class CalibratedJudge:
    """Mixin for a judge of one model with the options ``calibration``, a file, and ``fitted``, what it holds.

    Attributes:
        calibration: The file; ``None`` for no map.
        fitted: Its maps; set by :meth:`read_map`, which the judge calls when its options are checked.
    """

    name: str
    model: Model
    calibration: str | Path | None
    fitted: FittedMap | None

    def read_map(self) -> None:
        """Read the map. Raises OptionError for one that was fitted for another judge, options or model."""
        if self.calibration is not None:
            fitted = read_calibration(self.calibration)
            check_calibration(fitted, cast(Calibratable, self), self.model)
            object.__setattr__(self, "fitted", fitted)

    def map_content(self) -> dict[str, object] | None:
        """Return what of the map can change a number; ``None`` without one."""
        return None if self.fitted is None else self.fitted.content()

    def calibrated(self, judgement: Judgement, episode: Episode) -> Judgement:
        """Return a judgement with progress and success mapped, where there is a map."""
        return judgement if self.fitted is None else self.fitted.apply_to(judgement, episode)
