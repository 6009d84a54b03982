"""The report page: its data, packed from runs, and where its videos are hosted."""

from stepscore.report.page.data import page_data
from stepscore.report.page.page import page_template, page_text
from stepscore.report.page.video_hosting import Served

__all__ = ["Served", "page_data", "page_template", "page_text"]
