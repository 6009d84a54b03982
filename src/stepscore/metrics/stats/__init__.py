"""Intervals, bootstrap, tests and comparisons over episodes, by strata and clusters."""

from stepscore.metrics.stats.comparison import Comparison, adjust, compare_samples
from stepscore.metrics.stats.intervals import mean_estimate, rate_estimate, statistic_estimate, wilson

__all__ = [
    "Comparison",
    "adjust",
    "compare_samples",
    "mean_estimate",
    "rate_estimate",
    "statistic_estimate",
    "wilson",
]
