"""This package's corrected RA-BC; LeRobot's form is in :mod:`stepscore.curation.rabc_lerobot`.

Three corrections: the end of an episode is kept, the threshold follows the pace, noise is allowed for. In the
published form the threshold of 0.01 is passed by nearly every frame of a short episode and by half of them, at
random, in a long one; and the last frames of an episode, from which the policy learns to stop, weigh 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepscore.curation.frames import RunFrames
from stepscore.curation.rabc_lerobot import check_chunk, ends_of
from stepscore.errors import OptionError, UnknownNameError
from stepscore.types import FloatArray, IntArray

Pace = Literal["episode", "task"]
PACES: tuple[Pace, ...] = ("episode", "task")
PACE_SHARE, DONE_PROGRESS = 0.5, 0.95
"""Share of the steady pace at which a frame counts in full; progress from which the task is done."""


@dataclass(frozen=True)
class CorrectedRabcWeights:
    """Weights in 0..1, NaN where the gain is unknown, with the thresholds and noise behind them.

    Attributes:
        weights: One weight per frame.
        gains: Change of progress over the frame's chunk.
        kappa: The threshold of each episode; NaN for an episode of one frame.
        noise: Standard deviation of the judge's noise that was allowed for.
    """

    weights: FloatArray
    gains: FloatArray
    kappa: FloatArray
    noise: float


def chunk_gains(progress: FloatArray, starts: IntArray, chunk_size: int) -> FloatArray:
    """Return the change of progress over a whole chunk of each frame i.

    It is p[j + h] - p[j] with j = min(i, last - h), h = min(chunk_size, last).

    A frame less than a chunk before the end takes the gain of the episode's last whole chunk, instead of an
    ever shorter one that ends in 0. An episode of one frame has no gain: NaN.
    """
    check_chunk(chunk_size)
    lengths = np.diff(starts)
    last = ends_of(starts)
    reach = np.repeat(np.minimum(chunk_size, lengths - 1), lengths)
    begin = np.minimum(np.arange(len(progress)), last - reach)
    return np.where(reach > 0, progress[begin + reach] - progress[begin], np.nan)


def corrected_rabc_weights(
    frames: RunFrames,
    *,
    chunk_size: int,
    share: float = PACE_SHARE,
    pace: Pace = "episode",
    noise: float | None = None,
    done: float = DONE_PROGRESS,
) -> CorrectedRabcWeights:
    """Return the expected RA-BC weight of every frame, given the judge's noise.

    A steady episode of L frames gains h / (L - 1) over a chunk of h frames. kappa is ``share`` of that. The
    weight rises straight from 0 at no gain to 1 at kappa, and is averaged over the normal distribution of the
    true gain around the measured one, whose deviation is sqrt(2) times the noise of a point. Where noise is
    small against kappa this is the straight rise; where it is large all weights approach 1/2, which is plain
    behaviour cloning: a judge that cannot distinguish frames has no influence.

    A frame at which the task is done cannot gain. It need only not lose: its weight rises from 0 at a loss of
    kappa to 1 at no loss.

    Args:
        frames: From :func:`run_frames`.
        chunk_size: The policy's ``chunk_size``, in frames.
        share: Share of the steady pace that counts in full.
        pace: L is the ``episode``'s own length, so that only its uneven parts lose weight; or the ``task``'s,
            the median length of its episodes without a failure label, so that slow episodes lose weight too.
        noise: Standard deviation of the judge's noise on one point; ``None`` estimates it from the curves.
        done: Progress from which the task is done; see :func:`done_levels`.
    """
    if pace not in PACES:
        raise UnknownNameError("pace", pace, PACES)
    if not 0 < share < np.inf:
        raise OptionError(f"share is {share}; it must be above 0 and finite.")
    sigma = frames.noise if noise is None else noise
    sigma = 0.0 if np.isnan(sigma) else sigma
    if not 0 <= sigma < np.inf:
        raise OptionError(f"noise is {noise}; it must be a standard deviation, 0 or above.")
    gains = chunk_gains(frames.progress, frames.starts, chunk_size)
    lengths = frames.lengths
    reference = lengths if pace == "episode" else task_lengths(frames)
    reach = np.minimum(chunk_size, lengths - 1)
    kappa = np.where(reach > 0, share * reach / np.maximum(reference - 1, 1), np.nan)
    per_frame = np.repeat(kappa, lengths)
    finished = frames.progress >= np.repeat(done_levels(frames, done, slack=2 * sigma), lengths)
    ratio = gains / per_frame + finished
    return CorrectedRabcWeights(expected_ramp(ratio, np.sqrt(2.0) * sigma / per_frame), gains, kappa, sigma)


def expected_ramp(ratio: FloatArray, deviation: FloatArray) -> FloatArray:
    """Return E[clip(X, 0, 1)] for X normal around ``ratio``; clip(ratio, 0, 1) where the deviation is 0.

    With a = -ratio / deviation, b = a + 1 / deviation, and Phi, phi the normal distribution and density:
    ratio (Phi(b) - Phi(a)) - deviation (phi(b) - phi(a)) + 1 - Phi(b).
    """
    from scipy.special import ndtr

    plain = np.clip(ratio, 0.0, 1.0)
    noisy = deviation > 1e-9
    m, s = ratio[noisy], deviation[noisy]
    a, b = -m / s, (1.0 - m) / s
    density = (np.exp(-(b**2) / 2) - np.exp(-(a**2) / 2)) / np.sqrt(2 * np.pi)
    plain[noisy] = np.clip(m * (ndtr(b) - ndtr(a)) - s * density + ndtr(-b), 0.0, 1.0)
    return np.asarray(plain, dtype=np.float64)


def done_levels(frames: RunFrames, done: float = DONE_PROGRESS, *, slack: float = 0.0) -> FloatArray:
    """Return the progress from which each episode's task is done.

    ``done`` for an episode without a success label; for a success, no more than the highest progress of the
    episode less ``slack``, since a judge may never reach ``done``; for a failure, infinity: the task is not
    done at its end.
    """
    if not 0 < done <= 1:
        raise OptionError(f"done is {done}; it must be a progress above 0 and at most 1.")
    levels = np.full(len(frames.episodes), done)
    for i, (episode, start, end) in enumerate(
        zip(frames.episodes, frames.starts, frames.starts[1:], strict=False)
    ):
        if episode.success is False:
            levels[i] = np.inf
        elif episode.success:
            known = frames.progress[start:end]
            levels[i] = min(done, np.max(known[~np.isnan(known)], initial=-np.inf) - slack)
    # A success without a known point keeps the default level.
    return np.where(np.isneginf(levels), done, levels)


def task_lengths(frames: RunFrames) -> FloatArray:
    """Return the median length of each episode's task, over its episodes without a failure label if there are any."""
    lengths: dict[str, list[int]] = defaultdict(list)
    not_failed: dict[str, list[int]] = defaultdict(list)
    for episode in frames.episodes:
        lengths[episode.task].append(episode.n_frames)
        if episode.success is not False:
            not_failed[episode.task].append(episode.n_frames)
    medians = {task: float(np.median(not_failed.get(task) or all_of)) for task, all_of in lengths.items()}
    return np.array([medians[episode.task] for episode in frames.episodes], dtype=np.float64)
