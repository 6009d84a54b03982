"""Tune a judge: frames, views, size, strategy, prompt and any other option, by labels and by cost.

:func:`tune` tries configurations on some labelled scenes and shows the choice on others; ``stepscore tune`` is the
command.
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
