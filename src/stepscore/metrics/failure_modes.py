"""Failure modes: what happened in an episode, from its curve, its subgoals and its stages together.

Each episode gets one name, that of the first condition that holds; `FAILURE_MODES` lists them in this order. The
curve is smoothed as ``robust`` OPD smooths it (`stepscore.metrics.opd.robust`), so that a name means the same at any
sampling rate. Seven features decide:

start     progress at the start: judges rarely begin at 0
peak      highest progress
final     progress at the end
gain      rise of the best progress so far during the last quarter
range     range of the progress during the last quarter
reached   number of the furthest subgoal that was ever reached
kept      number of the furthest subgoal that is still reached at the end

``reached`` and ``kept`` are from subgoals and annotated stages where these are known, else from the curve. A task of
K subgoals is K equal parts of the curve; K is 4 where a task has no subgoals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError, UnknownNameError
from stepscore.metrics.opd.robust import curve_profile
from stepscore.types import FloatArray

SUCCESS_PROGRESS = 0.99
"""Highest progress from which a curve counts as a success where success is not given."""
SLOW = 1.5
"""Times a task's usual time from which a success is too slow."""
DONE = 0.999
"""Progress that only a finished task reaches."""

NO_FAILURE_MODE, UNKNOWN_FAILURE_MODE = "none", "unknown"

# Chosen on half of the simulator's tasks; benchmarks/diagnosis holds them against the other half.
_LAST = 0.75  # from here on, a share of the duration, nothing may happen any more
_NEARLY, _FELL = 0.9, 0.3  # a peak that may have been success, where so much of it is lost
_PARTS = 4
_BELOW = 0.2  # of a part that may be missing for a subgoal to count as kept
_ROUNDING = 0.02  # of a part that smoothing may take from a subgoal that is reached
_NEAR = 0.15  # of the way to the first subgoal
_GAIN, _REST = 0.03, 0.06


@dataclass(frozen=True)
class FailureModeRule:
    """The meaning of one failure mode.

    Attributes:
        name: Name of the failure mode.
        of: The episodes it applies to, ``"failure"``, or ``"any"``: successes too.
        when: The condition, in words.
        advice: One line on where to look first.
    """

    name: str
    of: Literal["failure", "any"]
    when: str
    advice: str


FAILURE_MODES: tuple[FailureModeRule, ...] = (
    FailureModeRule(
        "undone at the end",
        "failure",
        "was done or all but done, and lost that again",
        "Look at what follows success: when the policy stops, lets go, or goes on.",
    ),
    FailureModeRule(
        "never reached",
        "failure",
        "reaches no subgoal and ends far from the first",
        "Look at the approach: does the policy move, and does it find the object?",
    ),
    FailureModeRule(
        "wrong target",
        "failure",
        "reaches no subgoal, but ends near the first",
        "Look at where it goes instead: the camera's calibration, look-alike objects, the goal it is given.",
    ),
    FailureModeRule(
        "object lost",
        "failure",
        "loses a subgoal that it had reached, and does not reach it again",
        "Look at the grasp: when the gripper closes and opens, slips, collisions; add data of holding on.",
    ),
    FailureModeRule(
        "too slow",
        "any",
        "still gains during the last quarter of a failure; a success takes over 1.5 times the task's usual time",
        "Look at its speed: pauses, retries, the time limit.",
    ),
    FailureModeRule(
        "reached and stopped",
        "failure",
        "keeps what it reached, and nothing more happens during the last quarter",
        "Look at where it stops: an unseen state, the precision of the last step, action chunks that cancel out.",
    ),
    FailureModeRule(
        "not clear",
        "failure",
        "none of these",
        "Watch the videos: the curve goes up and down and shows no cause.",
    ),
)
_WITHOUT_NAME = {
    NO_FAILURE_MODE: "Nothing to look at: it succeeds in good time.",
    UNKNOWN_FAILURE_MODE: "The curve is not known well enough; raise the judge's coverage first.",
}


@dataclass(frozen=True)
class SubgoalEvidence:
    """What is known of an episode's subgoals besides the curve.

    Attributes:
        count: Number of the task's subgoals; ``None`` where it has none.
        reached: Number of the furthest one that was ever reached, 0 for none; ``None`` where unknown.
        kept: Number of the furthest one that is still reached at the end; ``None`` where unknown.
    """

    count: int | None = None
    reached: int | None = None
    kept: int | None = None


