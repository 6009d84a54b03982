"""Failure modes: how a rollout failed, from its progress curve by a table of rules.

Each episode gets one failure mode: the first rule of `FAILURE_MODE_RULES` that holds. The rules use six features
of the curve as ``robust`` OPD smooths it (`stepscore.metrics.opd.robust`), so they mean the same at any sampling
rate and are insensitive to small judge noise:

peak        highest progress, as the mean over 4 % of the duration
final       progress at the end
loss        peak - final, what was gained and not kept
lost_at     share of the duration by which half of that loss had happened permanently; NaN without a loss
plateau     longest share of the duration over which the best so far rose by .05 or less
efficiency  final / (final + 2 falls), 1 without falls

A failure that fits no rule is ``none``: it was still making progress and ran out of time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.opd.robust import CurveProfile, curve_profile

SUCCESS_PROGRESS = 0.99
"""Highest progress from which a curve counts as a success where success is not given."""

_PLATEAU_GAIN = 0.05


@dataclass(frozen=True)
class FailureModeRule:
    """The condition of one failure mode.

    Attributes:
        name: Name of the failure mode.
        of: The episodes it applies to, ``"failure"`` or ``"success"``.
        when: The condition, in words.
        at_least: Features that must reach a value.
        below: Features that must stay under a value.
        advice: One line on where to look first.
    """

    name: str
    of: Literal["failure", "success"]
    when: str
    at_least: Mapping[str, float]
    below: Mapping[str, float]
    advice: str

    def holds(self, features: Mapping[str, float]) -> bool:
        """Return whether the features meet every condition."""
        return all(features[name] >= bound for name, bound in self.at_least.items()) and all(
            features[name] < bound for name, bound in self.below.items()
        )


FAILURE_MODE_RULES: tuple[FailureModeRule, ...] = (
    FailureModeRule(
        name="early collapse",
        of="failure",
        when="loses .1 or more for good, within the first 40 % of the time",
        at_least={"loss": 0.1},
        below={"lost_at": 0.4},
        advice="Look at the first contact: approach, grasp, the state it leaves; add data of recovering.",
    ),
    FailureModeRule(
        name="regression",
        of="failure",
        when="loses .1 or more for good, after the first 40 % of the time",
        at_least={"loss": 0.1, "lost_at": 0.4},
        below={},
        advice="Look at what undoes the work: slips, collisions, repeated subgoals; add data of holding on.",
    ),
    FailureModeRule(
        name="last mile",
        of="failure",
        when="reaches .75 and keeps it, but does not finish",
        at_least={"peak": 0.75},
        below={"loss": 0.1},
        advice="Look at the final precision: alignment, release, when to stop; add data of the last stage.",
    ),
    FailureModeRule(
        name="stagnation",
        of="failure",
        when="gains .05 or less over a third of the time or more, below .75",
        at_least={"plateau": 0.33},
        below={"peak": 0.75, "loss": 0.1},
        advice="Look at where it waits: an unseen state, a wrong subgoal, action chunks that cancel out.",
    ),
    FailureModeRule(
        name="inefficient success",
        of="success",
        when="succeeds, but its falls come to a third of its final progress or more",
        at_least={},
        below={"efficiency": 0.6},
        advice="It works by retrying: look at the first attempts, and weight demonstrations by PPL.",
    ),
)
NO_FAILURE_MODE, UNKNOWN_FAILURE_MODE = "none", "unknown"
_ADVICE_WITHOUT_RULE = {
    NO_FAILURE_MODE: "No failure mode stands out; a failed episode was still making progress and needed more time.",
    UNKNOWN_FAILURE_MODE: "The curve is not known well enough; raise the judge's coverage first.",
}


@dataclass(frozen=True)
class FailureMode:
    """The failure mode of one episode.

    Attributes:
        name: Its name; ``"none"`` if no rule holds, ``"unknown"`` if the curve has unknown samples or fewer
            than two.
        evidence: The features, as in the module's list; empty for ``"unknown"``.
        rule: The condition that held, in words; empty without one.
    """

    name: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    rule: str = ""


def failure_mode(
    progress: ArrayLike, times: ArrayLike | None = None, *, success: bool | None = None
) -> FailureMode:
    """Classify how one episode failed, or succeeded inefficiently.

    Args:
        progress: The samples in 0..1, shape (T,); NaN where unknown.
        times: Their times, strictly increasing; evenly spaced by default.
        success: Whether the episode succeeded. ``None`` decides by the curve: it did if it reached .99.
            A success is ``"inefficient success"`` or ``"none"``.
    """
    curve = np.asarray(progress, dtype=np.float64)
    if curve.ndim != 1:
        raise OptionError(f"failure_mode takes one curve, not an array of shape {curve.shape}.")
    if len(curve) < 2 or np.isnan(curve).any():
        return FailureMode(UNKNOWN_FAILURE_MODE)
    if success is None:
        success = bool(curve.max() >= SUCCESS_PROGRESS)
    evidence = curve_features(curve_profile(curve, times))
    for rule in FAILURE_MODE_RULES:
        if rule.of == ("success" if success else "failure") and rule.holds(evidence):
            return FailureMode(rule.name, evidence, rule.when)
    return FailureMode(NO_FAILURE_MODE, evidence)


def curve_features(profile: CurveProfile) -> dict[str, float]:
    """Return the features in the module's list, of a profile."""
    best = np.maximum.accumulate(profile.level)
    peak, final = float(best[-1]), float(profile.level[-1])
    loss = peak - final
    kept = np.flatnonzero(profile.level >= peak - loss / 2)
    # The plateau from an instant on ends where the best so far first exceeds that instant's by more than .05.
    ends = np.searchsorted(best, best + _PLATEAU_GAIN, side="right") - 1
    path = final + 2 * profile.fall
    return {
        "peak": peak,
        "final": final,
        "loss": loss,
        "lost_at": float(profile.instants[kept[-1]]) if loss > 0 else math.nan,
        "plateau": float((profile.instants[ends] - profile.instants).max()),
        "efficiency": final / path if path > 0 else math.nan,
    }


def failure_mode_advice(name: str) -> str:
    """Return one line on where to look first for a failure mode."""
    known = {rule.name: rule.advice for rule in FAILURE_MODE_RULES} | _ADVICE_WITHOUT_RULE
    if name not in known:
        raise UnknownNameError("failure mode", name, known)
    return known[name]
