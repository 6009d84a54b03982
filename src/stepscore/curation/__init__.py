"""A run turned into training weights, filters and LeRobot files.

:func:`run_frames` interpolates a run's curves to every frame of the dataset. Two functions weigh the frames:

================================ ==========================================================================
:func:`lerobot_rabc`             RA-BC exactly as LeRobot computes it from a progress file
:func:`topreward_awr`            advantage weights after TOPReward, in each of their readings
================================ ==========================================================================

:func:`select_episodes`, :func:`keep_all` and :func:`without_stalls` filter, :func:`removed_episodes` lists what is
gone and :func:`write_kept_dataset` writes a LeRobot dataset of the rest; :func:`weight_distribution` reports how
the weights spread before anything is trained; :func:`write_lerobot_progress`, :func:`write_weights`,
:func:`write_static_weights` and :func:`write_episode_list` write files; :class:`FrameWeights` reads a table back in a
"""

from stepscore.curation.distribution import WeightDistribution, weight_distribution
from stepscore.curation.files import (
    METADATA,
    read_weights,
    write_episode_list,
    write_lerobot_progress,
    write_static_weights,
    write_weights,
)
from stepscore.curation.frames import EpisodeFrames, RunFrames, run_frames
from stepscore.curation.lerobot_command import dataset_train_command, lerobot_train_command
from stepscore.curation.reduced_dataset import write_kept_dataset
from stepscore.curation.removed import Removal, RemovedEpisode, removed_episodes, report_of
from stepscore.curation.sampler import FrameWeights, WeightedSampler
from stepscore.curation.selection import EpisodeSelection, select_episodes
from stepscore.curation.weighting import (
    Weighting,
    keep_all,
    lerobot_rabc,
    topreward_awr,
    without_stalls,
)

__all__ = [
    "METADATA",
    "EpisodeFrames",
    "EpisodeSelection",
    "FrameWeights",
    "Removal",
    "RemovedEpisode",
    "RunFrames",
    "WeightDistribution",
    "WeightedSampler",
    "Weighting",
    "dataset_train_command",
    "keep_all",
    "lerobot_rabc",
    "lerobot_train_command",
    "read_weights",
    "removed_episodes",
    "report_of",
    "run_frames",
    "select_episodes",
    "topreward_awr",
    "weight_distribution",
    "without_stalls",
    "write_episode_list",
    "write_kept_dataset",
    "write_lerobot_progress",
    "write_static_weights",
    "write_weights",
]
