"""The page of a board of judges: what each is worth on one benchmark, and what it costs."""

from stepscore.report.page.judge_boards.board_page import board_page_data

__all__ = ["board_page_data"]
