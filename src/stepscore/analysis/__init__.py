"""A run into numbers: metrics by group, comparisons, agreement with labels, failure modes, calibration.

The one source for tables, report, filters and audits. It reads runs and asks no model.
"""

from stepscore.analysis.agreement import JudgeAgreement, judge_agreement
from stepscore.analysis.baselines import baseline_runs
from stepscore.analysis.calibration import CalibrationResult, calibrate
from stepscore.analysis.comparison import compare
from stepscore.analysis.failure_modes import FailureModes, failure_modes_by_policy
from stepscore.analysis.measures import (
    EpisodeMetrics,
    GroupEstimate,
    curves_by_episode,
    episode_groups,
    grouped_estimates,
    measure_episodes,
    metric_columns,
)
from stepscore.analysis.subgoals import SubgoalTable, VerdictSource, subgoal_tables
from stepscore.analysis.template_choice import choose_template

__all__ = [
    "CalibrationResult",
    "EpisodeMetrics",
    "FailureModes",
    "GroupEstimate",
    "JudgeAgreement",
    "SubgoalTable",
    "VerdictSource",
    "baseline_runs",
    "calibrate",
    "choose_template",
    "compare",
    "curves_by_episode",
    "episode_groups",
    "failure_modes_by_policy",
    "grouped_estimates",
    "judge_agreement",
    "measure_episodes",
    "metric_columns",
    "subgoal_tables",
]