@dataclass(frozen=True)
class FailureMode:
    """The failure mode of one episode.

    Attributes:
        name: Its name; ``"none"`` of a success in good time, ``"unknown"`` if the curve has unknown samples or fewer
            than two.
        evidence: The features, as in the module's list; empty for ``"unknown"``.
        rule: The condition that held, in words; empty without one.
    """

    name: str
    evidence: Mapping[str, float] = field(default_factory=dict)
    rule: str = ""


def failure_mode(
    progress: ArrayLike,
    times: ArrayLike | None = None,
    *,
    success: bool | None = None,
    subgoals: SubgoalEvidence | None = None,
    usual_s: float = math.nan,
) -> FailureMode:
    """Name what happened in one episode.

    Args:
        progress: The samples in 0..1, shape (T,); NaN where unknown.
        times: Their times, strictly increasing; evenly spaced by default.
        success: Whether the episode succeeded. ``None`` decides by the curve: it did if it reached .99.
            A success is ``"too slow"`` or ``"none"``.
        subgoals: What is known of its subgoals.
        usual_s: Time that the task usually takes, in the unit of ``times``; NaN where unknown.
    """
    curve = np.asarray(progress, dtype=np.float64)
    if curve.ndim != 1:
        raise OptionError(f"failure_mode takes one curve, not an array of shape {curve.shape}.")
    if len(curve) < 2 or np.isnan(curve).any():
        return FailureMode(UNKNOWN_FAILURE_MODE)
    if success is None:
        success = bool(curve.max() >= SUCCESS_PROGRESS)
    known = subgoals or SubgoalEvidence()
    evidence = curve_features(curve, times, known)
    if success:
        slow = done_time(curve, times) > SLOW * usual_s
        name = "too slow" if slow else NO_FAILURE_MODE
    else:
        name = _failure(evidence, float(curve.max()), known.count)
    rule = next((rule.when for rule in FAILURE_MODES if rule.name == name), "")
    return FailureMode(name, evidence, rule)


def _failure(features: Mapping[str, float], highest: float, count: int | None) -> str:
    lost = features["peak"] - features["final"]
    if highest >= DONE or (features["peak"] >= _NEARLY and lost >= _FELL):
        return "undone at the end"
    if not features["reached"]:
        near = count is not None and (features["final"] - features["start"]) * count >= _NEAR
        return "wrong target" if near else "never reached"
    if features["kept"] < features["reached"]:
        return "object lost"
    if features["gain"] >= _GAIN:
        return "too slow"
    return "reached and stopped" if features["range"] <= _REST else "not clear"


def curve_features(curve: FloatArray, times: ArrayLike | None, known: SubgoalEvidence) -> dict[str, float]:
    """Return the features in the module's list, of a known curve."""
    level = curve_profile(curve, times).level
    last = round(_LAST * (len(level) - 1))
    peak, final, parts = float(level.max()), float(level[-1]), known.count or _PARTS
    best = np.maximum.accumulate(level)
    by_curve = math.floor(peak * parts + _ROUNDING)
    reached = by_curve if known.reached is None else known.reached
    kept = math.floor(final * parts + _BELOW)
    if known.kept is not None:
        # A subgoal that is missed by a hair is kept: it trembles at its bound.
        barely = known.kept == reached - 1 and reached - _BELOW <= final * parts < reached
        kept = reached if barely else known.kept
    elif kept >= by_curve:
        kept = max(
            kept, reached
        )  # a judge may be too low throughout: what its curve never had, it did not lose
    return {
        "start": float(level[0]),
        "peak": peak,
        "final": final,
        "gain": float(best[-1] - best[last]),
        "range": float(np.ptp(level[last:])),
        "reached": float(reached),
        "kept": float(kept),
    }


def done_time(progress: ArrayLike, times: ArrayLike | None = None) -> float:
    """Return when a success was done: its first sample of nine tenths of its highest; NaN without a known one."""
    curve = np.asarray(progress, dtype=np.float64)
    if np.isnan(curve).all():
        return math.nan
    clock = np.arange(float(len(curve))) if times is None else np.asarray(times, dtype=np.float64)
    return float(clock[np.flatnonzero(curve >= 0.9 * np.nanmax(curve))[0]] - clock[0])


def failure_mode_advice(name: str) -> str:
    """Return one line on where to look first for a failure mode."""
    known = {rule.name: rule.advice for rule in FAILURE_MODES} | _WITHOUT_NAME
    if name not in known:
        raise UnknownNameError("failure mode", name, known)
    return known[name]
