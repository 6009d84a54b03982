"""Immutable values shared by all packages: curves, verdicts, judgements, usage and estimates.

Unknown values are explicit: NaN in arrays, ``None`` for a scalar, ``"unknown"`` for a verdict. They are never
replaced by 0, by 1 or by the previous value.
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
"""Whether a success or subgoal counts if reached at any time (``ever``) or only at the end (``holds``)."""

VerdictAnswer = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Curve:
    """Progress of one episode over time.

    Attributes:
        times: Seconds from the episode's first frame, strictly increasing, shape (n,).
        progress: Estimate of the task's progress potential in 0..1, comparable across episodes, or NaN.
        channels: Additional series of the same length: ``raw`` values, log-probabilities, ``minmax``, stages.
        calibrated: Whether ``progress`` was mapped to labelled progress on another split.
        time_source: ``"frames"`` if the judge chose the times, ``"recorded"`` if they come from a file,
            ``"inferred"`` if they were reconstructed for a file without times.
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
        """Share of points with known progress; NaN for an empty curve."""
        return float(np.mean(~np.isnan(self.progress))) if len(self) else math.nan


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judge's verdict on one subgoal.

    Attributes:
        subgoal: The subgoal's name.
        answer: ``"yes"``, ``"no"`` or ``"unknown"``.
        score: The judge's probability of yes; NaN if the judge gives no probability.
        when_s: Timestamp at which the subgoal became true, in seconds; NaN if unknown.
        why: The judge's explanation, as text.
    """

    subgoal: str
    answer: VerdictAnswer
    score: float = math.nan
    when_s: float = math.nan
    why: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """Time, calls, tokens and cost of judging an episode.

    Only tokens with known counts are included. ``cost`` is ``None`` if a price or a count is unknown.
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
    """The judgement of one episode by one judge.

    Attributes:
        curve: Progress over time, if the judge predicts progress.
        verdicts: One verdict per subgoal, if the judge gives verdicts.
        success_score: The judge's score of success, 0..1; NaN if the judge gives no score.
        facts: Additional values for the whole episode, by name, e.g. whether a cascade escalated.
        usage: Time, calls, tokens and cost.
        error: The reason for a missing judgement; ``None`` if the episode was judged.
        success_probability: Calibrated probability that the episode succeeded; NaN if uncalibrated or unknown.
        success_calibrated: Whether that probability comes from a map fitted for this judge, model, options
            and mode.
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
    """An estimate with interval, sample size and coverage.

    Attributes:
        value: The estimate; NaN without data.
        lo: Lower end of the interval; NaN if the sample is too small for an interval.
        hi: Upper end of the interval.
        n: Number of episodes used.
        clusters: Number of independent groups of episodes (e.g. scenes shared between policies); equal to n
            if there are no clusters.
        coverage: Share of eligible episodes with a known value.
        method: Method of the interval, e.g. ``"wilson 95%"``.
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
        """Build an estimate from JSON values; null becomes NaN."""
        value, lo, hi, coverage = (math.nan if one is None else one for one in (value, lo, hi, coverage))
        return cls(value, lo, hi, n, clusters, coverage, method)

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON values; non-finite numbers become null."""

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
