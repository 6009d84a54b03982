"""Frozen values that pass between packages: curves, verdicts, judgements, usage and estimates.

Unknown is a value here: NaN in arrays, ``None`` for a missing scalar, ``"unknown"`` for a verdict.
It is never 0, never 1, never the value before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Frames = NDArray[np.uint8]

SuccessMode = Literal["ever", "holds"]
"""When a success or subgoal counts: at some time (``ever``) or at the end of what is shown (``holds``)."""

VerdictAnswer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Curve:
    """Progress of one episode over time.

    Attributes:
        times: Seconds from the episode's first frame, strictly increasing, shape (n,).
        progress: Estimate of the task's progress potential in 0..1, comparable across episodes, or NaN.
        channels: Other series of the same length: ``raw`` values, log-probabilities, ``minmax``, stages.
        calibrated: Whether ``progress`` was mapped to labelled progress on another split.
        time_source: ``"frames"`` when the judge chose the times, ``"recorded"`` when a file stated them,
            ``"inferred"`` when a file had none and they were reconstructed.
    """

    times: FloatArray
    progress: FloatArray
    channels: Mapping[str, FloatArray] = field(default_factory=dict)
    calibrated: bool = False
    time_source: Literal["frames", "recorded", "inferred"] = "frames"

    def __post_init__(self) -> None:
        for name, values in {"times": self.times, "progress": self.progress, **self.channels}.items():
            array = np.asarray(values, dtype=np.float64)
            if array.ndim != 1 or len(array) != len(self.times):
                raise ValueError(f"Curve {name} has shape {array.shape}; expected ({len(self.times)},).")
        object.__setattr__(self, "times", np.asarray(self.times, dtype=np.float64))
        object.__setattr__(self, "progress", np.asarray(self.progress, dtype=np.float64))
        object.__setattr__(
            self, "channels", {k: np.asarray(v, dtype=np.float64) for k, v in self.channels.items()}
        )
        if not np.all(np.isfinite(self.times)) or np.any(np.diff(self.times) <= 0):
            raise ValueError("Curve times must be finite and strictly increasing.")
        known = self.progress[~np.isnan(self.progress)]
        if np.any((known < 0) | (known > 1)):
            raise ValueError(
                "Curve progress must be in 0..1 or be NaN; keep other values in the 'raw' channel."
            )

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        """E.g. ``Curve(16 points, 0.00-7.50 s, progress 0.02-0.98, 2 unknown, channels: raw, margin)``."""
        known = self.progress[~np.isnan(self.progress)]
        parts = [f"{len(self)} point{'' if len(self) == 1 else 's'}"]
        if len(self):
            parts.append(f"{self.times[0]:.2f}-{self.times[-1]:.2f} s")
        if len(known):
            parts.append(f"progress {known.min():.2f}-{known.max():.2f}")
        if len(known) < len(self):
            parts.append(f"{len(self) - len(known)} unknown")
        if self.calibrated:
            parts.append("calibrated")
        if self.time_source != "frames":
            parts.append(f"{self.time_source} times")
        if self.channels:
            parts.append(f"channels: {', '.join(self.channels)}")
        return f"Curve({', '.join(parts)})"

    @property
    def coverage(self) -> float:
        """Share of points whose progress is known; NaN for an empty curve."""
        return float(np.mean(~np.isnan(self.progress))) if len(self) else math.nan


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on one subgoal.

    Attributes:
        subgoal: The subgoal's name.
        answer: ``"yes"``, ``"no"`` or ``"unknown"``.
        score: The judge's probability of yes; NaN where it gives none.
        when_s: Timestamp at which the subgoal came true, in seconds; NaN where it is not given.
        why: The judge's reason, in its own words.
    """

    subgoal: str
    answer: VerdictAnswer
    score: float = math.nan
    when_s: float = math.nan
    why: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Time, calls, tokens and cost of judging an episode.

    Tokens are those that were counted; ``cost`` is ``None`` where a price or a count is unknown.
    """

    seconds: float = 0.0
    calls: int = 0
    attempts: int = 0
    images: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None


@dataclass(frozen=True)
class Judgement:
    """One episode under one judge.

    Attributes:
        curve: Progress over time, if the judge gives one.
        verdicts: One per subgoal, if the judge gives them.
        success_score: The judge's score that the episode succeeded, 0..1; NaN where it gives none.
        facts: Further numbers of the episode as a whole, by name, e.g. whether a cascade escalated.
        usage: Time, calls, tokens and cost.
        error: Why there is no judgement; ``None`` when there is one.
        success_probability: Calibrated probability that the episode succeeded; NaN where it is not calibrated, or
            not known.
        success_calibrated: Whether a map gave it that was fitted for this judge, model, options and mode.
    """

    curve: Curve | None = None
    verdicts: tuple[Verdict, ...] = ()
    success_score: float = math.nan
    facts: Mapping[str, float] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    error: str | None = None
    success_probability: float = math.nan
    success_calibrated: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval, sample size and coverage.

    Attributes:
        value: The estimate; NaN where there is nothing to estimate from.
        lo: Lower end of the interval; NaN where the sample is too small for one.
        hi: Upper end.
        n: Episodes that entered.
        clusters: Independent groups among them (e.g. scenes shared between policies); n without clusters.
        coverage: Share of eligible episodes whose value was known.
        method: How the interval was made, e.g. ``"wilson 95%"``.
    """

    value: float
    lo: float
    hi: float
    n: int
    clusters: int
    coverage: float
    method: str

    @classmethod
    def of_values(
        cls,
        value: float | None,
        lo: float | None,
        hi: float | None,
        n: int,
        clusters: int,
        coverage: float | None,
        method: str,
    ) -> Estimate:
        """Return an estimate of JSON values, null as NaN."""
        value, lo, hi, coverage = (math.nan if one is None else one for one in (value, lo, hi, coverage))
        return cls(value, lo, hi, n, clusters, coverage, method)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON values; what is not finite is null."""

        def null(number: float) -> float | None:
            return float(number) if math.isfinite(number) else None

        return {
            "value": null(self.value),
            "lo": null(self.lo),
            "hi": null(self.hi),
            "n": self.n,
            "clusters": self.clusters,
            "coverage": null(self.coverage),
            "method": self.method,
        }

    def __repr__(self) -> str:
        """E.g. ``Estimate(0.778 [0.453, 0.937], n=9, coverage 90%, wilson 95%)``."""
        interval = "" if math.isnan(self.lo) else f" [{self.lo:.3g}, {self.hi:.3g}]"
        clusters = "" if self.clusters == self.n else f" in {self.clusters} clusters"
        coverage = "unknown" if math.isnan(self.coverage) else f"{self.coverage:.0%}"
        return (
            f"Estimate({self.value:.3g}{interval}, n={self.n}{clusters}, coverage {coverage}, {self.method})"
        )
