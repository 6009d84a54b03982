"""The report page: all its data as JSON, the HTML around it, and where its videos are hosted.

``schema`` is the type of the data. :func:`page_data` assembles them from one module per part of the page:
``overview`` (runs, warnings), ``leaderboards`` (with subgoals, failure modes, sentences, agreement of judges with
labels), ``episodes``, ``videos``, ``judgements`` (curves, verdicts, calls) and ``signals`` (true progress, state and
action). :func:`audit_page_data` does so for an audit (``audits``). None of them computes a metric of its own.
"""

from stepscore.report.page.audits import audit_page_data
from stepscore.report.page.data import page_data
from stepscore.report.page.html import (
    data_text,
    page_kind,
    page_template,
    page_text,
    write_audit_report,
    write_board_report,
    write_report,
)
from stepscore.report.page.judge_board import board_page_data
from stepscore.report.page.paging import ServedParts, parts_folder
from stepscore.report.page.schema import PageData
from stepscore.report.page.signals import ServedTraces
from stepscore.report.page.video_hosting import CopiedVideos, LinkedVideos, ServedVideos, VideoHost
from stepscore.report.run_sources import RunSources

__all__ = [
    "CopiedVideos",
    "LinkedVideos",
    "PageData",
    "RunSources",
    "ServedParts",
    "ServedTraces",
    "ServedVideos",
    "VideoHost",
    "audit_page_data",
    "board_page_data",
    "data_text",
    "page_data",
    "page_kind",
    "page_template",
    "page_text",
    "parts_folder",
    "write_audit_report",
    "write_board_report",
    "write_report",
]
