"""A run turned into training weights, filters and LeRobot files.

:func:`run_frames` brings a run's curves to every frame of the dataset; :func:`rabc`, :func:`rabc_corrected`,
:func:`awr`, :func:`awr_logistic` and :func:`keep_all` weigh the frames; :func:`select_episodes` and
:func:`without_stalls` filter; :func:`distribution` shows what came out before anything is trained; ``files.py``
writes it, and :class:`FrameWeights` reads it back in a PyTorch training loop.
"""

from stepscore.curation.distribution import Distribution, distribution
from stepscore.curation.files import write_episodes, write_progress, write_weights
from stepscore.curation.frames import RunFrames, run_frames
from stepscore.curation.lerobot_command import train_command
from stepscore.curation.sampler import FrameWeights
from stepscore.curation.selection import Selection, select_episodes
from stepscore.curation.weighting import (
    Weighting,
    awr,
    awr_logistic,
    keep_all,
    rabc,
    rabc_corrected,
    without_stalls,
)

__all__ = [
    "Distribution",
    "FrameWeights",
    "RunFrames",
    "Selection",
    "Weighting",
    "awr",
    "awr_logistic",
    "distribution",
    "keep_all",
    "rabc",
    "rabc_corrected",
    "run_frames",
    "select_episodes",
    "train_command",
    "without_stalls",
    "write_episodes",
    "write_progress",
    "write_weights",
]
