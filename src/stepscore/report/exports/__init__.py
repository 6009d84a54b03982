"""Judged episodes in the files of other tools; :func:`export` writes them, :data:`TARGETS` names the tools."""

from stepscore.report.exports.targets import TARGETS, VIDEO_MODES, ExportResult, check_target, export

__all__ = ["TARGETS", "VIDEO_MODES", "ExportResult", "check_target", "export"]
