"""A run turned into training weights, filters and LeRobot files.

:func:`run_frames` brings a run's curves to every frame of the dataset; :func:`rabc`, :func:`rabc_corrected`,
:func:`awr`, :func:`awr_logistic` and :func:`keep_all` weigh the frames; :func:`select_episodes` and
:func:`without_stalls` filter; :func:`distribution` shows what came out before anything is trained; ``files.py``
writes it, and :class:`FrameWeights` reads it back in a PyTorch training loop.
"""

from stepscore.curation.distribution import Distribution as Distribution
from stepscore.curation.distribution import distribution as distribution
from stepscore.curation.files import write_episodes as write_episodes
from stepscore.curation.files import write_progress as write_progress
from stepscore.curation.files import write_weights as write_weights
from stepscore.curation.frames import RunFrames as RunFrames
from stepscore.curation.frames import run_frames as run_frames
from stepscore.curation.sampler import FrameWeights as FrameWeights
from stepscore.curation.selection import select_episodes as select_episodes
from stepscore.curation.weighting import Weighting as Weighting
from stepscore.curation.weighting import awr as awr
from stepscore.curation.weighting import awr_logistic as awr_logistic
from stepscore.curation.weighting import keep_all as keep_all
from stepscore.curation.weighting import rabc as rabc
from stepscore.curation.weighting import rabc_corrected as rabc_corrected
from stepscore.curation.weighting import without_stalls as without_stalls

__all__ = [
    "Distribution",
    "FrameWeights",
    "RunFrames",
    "Weighting",
    "awr",
    "awr_logistic",
    "distribution",
    "keep_all",
    "rabc",
    "rabc_corrected",
    "run_frames",
    "select_episodes",
    "without_stalls",
    "write_episodes",
    "write_progress",
    "write_weights",
]
