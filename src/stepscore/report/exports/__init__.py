"""Judged episodes in the files of other tools, and labelled ones as training questions.

:func:`export` writes the former, for the tools of :data:`TARGETS`; :func:`export_vqa` the latter.
"""

from stepscore.report.exports.targets import TARGETS, VIDEO_MODES, ExportResult, check_target, export
from stepscore.report.exports.vqa import VqaExport, export_vqa

__all__ = [
    "TARGETS",
    "VIDEO_MODES",
    "ExportResult",
    "VqaExport",
    "check_target",
    "export",
    "export_vqa",
]
