"""Pure functions of arrays: what a curve, a set of verdicts or a sample of episodes says, and how surely.

Nothing here reads a file or knows a judge. Unknown is NaN and stays NaN; every docstring has the formula and
its source.
"""

from stepscore.metrics.catalog import Column as Column
from stepscore.metrics.catalog import CurveMetric as CurveMetric
from stepscore.metrics.catalog import metrics as metrics
from stepscore.metrics.opd_revisions import opd as opd
from stepscore.metrics.opd_revisions import opd_prefixes as opd_prefixes
from stepscore.metrics.order import voc as voc

__all__ = ["Column", "CurveMetric", "metrics", "opd", "opd_prefixes", "voc"]
