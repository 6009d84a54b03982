"""Labels of episodes: success, subgoals, stages, progress, and when each is true."""

from stepscore.episodes.labels.label_intervals import (
    LABEL_TOLERANCE_S,
    POTENTIAL,
    Truth,
    subgoal_truth,
    success_truth,
)
from stepscore.episodes.labels.labels import Label, Labels, read_labels
from stepscore.episodes.labels.subgoals import Subgoal, TaskSubgoals, find_subgoals, read_subgoals

__all__ = [
    "LABEL_TOLERANCE_S",
    "POTENTIAL",
    "Label",
    "Labels",
    "Subgoal",
    "TaskSubgoals",
    "Truth",
    "find_subgoals",
    "read_labels",
    "read_subgoals",
    "subgoal_truth",
    "success_truth",
]
