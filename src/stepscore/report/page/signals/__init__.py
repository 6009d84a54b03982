"""What the page draws over time next to the judged curve: true progress, and the robot's state and action."""

from stepscore.report.page.signals.traces import ServedTraces, trace_table
from stepscore.report.page.signals.truth import truth_table

__all__ = ["ServedTraces", "trace_table", "truth_table"]
