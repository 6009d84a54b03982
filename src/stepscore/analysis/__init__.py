"""A run into numbers: metrics by group, comparisons, agreement with labels, failure modes, calibration.

Start with :func:`measure` and :func:`compare`: both take run folders and return tables. Tables, report,
filters and audits all read these numbers. No model is asked.
"""

from stepscore.analysis.against_labels import Abstention, PolicyAgreement, abstention
from stepscore.analysis.agreement import Agreement, JudgeAgreement, judge_agreement
from stepscore.analysis.answers import JudgeAnswer, judge_answers
from stepscore.analysis.auc import auc_estimate, auc_within_tasks
from stepscore.analysis.baselines import BaselineResult, agreement_with_baselines, measure_baselines
from stepscore.analysis.calibration import CalibrationResult, calibrate
from stepscore.analysis.comparison import GroupComparison, compare_groups, compared_metrics
from stepscore.analysis.episode_metrics import EpisodeMetrics, measure_episodes, metric_columns
from stepscore.analysis.estimates import (
    MAIN_METRICS,
    Group,
    GroupEstimate,
    episode_groups,
    grouped_estimates,
    metrics_of,
    policy_metrics,
)
from stepscore.analysis.failure_modes import FailureModes, failure_modes_by_policy
from stepscore.analysis.findings import (
    Findings,
    FirstFailure,
    Funnel,
    JudgeTrust,
    Opening,
    TrustAspect,
    WorstFailure,
    WorstTime,
    first_failures,
    judge_trust,
    opening_sentences,
    run_findings,
    subgoal_funnels,
    worst_failures,
    worst_time,
)
from stepscore.analysis.pooling import (
    DURATION_COLUMN,
    add_protocol_keys,
    check_unmixed,
    coverage_note,
    distinct_runs,
    mixed_note,
    scope_text,
)
from stepscore.analysis.ranking import finer_ranking, score_ranking
from stepscore.analysis.result_tables import ComparisonTable, EstimateTable, compare, measure
from stepscore.analysis.subgoals import SubgoalTable, VerdictSource, subgoal_tables, verdict_rows
from stepscore.analysis.success_calibration import SuccessCalibration, calibrate_success
from stepscore.analysis.success_verdict import DoneRule, done_rule, success_name
from stepscore.analysis.table_rows import curves_by_episode
from stepscore.analysis.validation import (
    Measured,
    Validation,
    add_validation,
    find_validation,
    read_validation,
    validation_notes,
)

__all__ = [
    "DURATION_COLUMN",
    "MAIN_METRICS",
    "Abstention",
    "Agreement",
    "BaselineResult",
    "CalibrationResult",
    "ComparisonTable",
    "DoneRule",
    "EpisodeMetrics",
    "EstimateTable",
    "FailureModes",
    "Findings",
    "FirstFailure",
    "Funnel",
    "Group",
    "GroupComparison",
    "GroupEstimate",
    "JudgeAgreement",
    "JudgeAnswer",
    "JudgeTrust",
    "Measured",
    "Opening",
    "PolicyAgreement",
    "SubgoalTable",
    "SuccessCalibration",
    "TrustAspect",
    "Validation",
    "VerdictSource",
    "WorstFailure",
    "WorstTime",
    "abstention",
    "add_protocol_keys",
    "add_validation",
    "agreement_with_baselines",
    "auc_estimate",
    "auc_within_tasks",
    "calibrate",
    "calibrate_success",
    "check_unmixed",
    "compare",
    "compare_groups",
    "compared_metrics",
    "coverage_note",
    "curves_by_episode",
    "distinct_runs",
    "done_rule",
    "episode_groups",
    "failure_modes_by_policy",
    "find_validation",
    "finer_ranking",
    "first_failures",
    "grouped_estimates",
    "judge_agreement",
    "judge_answers",
    "judge_trust",
    "measure",
    "measure_baselines",
    "measure_episodes",
    "metric_columns",
    "metrics_of",
    "mixed_note",
    "opening_sentences",
    "policy_metrics",
    "read_validation",
    "run_findings",
    "scope_text",
    "score_ranking",
    "subgoal_funnels",
    "subgoal_tables",
    "success_name",
    "validation_notes",
    "verdict_rows",
    "worst_failures",
    "worst_time",
]
