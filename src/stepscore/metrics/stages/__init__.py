"""Curves against annotated stages: the progress that stages imply, and the distance of a curve to it."""

from stepscore.metrics.stages.curve_errors import (
    BoundaryF1,
    BoundaryRise,
    PlateauError,
    TraceError,
    boundary_f1,
    boundary_rise,
    plateau_error,
    stage_boundaries,
    trace_error,
    truth_error,
)
from stepscore.metrics.stages.truth import StageSpan, procedure_order, stage_truth, truth_trace

__all__ = [
    "BoundaryF1",
    "BoundaryRise",
    "PlateauError",
    "StageSpan",
    "TraceError",
    "boundary_f1",
    "boundary_rise",
    "plateau_error",
    "procedure_order",
    "stage_boundaries",
    "stage_truth",
    "trace_error",
    "truth_error",
    "truth_trace",
]
