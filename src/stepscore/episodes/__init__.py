"""Recorded rollouts, in one form whatever wrote them.

:func:`open_episodes` lists the episodes of a source without decoding anything; :meth:`Episode.clip` decodes the
requested frames into a :class:`Clip`, and :meth:`Episode.signals` reads state and action. Each format is one reader,
in one file. :func:`perturb` changes an episode by one of the names in ``PERTURBATIONS``; :func:`match_lengths` cuts
failures to the lengths of successes.
"""

from stepscore.episodes.episode import Episode
from stepscore.episodes.image_ops import (
    fit_size,
    read_image,
    resize_frames,
    resize_image,
    square_image,
    tile_images,
)
from stepscore.episodes.labels.joining import files_beside, not_used
from stepscore.episodes.labels.labels import Label, Labels, Stage
from stepscore.episodes.labels.subgoals import Subgoal
from stepscore.episodes.perturbations.changed_episode import choose_frames
from stepscore.episodes.perturbations.length_matching import length_auc, match_lengths
from stepscore.episodes.perturbations.perturb import PERTURBATIONS, perturb
from stepscore.episodes.perturbations.rewording import TaskInstructions
from stepscore.episodes.sampling import (
    TIME_TOLERANCE_S,
    SampledFrames,
    first_frame_from,
    frame_at,
    sample_by_index,
    sample_by_time,
    sample_frames,
    sample_indices,
)
from stepscore.episodes.signals import Signal, SignalReader
from stepscore.episodes.source import Episodes, Listing, Reader, ReadOptions, open_episodes, reader_registry
from stepscore.episodes.video.image_files import check_image_root, image_view
from stepscore.episodes.view import Clip, GoalFrame, View, ViewInfo

__all__ = [
    "PERTURBATIONS",
    "TIME_TOLERANCE_S",
    "Clip",
    "Episode",
    "Episodes",
    "GoalFrame",
    "Label",
    "Labels",
    "Listing",
    "ReadOptions",
    "Reader",
    "SampledFrames",
    "Signal",
    "SignalReader",
    "Stage",
    "Subgoal",
    "TaskInstructions",
    "View",
    "ViewInfo",
    "check_image_root",
    "choose_frames",
    "files_beside",
    "first_frame_from",
    "fit_size",
    "frame_at",
    "image_view",
    "length_auc",
    "match_lengths",
    "not_used",
    "open_episodes",
    "perturb",
    "read_image",
    "reader_registry",
    "resize_frames",
    "resize_image",
    "sample_by_index",
    "sample_by_time",
    "sample_frames",
    "sample_indices",
    "square_image",
    "tile_images",
]
