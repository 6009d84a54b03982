"""Decide which success verdicts to accept automatically, and which episodes to send to a person.

Uses the calibrated success probability p of labelled episodes in scenes that the calibration map was not
fitted on. The threshold on the confidence, max(p, 1 - p), is the lowest at which accepted verdicts are wrong
in at most ``max_error``; it is chosen on nine tenths of the scenes and applied to the last tenth.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes, task_of
from stepscore.analysis.estimates import GroupEstimate
from stepscore.analysis.success_verdict import BY_PROBABILITY, was_fitted_on
from stepscore.analysis.table_rows import EpisodeRow
from stepscore.errors import OptionError
from stepscore.metrics import accept_threshold, balanced_ece, reliability, risk_coverage
from stepscore.metrics.stats import rate_estimate, statistic_estimate
from stepscore.runs import Run
from stepscore.types import Estimate, FloatArray

FOLDS = 10
MIN_EPISODES = 20
"""Fewest held-out episodes for a conclusion."""
BINS = 10
SHARES = tuple(share / 10 for share in range(10, 0, -1))
"""Shares of episodes at which the error is reported."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Episodes with a probability from ``low`` to ``high``: its mean, and the share that succeeded."""

    low: float
    high: float
    predicted: float
    labelled: Estimate


@dataclass(frozen=True)
class AcceptedShare:
    """The surest verdicts: their share of all, the lowest confidence among them, and the share that is wrong."""

    coverage: float
    confidence: float
    risk: Estimate


@dataclass(frozen=True)
class Abstention:
    """What to accept of one judge.

    Attributes:
        n: Labelled episodes with a calibrated probability, in scenes that the map was not fitted on.
        left_out: Labelled episodes left out because the map was fitted on them or their scene.
        bins: The reliability diagram without empty bins.
        balanced_ece: With successes and failures weighed equally, as the map weighs them.
        shares: The error among the surest verdicts, from all of them to the surest tenth.
        threshold: Confidence to require of future verdicts, chosen on all episodes; infinite if none
            suffices.
        accepted: Share accepted by thresholds chosen on other scenes.
        error: Share of these that are wrong.
    """

    judge: str
    max_error: float
    n: int
    left_out: int
    bins: tuple[ReliabilityBin, ...]
    ece: Estimate
    balanced_ece: Estimate
    shares: tuple[AcceptedShare, ...]
    threshold: float
    accepted: Estimate
    error: Estimate

    @property
    def sentence(self) -> str:
        """Return what to do with this judge's verdicts."""
        allowed = f"{100 * self.max_error:g} %"
        if self.n < MIN_EPISODES:
            return (
                f"What to accept is unknown: {self.n} labelled episodes of scenes that the map was not fitted on "
                f"have a calibrated probability; {MIN_EPISODES} are needed."
            )
        if math.isinf(self.threshold) or not self.accepted.value:
            return f"Send every episode to a person: no confidence keeps errors at {allowed} (n {self.n})."
        doubt = (
            f" So few labels do not show that errors stay at the {allowed} asked for."
            if not self.error.hi <= self.max_error
            else ""
        )
        return (
            f"Accept {_percent(self.accepted)} of the episodes automatically, those of which the judge is at least "
            f"{self.threshold:.2f} sure, at an error of {_percent(self.error)}, and send the other "
            f"{100 * (1 - self.accepted.value):.1f} % to a person ({self.n} episodes, {self.accepted.clusters} "
            f"scenes).{doubt}"
        )

    def rows(self) -> Iterator[GroupEstimate]:
        """Iterate over every number as a row of ``metrics --json``."""
        group = {"judge": self.judge}
        yield GroupEstimate(group, "abstention:accepted", self.accepted)
        yield GroupEstimate(group, "abstention:error", self.error)
        yield GroupEstimate(group, "abstention:confidence", _number(self.threshold, self.n))
        yield GroupEstimate(group, "abstention:ECE", self.ece)
        yield GroupEstimate(group, "abstention:balanced ECE", self.balanced_ece)
        for share in self.shares:
            part = {**group, "coverage": f"{share.coverage:.3f}"}
            yield GroupEstimate(part, "abstention:risk", share.risk)
            yield GroupEstimate(part, "abstention:confidence", _number(share.confidence, share.risk.n))
        for one in self.bins:
            part = {**group, "bin": f"{one.low:.1f}..{one.high:.1f}"}
            yield GroupEstimate(part, "abstention:predicted", _number(one.predicted, one.labelled.n))
            yield GroupEstimate(part, "abstention:labelled", one.labelled)


def abstention(runs: Run | Sequence[Run], *, max_error: float = 0.05, seed: int = 0) -> list[Abstention]:
    """Return what to accept of each calibrated judge; runs of one protocol are combined."""
    if not 0 < max_error < 0.5:
        raise OptionError(f"max-error must be above 0 and below 0.5, e.g. 0.05, got {max_error}.")
    together: dict[str, list[Run]] = {}
    for run in [runs] if isinstance(runs, Run) else runs:
        together.setdefault(run.protocol.hash, []).append(run)
    found = []
    for same in together.values():
        metrics = measure_episodes(same)
        if BY_PROBABILITY in metrics.verdict_rules:
            found.append(_abstention(same[0].judge, metrics, max_error, seed))
    return found


