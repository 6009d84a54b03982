"""The forms of a reward made of progress: one value for each action of a recorded episode.

Frame i shows the state before action i, so that the reward of action i needs the progress of the frames i and i + 1;
that of the last action depends on how the episode ended. Unknown progress (NaN) makes rewards that need it unknown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from stepscore.errors import OptionError
from stepscore.types import FloatArray

CLIP, EVERY = 0.2, 3
"""ProcVLM's largest change of progress, and the steps between two looks at it."""


def potential_reward(
    progress: ArrayLike, *, gamma: float = 0.99, terminated: bool | None = None
) -> FloatArray:
    """Return gamma phi' - phi: shaping that changes no optimal policy (Ng, Harada and Russell 1999).

    Args:
        progress: phi of each frame, shape (n,).
        gamma: The discount of the learner.
        terminated: Whether the last action ended the task: phi is 0 after it, so its reward is -phi. ``False``
            (a time limit) and ``None`` (not known): what comes after it was not recorded, and its reward is unknown.
    """
    phi = _series(progress)
    if not 0 < gamma <= 1:
        raise OptionError(f"gamma must be above 0 and at most 1, got {gamma}.")
    after = np.append(phi[1:], 0.0 if terminated else np.nan)[: len(phi)]
    return gamma * after - phi


def relative_reward(progress: ArrayLike, *, clip: float = CLIP, every: int = EVERY) -> FloatArray:
    """Return ProcVLM's reward: the change of progress over ``every`` steps, clipped, at the last of them; else 0.

    Args:
        progress: Progress of each frame, shape (n,).
        clip: Largest change, in either direction.
        every: Steps between two looks at progress.
    """
    phi = _series(progress)
    if not clip > 0:
        raise OptionError(f"clip must be above 0, got {clip}.")
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise OptionError(f"every must be an integer from 1, got {every}.")
    rewards = np.zeros(len(phi))
    looks = np.append(phi, np.nan)[::every]  # the state after the last action was not recorded
    rewards[every - 1 :: every] = np.clip(np.diff(looks), -clip, clip)
    return rewards


def terminal_reward(n: int, *, success: bool | None) -> FloatArray:
    """Return 1 at the last of n actions of a success, and 0 elsewhere; the last is unknown where success is."""
    rewards = np.zeros(n)
    if n:
        rewards[-1] = np.nan if success is None else float(success)
    return rewards


def _series(values: ArrayLike) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise OptionError(f"Progress must be one value for each frame, got shape {array.shape}.")
    return array
