"""Pure functions of arrays: what a curve, a set of verdicts or a sample of episodes says, and how surely.

Nothing here reads a file or knows a judge. Unknown is NaN and stays NaN; every docstring has the formula and
its source.
"""

from stepscore.metrics.calibration import MonotoneMap, Reliability, brier, fit_calibration, mae, reliability
from stepscore.metrics.catalog import Column, CurveMetric, metric_registry, opd_metric
from stepscore.metrics.failure_modes import NONE, RULES, UNKNOWN, FailureMode, advice, failure_mode
from stepscore.metrics.opd.revisions import compute_opd, opd_prefixes
from stepscore.metrics.order import voc
from stepscore.metrics.policy_failure_modes import mechanisms, z_scores
from stepscore.metrics.stages import trace_error, truth_trace
from stepscore.metrics.subgoals import conditional_indicator, first_failure, violation_indicator
from stepscore.metrics.success import Confusion, balanced_accuracy, confusion, mcc, roc_auc
from stepscore.metrics.token_rewards import minmax, trailing_mean

__all__ = [
    "NONE",
    "RULES",
    "UNKNOWN",
    "Column",
    "Confusion",
    "CurveMetric",
    "FailureMode",
    "MonotoneMap",
    "Reliability",
    "advice",
    "balanced_accuracy",
    "brier",
    "compute_opd",
    "conditional_indicator",
    "confusion",
    "failure_mode",
    "first_failure",
    "fit_calibration",
    "mae",
    "mcc",
    "mechanisms",
    "metric_registry",
    "minmax",
    "opd_metric",
    "opd_prefixes",
    "reliability",
    "roc_auc",
    "trace_error",
    "trailing_mean",
    "truth_trace",
    "violation_indicator",
    "voc",
    "z_scores",
]