def _abstention(judge: str, metrics: EpisodeMetrics, max_error: float, seed: int) -> Abstention:
    fitted = {_unit(row) for row in metrics.episodes if was_fitted_on(row)}
    labels = metrics.values["success_label"]
    given = np.array([_probability(metrics, i) for i in range(len(metrics))], dtype=np.float64)
    known = ~np.isnan(given + labels)
    held_out = known & np.array([_unit(row) not in fitted for row in metrics.episodes], dtype=bool)
    rows = [metrics.episodes[i] for i in np.flatnonzero(held_out)]
    p, truth = given[held_out], labels[held_out]
    groups: dict[str, Any] = {
        "clusters": [row["pair"] for row in rows],
        "strata": [task_of(row) for row in rows],
    }
    wrong = ((p >= 0.5) != (truth == 1)).astype(np.float64)
    accepted = _accepted([_unit(row) for row in rows], p, truth, max_error, seed)

    def rate(values: FloatArray, chosen: np.ndarray[Any, Any]) -> Estimate:
        places = np.flatnonzero(chosen)
        inside: dict[str, Any] = {name: [labels_of[i] for i in places] for name, labels_of in groups.items()}
        return rate_estimate(values[places], **inside)

    def over_all(func: Callable[[FloatArray, FloatArray], float]) -> Estimate:
        return statistic_estimate(func, (p, truth), **groups)

    return Abstention(
        judge,
        max_error,
        len(rows),
        int(known.sum()) - len(rows),
        _bins(p, truth, rate),
        over_all(lambda predicted, true: reliability(predicted, true, bins=BINS).ece),
        over_all(balanced_ece),
        _shares(p, truth, wrong, rate),
        accept_threshold(p, truth, max_error),
        rate(accepted.astype(np.float64), np.ones(len(rows), dtype=bool)),
        rate(wrong, accepted),
    )


def _probability(metrics: EpisodeMetrics, place: int) -> float:
    found = metrics.episodes[place]["success_probability"]
    return math.nan if found is None or metrics.verdict_rules[place] != BY_PROBABILITY else float(found)


def _unit(row: EpisodeRow) -> str:
    """Return what must stay in one fold: the scene, else the episode."""
    scene = row["pair"]
    return f"episode\0{row['episode_id']}" if scene is None else f"scene\0{task_of(row)}\0{scene}"


def _accepted(
    units: Sequence[str], p: FloatArray, truth: FloatArray, max_error: float, seed: int
) -> np.ndarray[Any, Any]:
    """Return whether each verdict is accepted by a threshold chosen without its scene."""
    order = sorted(set(units), key=lambda unit: hashlib.sha256(f"{seed}\0{unit}".encode()).digest())
    fold_of = {unit: number % FOLDS for number, unit in enumerate(order)}
    fold = np.array([fold_of[unit] for unit in units], dtype=np.int64)
    accepted = np.zeros(len(units), dtype=bool)
    for number in range(min(FOLDS, len(order))):
        own = fold == number
        border = accept_threshold(p[~own], truth[~own], max_error)
        accepted[own] = np.maximum(p[own], 1 - p[own]) >= border  # NaN and infinity accept nothing
    return accepted


Rate = Callable[[FloatArray, Any], Estimate]


def _bins(p: FloatArray, truth: FloatArray, rate: Rate) -> tuple[ReliabilityBin, ...]:
    if not len(p):
        return ()
    found = reliability(p, truth, bins=BINS)
    places = np.minimum(np.searchsorted(found.edges, p, side="right") - 1, BINS - 1)
    return tuple(
        ReliabilityBin(
            float(found.edges[i]),
            float(found.edges[i + 1]),
            float(found.predicted[i]),
            rate(truth, places == i),
        )
        for i in range(BINS)
        if found.n[i]
    )


def _shares(p: FloatArray, truth: FloatArray, wrong: FloatArray, rate: Rate) -> tuple[AcceptedShare, ...]:
    if not len(p):
        return ()
    found, sure = risk_coverage(p, truth), np.maximum(p, 1 - p)
    # Equal confidences are accepted together: the smallest share that is at least the one wanted.
    places = dict.fromkeys(int(np.argmax(found.coverage >= share - 1e-9)) for share in SHARES)
    return tuple(
        AcceptedShare(
            float(found.coverage[i]),
            float(found.confidence[i]),
            rate(wrong, sure >= found.confidence[i]),
        )
        for i in places
    )


def _percent(estimate: Estimate) -> str:
    ends = "" if math.isnan(estimate.lo) else f" [{100 * estimate.lo:.1f}, {100 * estimate.hi:.1f}]"
    return f"{100 * estimate.value:.1f} %{ends}"


def _number(value: float, n: int) -> Estimate:
    known = value if math.isfinite(value) else math.nan
    return Estimate(known, math.nan, math.nan, n, n, 1.0 if n else math.nan, "as fitted")
