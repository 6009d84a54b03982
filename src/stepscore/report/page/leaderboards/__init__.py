"""One leaderboard per protocol: its tables, what they show in sentences, and how its judge agrees with labels."""

from stepscore.report.page.leaderboards.findings import findings_data
from stepscore.report.page.leaderboards.judge_agreement import (
    CURVE_METRICS,
    MAX_BASELINE_EPISODES,
    agreement_rows,
    without_baselines,
)
from stepscore.report.page.leaderboards.leaderboard import (
    Leaderboard,
    Pack,
    estimate_packer,
    failure_mode_rules,
    leaderboard_tables,
    open_leaderboards,
)

__all__ = [
    "CURVE_METRICS",
    "MAX_BASELINE_EPISODES",
    "Leaderboard",
    "Pack",
    "agreement_rows",
    "estimate_packer",
    "failure_mode_rules",
    "findings_data",
    "leaderboard_tables",
    "open_leaderboards",
    "without_baselines",
]
