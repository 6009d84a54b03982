"""Results for people: the report page, figures for papers, videos of episodes and exports to other tools."""

from stepscore.report.exports import TARGETS, ExportResult, export
from stepscore.report.figures import KINDS, PlotResult, draw, plot
from stepscore.report.page import (
    page_data,
    page_kind,
    page_text,
    parts_folder,
    write_audit_report,
    write_board_report,
    write_report,
)

__all__ = [
    "KINDS",
    "TARGETS",
    "ExportResult",
    "PlotResult",
    "draw",
    "export",
    "page_data",
    "page_kind",
    "page_text",
    "parts_folder",
    "plot",
    "write_audit_report",
    "write_board_report",
    "write_report",
]
