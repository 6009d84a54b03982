"""The true progress of the episodes of runs, as far as labels state it: one answer for metrics and calibration."""

from stepscore.analysis.truth.episode_truth import EpisodeTruth, TruthSource
from stepscore.analysis.truth.run_truth import ProgressTruths, progress_truths
from stepscore.analysis.truth.task_procedure import StagedEpisode, task_procedure

__all__ = [
    "EpisodeTruth",
    "ProgressTruths",
    "StagedEpisode",
    "TruthSource",
    "progress_truths",
    "task_procedure",
]
