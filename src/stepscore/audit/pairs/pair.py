"""A pair: two timestamps of a video, and whether the task advanced or fell back between them.

After RoboPulse (PRM-as-a-Judge): small, medium and large true changes, half of them regressions. A regression
is later in its video and lower in truth: a fall of the recording, or a rise of the reversed recording. So the
order of time says nothing, and a clock scores 0.50.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._files import write_text
from stepscore._untrusted import parse_json, read_text, shown
from stepscore.errors import ManifestError, first_field_error

Span = Literal["small", "medium", "large"]
Played = Literal["forwards", "backwards"]
SPANS: dict[Span, tuple[float, float]] = {
    "small": (0.03, 0.10),
    "medium": (0.10, 0.30),
    "large": (0.30, math.inf),
}
"""Range [lo, hi) of the absolute true change of each span."""

MAX_PAIRS = 1_000_000
"""Most pairs of a file."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two timestamps of one video.

    Attributes:
        played: Whether the episode is shown as recorded or reversed; times count in the video shown.
        change: True progress after, minus before.
        span: The size of the change; ``None`` if a file states neither.
        scene: Shared by episodes that are not independent; empty if unknown.
        hop: The true hop: the change as a share of what was left, or of what was done. ``None`` if unknown,
            NaN if only
        the sign of the change is known.
    """

    id: str
    episode: str
    played: Played
    before_s: float
    after_s: float
    change: float
    span: Span | None
    task: str
    scene: str = ""
    hop: float | None = None

    @property
    def size(self) -> float:
        """The true hop, else the true change."""
        return self.change if self.hop is None else self.hop

    def as_recorded(self, last_s: float) -> Pair:
        """Return the pair at the recording's timestamps, possibly the later one first; it ends at ``last_s``."""
        if self.played == "forwards":
            return self
        return replace(
            self, played="forwards", before_s=last_s - self.before_s, after_s=last_s - self.after_s
        )

    @property
    def cluster(self) -> str:
        """The unit to resample: the scene, else the episode. Pairs of one episode are not independent."""
        return self.scene or self.episode


class _PairRow(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)
    id: str = Field(min_length=1, max_length=1000)
    episode: str = Field(min_length=1, max_length=1000)
    played: Played = "forwards"
    before_s: float = Field(ge=0)
    after_s: float = Field(ge=0)
    change: float = Field(ge=-1, le=1)
    span: Span | None = None
    task: str = ""
    scene: str = ""
    hop: float | None = Field(default=None, ge=-1, le=1)


def span_of(change: float) -> Span | None:
    """Return the span of a true change; ``None`` if it is too small."""
    size = round(abs(change), 9)
    return next((name for name, (lo, hi) in SPANS.items() if lo <= size < hi), None)


def write_pairs(path: Path, pairs: Iterable[Pair]) -> None:
    """Write pairs as JSON lines."""
    write_text(path, "".join(json.dumps(asdict(pair)) + "\n" for pair in pairs), make_folder=True)


def read_pairs(path: Path) -> tuple[Pair, ...]:
    """Read pairs from JSON lines; spans follow from the change. Errors name file and line."""
    pairs: list[Pair] = []
    lines = read_text(path, ManifestError).splitlines()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{shown(path)}:{number}"
        try:
            row = _PairRow.model_validate(parse_json(line, where, ManifestError))
        except ValidationError as error:
            raise ManifestError(f"{where}: {first_field_error(error)}") from error
        span = span_of(row.change)
        if span is None or row.after_s <= row.before_s:
            why = "after_s is not later than before_s" if span else f"a change of {row.change:g} is too small"
            raise ManifestError(f"{where}: {why}.")
        pairs.append(Pair(**{**row.model_dump(), "span": span}))
        if len(pairs) > MAX_PAIRS:
            raise ManifestError(f"{shown(path)} has more than {MAX_PAIRS} pairs.")
    check_ids(path, pairs)
    return tuple(pairs)


def check_ids(path: Path, pairs: Sequence[Pair]) -> None:
    """Raise ManifestError if there are no pairs, or an id repeats."""
    if not pairs:
        raise ManifestError(f"{shown(path)} has no pairs. Make some: stepscore pairs make SOURCE -o FILE")
    seen: set[str] = set()
    for pair in pairs:
        if pair.id in seen:
            raise ManifestError(f"{shown(path)}: two pairs have the id {pair.id!r}.")
        seen.add(pair.id)
