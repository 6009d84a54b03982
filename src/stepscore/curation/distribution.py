"""How weights spread over frames and episodes, with warnings where training with them would change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.curation.weighting import Weighting
from stepscore.types import FloatArray, IntArray

HISTOGRAM_BINS = 10
MAX_EQUAL_SHARE, MAX_EFFECTIVE_SHARE = 0.95, 0.99
"""From this share of weights within 1 % of the median, or this effective share, weighting changes nothing."""

MAX_ZERO_SHARE_AT_END = 0.5
"""Share of weights 0 in the episodes' last chunk from which a policy may not learn to stop."""


@dataclass(frozen=True)
class EpisodeWeight:
    """The mean weight of one episode's known frames, NaN if none is known, relative to that of all."""

    id: str
    mean: float
    relative: float
    success: bool | None


@dataclass(frozen=True)
class WeightDistribution:
    """A summary of the weights. Shares are of the known frames, except ``unknown``.

    Attributes:
        n: Number of frames.
        unknown: Share of frames whose weight is unknown.
        at_zero: Share at 0.
        at_one: Share at 1.
        at_most: Share at the largest weight there is.
        mean: Mean weight.
        effective: Effective sample size over n, (sum w)^2 / (n sum w^2).
        edges: Bounds of the histogram's bins, from 0 to the largest weight rounded up to halves, at least 1.
        counts: Frames in each bin.
        episodes: Every episode with its mean weight, the highest first, the unknown last.
        warnings: Sentences a user should read before training; may be empty.
    """

    n: int
    unknown: float
    at_zero: float
    at_one: float
    at_most: float
    mean: float
    effective: float
    edges: FloatArray
    counts: IntArray
    episodes: tuple[EpisodeWeight, ...]
    warnings: tuple[str, ...]

    def row(self) -> dict[str, Any]:
        """Return the summary as JSON values."""
        names = ("n", "unknown", "at_zero", "at_one", "at_most", "mean", "effective")
        return {name: getattr(self, name) for name in names} | {
            "histogram": {"edges": self.edges.tolist(), "counts": self.counts.tolist()},
            "episodes": [vars(episode) for episode in self.episodes],
            "warnings": list(self.warnings),
        }


def weight_distribution(weighting: Weighting) -> WeightDistribution:
    """Summarize the weights over frames and episodes, with warnings where they would not help training."""
    weights = weighting.weights
    known = weights[~np.isnan(weights)]
    most = float(np.max(known, initial=0.0))
    # A round end, so that the bins of weights up to 1.98 read 0.2, 0.4, ...
    counts, edges = np.histogram(known, bins=HISTOGRAM_BINS, range=(0.0, max(1.0, np.ceil(2 * most) / 2)))
    return WeightDistribution(
        n=len(weights),
        unknown=_mean(np.isnan(weights)),
        at_zero=_mean(known == 0),
        at_one=_mean(np.isclose(known, 1.0, rtol=0, atol=1e-9)),
        at_most=_mean(known >= most * (1 - 1e-9)),
        mean=_mean(known),
        effective=_effective(known),
        edges=edges,
        counts=counts.astype(np.int64),
        episodes=_episodes(weighting, _mean(known)),
        warnings=tuple(_warnings(weighting, known)),
    )


def _episodes(weighting: Weighting, overall: float) -> tuple[EpisodeWeight, ...]:
    frames = weighting.frames
    weights = []
    for episode, start, end in zip(frames.episodes, frames.starts, frames.starts[1:], strict=False):
        own = weighting.weights[start:end]
        mean = _mean(own[~np.isnan(own)])
        relative = mean / overall if overall > 0 else np.nan
        weights.append(EpisodeWeight(episode.id, mean, relative, episode.success))
    return tuple(sorted(weights, key=lambda e: (np.isnan(e.mean), -e.mean, e.id)))


def _warnings(weighting: Weighting, known: FloatArray) -> Iterator[str]:
    facts, options = weighting.facts, weighting.options
    if not len(known):
        yield "No weight is known, so there is nothing to weight by. Does the run have curves?"
        return
    if not np.any(known > 0):
        yield "Every known weight is 0: the policy would learn nothing."
        return
    equal, effective = _mean(np.abs(known - np.median(known)) <= 0.01 * np.median(known)), _effective(known)
    idle = equal >= MAX_EQUAL_SHARE or effective >= MAX_EFFECTIVE_SHARE
    if weighting.method != "filter" and idle:
        yield (
            f"These weights do next to nothing: {100 * equal:.1f} % of them are within 1 % of the median, and the "
            f"effective sample size is {100 * effective:.1f} % of the frames: training is plain behaviour "
            f"cloning. {_remedy(weighting)}"
        )
    noise, kappa = facts.get("noise", np.nan), options.get("kappa", np.nan)
    if weighting.form == "lerobot" and np.sqrt(2) * noise > kappa:
        yield (
            f"The judge's noise changes a gain by {np.sqrt(2) * noise:.3f}, more than kappa = {kappa:g}: many "
            "weights are determined by noise. Raise -W kappa, or choose episodes with --method filter."
        )
    if facts.get("last chunk at 0", np.nan) >= MAX_ZERO_SHARE_AT_END:
        yield (
            f"{100 * facts['last chunk at 0']:.0f} % of the frames in the last chunk of an episode weigh 0; "
            "the policy may not learn to stop. --method filter keeps them."
        )
    unknown = _mean(np.isnan(weighting.weights))
    if weighting.by_lerobot and unknown > 0.05:
        yield (
            f"{100 * unknown:.1f} % of the frames are unknown, and LeRobot gives each the weight "
            f"{weighting.unknown:g}. -W fallback-weight=0 leaves them out."
        )


def _remedy(weighting: Weighting) -> str:
    if weighting.form == "topreward":
        return "Most advantages are at the cap or near 0: try -W advantage=progress."
    if weighting.form == "lerobot":
        return "Nearly every chunk gains more than kappa: raise -W kappa, or try --method filter."
    return "The judge's curves are too even to distinguish frames; choose episodes with --top instead."


def _effective(known: FloatArray) -> float:
    squares = float(np.sum(known**2))
    return float(np.sum(known) ** 2 / (len(known) * squares)) if squares else np.nan


def _mean(values: np.ndarray[Any, Any]) -> float:
    return float(np.mean(values)) if len(values) else np.nan
