"""A row of a board: one judge with one model on one benchmark, and what it takes to reproduce it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from stepscore.runs import finite_or_none
from stepscore.types import Estimate

FORMAT = 1
MAX_NAME = 80
"""Longest name of a row's files."""


@dataclass(frozen=True)
class Cost:
    """Cost of judging the benchmark, over all videos.

    Attributes:
        videos: Episodes, and videos of pairs and questions.
        calls: Calls to models, cached ones included.
        tokens_in: 0 if a model does not count tokens.
        cost: Money; ``None`` if a price is unknown.
        seconds_per_episode: Time per video without cached answers; ``None`` if all were cached. Not
            reproducible.
    """

    videos: int = 0
    calls: int = 0
    images: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    seconds_per_episode: float | None = None

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.tokens_in + self.tokens_out


@dataclass(frozen=True)
class Points:
    """A judge's answers about one video.

    Attributes:
        progress: ``None`` where unknown.
        success_score: ``None`` if the judge gives none.
        verdicts: ``yes``, ``no`` or ``unknown`` by subgoal.
    """

    time_s: tuple[float, ...] = ()
    progress: tuple[float | None, ...] = ()
    success_score: float | None = None
    verdicts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class BoardRow:
    """One judge with one model on one benchmark.

    Attributes:
        options: The judge's options, as given; ``model_options`` likewise.
        protocol_hash: Hash of ``protocol``, which holds everything that can change a number.
        benchmark: Name, seed, number of episodes and fingerprint of the data.
        missing: By metric: why there is no number.
        command: The command that reproduces it.
        claimed_by: Who claims it, if it comes from a file; ``None`` if measured here.
        reason: Why nothing was judged; ``None`` otherwise.
        trivial: Whether it is a baseline.
        curves: The judge's answers by id of the video.
    """

    label: str
    judge: str
    model: str | None
    options: Mapping[str, Any]
    model_options: Mapping[str, Any]
    protocol_hash: str
    protocol: Mapping[str, Any]
    benchmark: Mapping[str, Any]
    estimates: Mapping[str, Estimate] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    command: str = ""
    measured_by: str = ""
    claimed_by: str | None = None
    reason: str | None = None
    trivial: bool = False
    curves: Mapping[str, Points] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """Return the name of its files, without an ending."""
        return slug(self.label)

    def value(self, metric: str) -> float | None:
        """Return the value of a metric; ``None`` where it is unknown."""
        found = self.estimates.get(metric)
        return None if found is None else finite_or_none(found.value)

    def on_board(self, *, pareto: bool) -> dict[str, Any]:
        """Return the row for ``board.json``."""
        return {
            "label": self.label,
            "judge": self.judge,
            "model": self.model,
            "options": {**self.options, **{f"model.{k}": v for k, v in self.model_options.items()}},
            "protocol_hash": self.protocol_hash,
            "trivial": self.trivial,
            "claimed_by": self.claimed_by,
            "estimates": {name: e.to_dict() for name, e in self.estimates.items()},
            "missing": dict(self.missing),
            "cost": asdict(self.cost),
            "pareto": pareto,
            "reason": self.reason,
            "command": self.command,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the whole row for its own file, with the protocol and every curve."""
        named = {
            "format": FORMAT,
            "benchmark": dict(self.benchmark),
            "measured_by": self.measured_by,
            "label": self.label,
            "judge": self.judge,
            "model": self.model,
            "options": dict(self.options),
            "model_options": dict(self.model_options),
            "command": self.command,
            "protocol_hash": self.protocol_hash,
            "protocol": dict(self.protocol),
            "trivial": self.trivial,
            "reason": self.reason,
            "cost": asdict(self.cost),
            "estimates": {name: e.to_dict() for name, e in self.estimates.items()},
            "missing": dict(self.missing),
        }
        return {**named, "curves": {name: _points_dict(one) for name, one in sorted(self.curves.items())}}


def slug(label: str) -> str:
    """Return a unique file name for a label, of lower-case letters, digits and ``@._=-``."""
    name = re.sub(r"[^a-z0-9@._=-]+", "-", label.lower()).strip("-.")[:MAX_NAME]
    return name if name == label else f"{name}-{hashlib.sha256(label.encode()).hexdigest()[:8]}".lstrip("-")


def _points_dict(points: Points) -> dict[str, Any]:
    found: dict[str, Any] = {"time_s": list(points.time_s), "progress": list(points.progress)}
    if points.success_score is not None:
        found["success_score"] = points.success_score
    return {**found, "verdicts": dict(points.verdicts)} if points.verdicts else found
