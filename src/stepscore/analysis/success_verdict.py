"""Success by judge, and when a task counts as done.

========================  ====================================================================  ===============
rule                      yes at                                                                calibrated
========================  ====================================================================  ===============
:data:`BY_PROBABILITY`    a success probability of 0.5                                          yes
:data:`BY_SCORE`          a success score of 0.5, the judge's published rule                    no
:data:`BY_PROGRESS`       a highest progress of 0.99, for judges and files without a score      no
========================  ====================================================================  ===============

A score that is not a probability (``gvl``'s rank correlation, a similarity) gives no verdict until it is
calibrated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from stepscore.analysis.table_rows import EpisodeRow, curves_by_episode
from stepscore.metrics import CurveMetric, opd_metric
from stepscore.metrics.opd import DONE_PROGRESS
from stepscore.runs import Run
from stepscore.types import FloatArray

BY_PROBABILITY, BY_SCORE, BY_PROGRESS = "probability", "score", "progress"

WITHOUT_VERDICT = frozenset({"gvl", "similarity"})
"""Judges whose success score ranks episodes, but has no threshold."""


class MeasuredEpisodes(Protocol):
    """The counts of measured episodes that a note needs."""

    @property
    def left_out(self) -> int:
        """Number of episodes left out because a map was fitted on them."""

    @property
    def fitted_on(self) -> int | None:
        """Number of episodes that a map was fitted on; ``None`` if no map says."""

    def __len__(self) -> int: ...


class SuccessVerdict(NamedTuple):
    """A judge's verdict on an episode: 1, 0 or NaN, and the rule behind it, if any."""

    value: float
    rule: str | None


def success_verdict(row: Mapping[str, Any], values: FloatArray, success_threshold: float) -> SuccessVerdict:
    """Return a judge's verdict on an episode.

    Args:
        row: Of ``judgements``; success_probability and success_calibrated may be missing.
        values: The episode's progress; empty without a curve.
        success_threshold: Highest progress that counts as success without a score.
    """
    if row.get("success_calibrated"):
        probability = row["success_probability"]
        return SuccessVerdict(np.nan if probability is None else float(probability >= 0.5), BY_PROBABILITY)
    if row["judge"] in WITHOUT_VERDICT:
        return SuccessVerdict(np.nan, None)
    if row["success_score"] is not None:
        return SuccessVerdict(float(row["success_score"] >= 0.5), BY_SCORE)
    if not len(values) or np.any(np.isnan(values)):
        return SuccessVerdict(np.nan, None)
    return SuccessVerdict(float(np.max(values) >= success_threshold), BY_PROGRESS)


def success_maps(run: Run) -> list[Mapping[str, Any]]:
    """Return the success maps in a run's protocol; a cascade can have several."""
    return list(_maps_in(run.protocol.content))


def map_id(run: Run) -> str | None:
    """Return a hash of the success maps in a run's protocol; ``None`` without any."""
    found = success_maps(run)
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:16] if found else None


def success_name(rules: set[str | None]) -> str:
    """Return the name of success by judge in tables, by the rules behind it."""
    known = rules - {None}
    if known <= {BY_PROBABILITY}:
        return "success by judge"
    if known == {BY_PROGRESS}:
        return "success by judge, by progress"
    return "success by judge, " + ("partly " if BY_PROBABILITY in known else "") + "uncalibrated"


def map_holds(row: Mapping[str, Any], maps: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether success maps fit the success mode of an episode, if that is known."""
    return row["success_mode"] is None or {found["mode"] for found in maps} <= {row["success_mode"]}


def other_mode_note(runs: Iterable[Run], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return for how many episodes the success map is not used because of their success mode; empty for none."""
    maps = {str(run.path): found for run in runs if (found := success_maps(run))}
    dropped = [row for row in rows if not map_holds(row, maps.get(row["run"], ()))]
    if not dropped:
        return ""
    mode = dropped[0]["success_mode"]
    other = "holds" if mode == "ever" else "ever"
    words = {"ever": "at some time (ever)", "holds": "at the end (holds)"}
    return (
        f"Success by judge is uncalibrated in {len(dropped)} of {len(rows)} episodes: the judge's success map is for "
        f"success {words[other]}, and their labels state success {words[mode]}. Judge them into another folder with "
        f"labels of the mode {other} (--labels FILE; answers come from the cache), or fit a map for {mode}: "
        f"stepscore calibrate RUN --success-mode {mode} -o map.json"
    )


def was_fitted_on(row: Mapping[str, Any]) -> bool | None:
    """Return whether the judge's maps were fitted on this episode; ``None`` if unknown."""
    facts = json.loads(row["facts"]) if row.get("facts") else {}
    found = facts.get("fitted_on")
    return None if found is None else bool(found)


def fitted_on_note(metrics: MeasuredEpisodes) -> str:
    """Return how many episodes a calibration map was fitted on; empty if no map says."""
    if metrics.left_out:
        return f"{metrics.left_out} episodes that the calibration map was fitted on are left out."
    if metrics.fitted_on is None:
        return ""
    if not metrics.fitted_on:
        return f"None of the {len(metrics)} episodes is one that the calibration map was fitted on."
    return (
        f"The calibration map was fitted on {metrics.fitted_on} of the {len(metrics)} episodes; "
        "--held-out leaves them out."
    )


def _maps_in(value: object) -> list[Mapping[str, Any]]:
    """Return the success maps under any key ``calibration``, sorted by key."""
    found: list[Mapping[str, Any]] = []
    if isinstance(value, Mapping):
        for key in sorted(value):
            inner = value[key]
            if (
                key == "calibration"
                and isinstance(inner, Mapping)
                and isinstance(inner.get("success"), Mapping)
            ):
                found.append(inner["success"])
            else:
                found += _maps_in(inner)
    return found


SUCCESS_PROBABILITY = "success_probability"
"""Channel of a calibrated judge's probability that the task is done."""


@dataclass(frozen=True, slots=True)
class DoneRule:
    """When ``robust`` counts a sample as done: by the probability in ``channel``, else from progress ``at``."""

    channel: str | None
    at: float


def done_rule(run: Run, done_at: float | None = None) -> DoneRule:
    """Return a run's rule: by ``done_at``, else its success probability, else its calibration map."""
    if done_at is not None:
        return DoneRule(None, done_at)
    has_channel = SUCCESS_PROBABILITY in run.channels
    judge = run.protocol.content["judge"]
    calibration = judge["options"].get("calibration") if isinstance(judge, Mapping) else None
    stated = calibration.get("done_at") if isinstance(calibration, Mapping) else None
    # A map that states 0 says that every sample is done, which separates nothing.
    return DoneRule(SUCCESS_PROBABILITY if has_channel else None, float(stated) if stated else DONE_PROGRESS)


def robust_opd(
    runs: Sequence[Run], channel: str, done_at: float | None
) -> Callable[[EpisodeRow], CurveMetric]:
    """Return the function that gives an episode's OPD metrics by the rule of its run."""
    rules = {str(run.path): done_rule(run, done_at) for run in runs}
    probabilities = {
        (str(run.path), name): values
        for run in runs
        if (by := rules[str(run.path)].channel) is not None
        for name, (_, values) in curves_by_episode(run.curves(), by)
        if np.any(~np.isnan(values))
    }

    def opd_of(row: EpisodeRow) -> CurveMetric:
        at = rules[row["run"]].at if channel == "progress" or done_at is not None else None
        probability = probabilities.get((row["run"], row["episode_id"]))
        return opd_metric("robust", success_probability=probability, done_at=at)

    return opd_of
