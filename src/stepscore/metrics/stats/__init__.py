"""Estimates with intervals, significance tests and comparisons over episodes, by strata and clusters."""

from stepscore.metrics.stats.comparison_result import Comparison
from stepscore.metrics.stats.comparisons.comparison import compare_paired, compare_samples
from stepscore.metrics.stats.comparisons.errors import compare_errors, error_estimate
from stepscore.metrics.stats.comparisons.unpaired import compare_unpaired
from stepscore.metrics.stats.comparisons.within_scenes import (
    FEWEST_SCENES,
    compare_within_scenes,
    estimate_within_scenes,
    these_scenes,
)
from stepscore.metrics.stats.intervals import mean_estimate, rate_estimate, statistic_estimate
from stepscore.metrics.stats.large_samples import influence_by_kind
from stepscore.metrics.stats.rate_intervals import clopper_pearson_interval, wilson_interval
from stepscore.metrics.stats.sample import GroupLabels, is_missing
from stepscore.metrics.stats.shares import share_estimate
from stepscore.metrics.stats.significance import (
    Significance,
    Stratum,
    adjust_p_values,
    mcnemar_test,
    permutation_test,
    rates_test,
    sign_flip_test,
)

__all__ = [
    "FEWEST_SCENES",
    "Comparison",
    "GroupLabels",
    "Significance",
    "Stratum",
    "adjust_p_values",
    "clopper_pearson_interval",
    "compare_errors",
    "compare_paired",
    "compare_samples",
    "compare_unpaired",
    "compare_within_scenes",
    "error_estimate",
    "estimate_within_scenes",
    "influence_by_kind",
    "is_missing",
    "mcnemar_test",
    "mean_estimate",
    "permutation_test",
    "rate_estimate",
    "rates_test",
    "share_estimate",
    "sign_flip_test",
    "statistic_estimate",
    "these_scenes",
    "wilson_interval",
]
