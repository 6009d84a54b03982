"""A scored episode: the judge's log-odds at each prefix, and the truth there."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, SupportsFloat

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.labels.label_intervals import subgoal_truth, success_truth
from stepscore.types import FloatArray


@dataclass(frozen=True, eq=False)
class Statement:
    """One text about a video: log-odds of True after each prefix, and whether it was true there.

    Attributes:
        margins: log P(True) - log P(False), (K,).
        truth: 1, 0 or NaN, by the statement's mode (``ever``: so far; ``holds``: at the prefix's end), (K,).
    """

    margins: FloatArray
    truth: FloatArray


@dataclass(frozen=True, eq=False)
class Scored:
    """One video under its own instruction.

    Attributes:
        id: The recorded episode.
        variant: The variant of it that is scored: ``recorded``, ``cut``, ``frozen``, ``left`` ...
        task: The simulator's name.
        policy: The policy that acted.
        pair: Its scene.
        duration_s: How long the video is.
        success: Whether the task is done at its end; NaN where that is not known.
        ever: Whether it was done at some time.
        times: Seconds of each prefix's last frame, (K,).
        potential: Progress there; NaN where not known, (K,).
        own: The instruction.
        subgoals: By name.
        others: Log-odds of other instructions at the end, by instruction.
        peak: Highest potential of the whole recorded episode.
        reworded: Log-odds at the end of the instruction in words that were never trained; NaN where not scored.
    """

    id: str
    variant: str
    task: str
    policy: str
    pair: str | None
    duration_s: float
    success: float
    ever: float
    times: FloatArray
    potential: FloatArray
    own: Statement
    subgoals: Mapping[str, Statement] = field(default_factory=dict)
    others: Mapping[str, float] = field(default_factory=dict)
    peak: float = math.nan
    reworded: float = math.nan

    @property
    def final(self) -> float:
        """Log-odds at the end."""
        return float(self.own.margins[-1])

    @property
    def chances(self) -> FloatArray:
        """P(True) against P(False) at each prefix."""
        return sigmoid(self.own.margins)


def sigmoid(margins: FloatArray) -> FloatArray:
    """1 / (1 + exp(-margin)), without overflow."""
    return np.asarray(0.5 * (1.0 + np.tanh(np.asarray(margins, dtype=np.float64) / 2)))


def truth_of(episode: Episode, times: FloatArray, last_s: float) -> dict[str, Any]:
    """Return what is true of the recorded episode at each of ``times``."""
    done = success_truth(episode.labels, last_s)
    mode = episode.labels.success_mode or "holds"
    at, values = episode.labels.progress()
    subgoals = {
        s.name: (s.mode, subgoal_truth(episode.labels, s.name, s.mode, last_s)) for s in episode.subgoals
    }
    return {
        "success": known_value(episode.labels.success),
        "ever": known_value(done.happened(last_s)),
        "potential": np.interp(times, at, values) if len(at) else np.full(len(times), math.nan),
        "own": np.array([known_value(done.at_end(mode, float(t))) for t in times]),
        "subgoals": {
            name: np.array([known_value(truth.at_end(when, float(t))) for t in times])
            for name, (when, truth) in subgoals.items()
        },
    }


def known_value(value: SupportsFloat | None) -> float:
    """Return 1 or 0; NaN where it is unknown."""
    return math.nan if value is None else float(value)


def write_rows(path: Path, rows: Iterable[Scored]) -> None:
    """Append rows to a file, a line each."""
    with path.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(asdict(row), default=_listed) + "\n")


def read_rows(path: Path) -> list[Scored]:
    """Read the rows of a file; a torn last line is dropped."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            break
        found["own"] = _statement(found["own"])
        found["subgoals"] = {name: _statement(row) for name, row in found["subgoals"].items()}
        rows.append(
            Scored(**{**found, "times": _array(found["times"]), "potential": _array(found["potential"])})
        )
    return rows


def _statement(found: Mapping[str, Any]) -> Statement:
    return Statement(_array(found["margins"]), _array(found["truth"]))


def _array(values: Any) -> FloatArray:
    return np.asarray(values, dtype=np.float64)


def _listed(value: Any) -> Any:
    # Six digits are finer than what the model's own rounding leaves.
    return [round(float(x), 6) for x in value]
