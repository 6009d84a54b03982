"""Results for people: the report page, figures for papers, and videos of episodes.

:func:`write_report` writes the page of some runs (leaderboards, subgoals, failure modes, explorer) to a folder, from
where it opens without a network; :func:`page_data` returns the numbers on it. :func:`write_audit_report` writes that
of an audit, :func:`write_board_report` that of a board of judges. :func:`plot` writes figures,
:func:`draw` returns one.
:func:`export` writes episodes as files of other tools.
Inside: ``page`` (what the page holds), ``plots`` (the figures), ``video`` (H.264 and the overlay video), ``exports``.
"""

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
