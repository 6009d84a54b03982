"""One board per protocol: its leaderboards, what they show in sentences, and how its judge agrees with labels."""

from stepscore.report.page.boards.board import (
    Board,
    Pack,
    board_data,
    estimate_packer,
    failure_mode_rules,
    open_boards,
)
from stepscore.report.page.boards.findings import findings_data
from stepscore.report.page.boards.judge_agreement import (
    CURVE_METRICS,
    MAX_BASELINE_EPISODES,
    agreement_rows,
    without_baselines,
)

__all__ = [
    "CURVE_METRICS",
    "MAX_BASELINE_EPISODES",
    "Board",
    "Pack",
    "agreement_rows",
    "board_data",
    "estimate_packer",
    "failure_mode_rules",
    "findings_data",
    "open_boards",
    "without_baselines",
]
