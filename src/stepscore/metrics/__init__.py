"""Pure functions of arrays that measure curves, verdicts and samples of episodes.

No file is read here and no judge is known. Unknown is NaN and stays NaN; every docstring has the formula and
its source. OPD stands in :mod:`stepscore.metrics.opd`; intervals, tests and comparisons in
:mod:`stepscore.metrics.stats`.
"""

from stepscore.metrics.calibration import MonotoneMap, Reliability, brier, fit_calibration, mae, reliability
from stepscore.metrics.catalog import CurveMetric, MetricColumn, metric_registry, opd_metric
from stepscore.metrics.failure_modes import (
    FAILURE_MODE_RULES,
    NO_FAILURE_MODE,
    UNKNOWN_FAILURE_MODE,
    FailureMode,
    failure_mode,
    failure_mode_advice,
)
from stepscore.metrics.opd.revisions import compute_opd
from stepscore.metrics.order import average_ranks, ccc, epr, kendall_tau, voc
from stepscore.metrics.pairs import TRUE_CHANGE_BINS, make_pairs, pair_scores
from stepscore.metrics.policy_failure_modes import (
    FailureModeSummary,
    failure_mode_stability,
    policy_z_scores,
    summarize_failure_modes,
)
from stepscore.metrics.stages import (
    StageSpan,
    boundary_f1,
    boundary_rise,
    plateau_error,
    procedure_order,
    stage_boundaries,
    stage_truth,
    trace_error,
    truth_error,
    truth_trace,
)
from stepscore.metrics.subgoals import (
    conditional_success,
    conditional_success_indicator,
    first_failed_subgoal,
    first_failure_histogram,
    order_violation_indicator,
    order_violations,
    success_vector,
    verdict_coverage,
)
from stepscore.metrics.success import (
    Confusion,
    Threshold,
    apply_threshold,
    average_precision,
    balanced_accuracy,
    best_threshold,
    cohen_kappa,
    confusion,
    f1,
    mcc,
    precision,
    recall,
    roc_auc,
)
from stepscore.metrics.success_map import (
    SuccessMap,
    balanced_brier,
    balanced_ece,
    fit_success_map,
    own_terms,
)
from stepscore.metrics.token_rewards import dense_reward, minmax, trailing_mean
from stepscore.metrics.validation import known_share

__all__ = [
    "FAILURE_MODE_RULES",
    "NO_FAILURE_MODE",
    "TRUE_CHANGE_BINS",
    "UNKNOWN_FAILURE_MODE",
    "Confusion",
    "CurveMetric",
    "FailureMode",
    "FailureModeSummary",
    "MetricColumn",
    "MonotoneMap",
    "Reliability",
    "StageSpan",
    "SuccessMap",
    "Threshold",
    "apply_threshold",
    "average_precision",
    "average_ranks",
    "balanced_accuracy",
    "balanced_brier",
    "balanced_ece",
    "best_threshold",
    "boundary_f1",
    "boundary_rise",
    "brier",
    "ccc",
    "cohen_kappa",
    "compute_opd",
    "conditional_success",
    "conditional_success_indicator",
    "confusion",
    "dense_reward",
    "epr",
    "f1",
    "failure_mode",
    "failure_mode_advice",
    "failure_mode_stability",
    "first_failed_subgoal",
    "first_failure_histogram",
    "fit_calibration",
    "fit_success_map",
    "kendall_tau",
    "known_share",
    "mae",
    "make_pairs",
    "mcc",
    "metric_registry",
    "minmax",
    "opd_metric",
    "order_violation_indicator",
    "order_violations",
    "own_terms",
    "pair_scores",
    "plateau_error",
    "policy_z_scores",
    "precision",
    "procedure_order",
    "recall",
    "reliability",
    "roc_auc",
    "stage_boundaries",
    "stage_truth",
    "success_vector",
    "summarize_failure_modes",
    "trace_error",
    "trailing_mean",
    "truth_error",
    "truth_trace",
    "verdict_coverage",
    "voc",
]
