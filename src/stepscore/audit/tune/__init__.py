"""Tune a judge: choose frames, views, size, strategy, prompt and other options by labels and cost.

:func:`tune` tries configurations on some labelled scenes and tests the choice on others.
"""

from stepscore.audit.tune.choice import Choice, TrialCost, choose
from stepscore.audit.tune.grid import Grid, MakeJudge, Trial, make_grid, value_text
from stepscore.audit.tune.metric import METRICS, Metric
from stepscore.audit.tune.result import TrialResult, Tuned
from stepscore.audit.tune.search import tune
from stepscore.audit.tune.tables import tune_tables
from stepscore.audit.tune.tune_plan import PlannedCalls, TuneOptions, TunePlan, plan_tuning, planned_calls

__all__ = [
    "METRICS",
    "Choice",
    "Grid",
    "MakeJudge",
    "Metric",
    "PlannedCalls",
    "Trial",
    "TrialCost",
    "TrialResult",
    "TuneOptions",
    "TunePlan",
    "Tuned",
    "choose",
    "make_grid",
    "plan_tuning",
    "planned_calls",
    "tune",
    "tune_tables",
    "value_text",
]
