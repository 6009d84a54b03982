"""Variants of a labelled video: cut, held, paused, thinned, played backwards or again, each with its own labels.

A model that sees only recordings as they are learns what their length says: rollouts end soon after success. In a
variant neither the number of frames nor the clock says anything, and what is true of a frame stays true of it
wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from stepscore.episodes.perturbations import Scheduled, reordered
from stepscore.training.vlm.data.dataset import LabelledVideo
from stepscore.types import FloatArray, IntArray

RECORDED_PROB = 0.35
"""Probability that a video is shown as recorded."""
MAX_HELD_S, MAX_PAUSE_S = 3.0, 1.5
"""Longest time in seconds for which the last frame is held, and longest pause on the way."""
MAX_FRAMES = 96
"""Most frames of a variant; a longer one is cut."""
PACE = (0.5, 2.0)
"""Range of the factor on the timestamps of a slowed or hurried video."""
JITTER = 0.3
"""Largest change of a timestamp, as a share of the time between two frames."""

Order = Callable[[LabelledVideo, np.random.Generator], IntArray]


def vary(video: LabelledVideo, rng: np.random.Generator) -> LabelledVideo:
    """Return the video in a random variant, or as recorded.

    Frames come in the order of one of ``ORDERS``, at timestamps that may be stretched or jittered.

    Args:
        video: The video.
        rng: Random generator.
    """
    if rng.random() < RECORDED_PROB or len(video) < 2:
        return video
    names = list(ORDERS)
    name = names[int(rng.integers(len(names)))]
    order = ORDERS[name](video, rng)[:MAX_FRAMES]
    shown = shown_as(video, order, _timestamps(len(order), _frame_s(video), rng))
    return replace(shown, again_from=len(video)) if name == "again" and len(order) > len(video) else shown


def shown_as(video: LabelledVideo, frames: IntArray, times: FloatArray) -> LabelledVideo:
    """Return the video with these of its frames at these times, and the labels of what is shown.

    Args:
        video: The video.
        frames: Indices of its frames, in the order shown.
        times: Timestamps in seconds, increasing from 0.
    """
    schedule = Scheduled(tuple(frames.tolist()), tuple(times.tolist()))
    return replace(
        video,
        episode=reordered(video.episode, schedule),
        views={name: view[frames] for name, view in video.views.items()},
        times=times,
        potential=video.potential[frames],
        success=video.success[frames],
        subgoals_true=video.subgoals_true[frames],
        states=video.states[frames],
    )


def _frame_s(video: LabelledVideo) -> float:
    return float(video.times[-1]) / (len(video) - 1)


def _timestamps(n: int, frame_s: float, rng: np.random.Generator) -> FloatArray:
    """Return n timestamps from 0: evenly, stretched, or jittered."""
    pace = rng.uniform(*PACE) if rng.random() < 0.4 else 1.0
    steps = np.full(n, frame_s * pace)
    if rng.random() < 0.3:
        steps *= rng.uniform(1 - JITTER, 1 + JITTER, n)
    steps[0] = 0.0
    return np.cumsum(steps)


def _cut(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    return np.arange(int(rng.integers(1, len(video) + 1)))


def _cut_at_success(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    """Cut in the first frame of success or a few frames after it; where there is none, anywhere."""
    done = np.flatnonzero(video.success == 1.0)
    if not len(done):
        return _cut(video, rng)
    return np.arange(min(len(video), int(done[0]) + 1 + int(rng.integers(0, 5))))


def _held(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    part = np.arange(len(video)) if rng.random() < 0.5 else _cut_at_success(video, rng)
    copies = int(rng.uniform(0, MAX_HELD_S) / _frame_s(video))
    return np.append(part, np.full(copies, part[-1]))


def _paused(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    at = int(rng.integers(len(video)))
    copies = int(rng.uniform(0, MAX_PAUSE_S) / _frame_s(video))
    return np.insert(np.arange(len(video)), at, np.full(copies, at))


def _thinned(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    every = int(rng.integers(2, 5))
    return np.arange(int(rng.integers(every)), len(video), every) if len(video) > every else np.arange(1)


def _backwards(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    return np.arange(len(video))[::-1].copy()


def _there_and_back(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    last, least = sorted(rng.integers(0, len(video), 2).tolist(), reverse=True)
    back = np.arange(last - 1, least - 1, -1)
    on = np.arange(least + 1, len(video)) if rng.random() < 0.5 else np.arange(0)
    return np.concatenate([np.arange(last + 1), back, on]).astype(np.int64)


def _again(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    return np.tile(np.arange(len(video)), 2)


def _shuffled(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    parts = np.array_split(np.arange(len(video)), min(len(video), int(rng.integers(3, 9))))
    return np.concatenate([parts[number] for number in rng.permutation(len(parts))])


def _frozen(video: LabelledVideo, rng: np.random.Generator) -> IntArray:
    at = 0 if rng.random() < 0.4 else int(rng.integers(len(video)))
    return np.full(int(rng.integers(2, max(3, len(video)))), at)


ORDERS: Mapping[str, Order] = {
    "cut": _cut,
    "cut at success": _cut_at_success,
    "held": _held,
    "paused": _paused,
    "thinned": _thinned,
    "backwards": _backwards,
    "there and back": _there_and_back,
    "again": _again,
    "shuffled": _shuffled,
    "frozen": _frozen,
}
"""How a variant orders the frames of a video, each as likely."""
