"""Estimates with intervals, significance tests and comparisons over episodes, by strata and clusters."""

from stepscore.metrics.stats.comparison import compare_samples
from stepscore.metrics.stats.comparison_result import Comparison
from stepscore.metrics.stats.intervals import mean_estimate, rate_estimate, statistic_estimate
from stepscore.metrics.stats.large_samples import influence_by_kind
from stepscore.metrics.stats.paired import compare_paired
from stepscore.metrics.stats.rate_intervals import clopper_pearson_interval, wilson_interval
from stepscore.metrics.stats.sample import GroupLabels
from stepscore.metrics.stats.significance import (
    Significance,
    Stratum,
    adjust_p_values,
    mcnemar_test,
    permutation_test,
    rates_test,
    sign_flip_test,
)
from stepscore.metrics.stats.unpaired import compare_unpaired

__all__ = [
    "Comparison",
    "GroupLabels",
    "Significance",
    "Stratum",
    "adjust_p_values",
    "clopper_pearson_interval",
    "compare_paired",
    "compare_samples",
    "compare_unpaired",
    "influence_by_kind",
    "mcnemar_test",
    "mean_estimate",
    "permutation_test",
    "rate_estimate",
    "rates_test",
    "sign_flip_test",
    "statistic_estimate",
    "wilson_interval",
]
