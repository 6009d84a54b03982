"""Results as printed tables, with the same cells in every output format."""

from stepscore.analysis.tables.comparison_tables import comparison_tables
from stepscore.analysis.tables.failure_tables import failure_mode_records, failure_mode_tables
from stepscore.analysis.tables.judge_tables import agreement_tables, judge_records, judge_tables
from stepscore.analysis.tables.label_tables import abstention_records, abstention_tables
from stepscore.analysis.tables.metric_tables import (
    conditioned_tables,
    distribution_tables,
    episode_records,
    metric_table,
)
from stepscore.analysis.tables.subgoal_tables import (
    subgoal_coverage_notes,
    subgoal_detail_tables,
    subgoal_matrices,
)

__all__ = [
    "abstention_records",
    "abstention_tables",
    "agreement_tables",
    "comparison_tables",
    "conditioned_tables",
    "distribution_tables",
    "episode_records",
    "failure_mode_records",
    "failure_mode_tables",
    "judge_records",
    "judge_tables",
    "metric_table",
    "subgoal_coverage_notes",
    "subgoal_detail_tables",
    "subgoal_matrices",
]
