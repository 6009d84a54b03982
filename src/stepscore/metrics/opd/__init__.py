"""The OPD metrics (MC, MP, PPL, CRA, STR) of a progress curve, in each published revision and in ``robust``."""

from stepscore.metrics.opd.revisions import REVISIONS

__all__ = ["REVISIONS"]
