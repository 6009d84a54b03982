"""The OPD metrics (MC, MP, PPL, CRA, STR) of a progress curve, in each published revision and in ``robust``."""

from stepscore.metrics.opd.completion import DONE_PROGRESS, fit_done_at
from stepscore.metrics.opd.revisions import OPD_KEYS, OPD_V15_KEYS, REVISIONS, compute_opd, opd_prefixes
from stepscore.metrics.opd.robust import CurveProfile, curve_profile

__all__ = [
    "DONE_PROGRESS",
    "OPD_KEYS",
    "OPD_V15_KEYS",
    "REVISIONS",
    "CurveProfile",
    "compute_opd",
    "curve_profile",
    "fit_done_at",
    "opd_prefixes",
]
