"""A run into numbers: metrics by group, comparisons, agreement with labels, failure modes, calibration.

The one source for tables, report, filters and audits. It reads runs and asks no model.
"""

from stepscore.analysis.agreement import JudgeAgreement, judge_agreement
from stepscore.analysis.baselines import baseline_runs
from stepscore.analysis.calibration import Calibrated, calibrate
from stepscore.analysis.comparison import compare
from stepscore.analysis.failure_modes import FailureModes, failure_modes_by_policy
from stepscore.analysis.measures import (
    Measured,
    Measures,
    columns_of,
    curves_by_episode,
    groups,
    measure,
    measure_episodes,
)
from stepscore.analysis.subgoals import By, SubgoalTable, subgoal_tables
from stepscore.analysis.template_choice import choose_template

__all__ = [
    "By",
    "Calibrated",
    "FailureModes",
    "JudgeAgreement",
    "Measured",
    "Measures",
    "SubgoalTable",
    "baseline_runs",
    "calibrate",
    "choose_template",
    "columns_of",
    "compare",
    "curves_by_episode",
    "failure_modes_by_policy",
    "groups",
    "judge_agreement",
    "measure",
    "measure_episodes",
    "subgoal_tables",
]
