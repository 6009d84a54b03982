"""The page of a board of judges: what each is worth on one benchmark, and what it costs."""

from stepscore.report.page.judge_boards.board_page import board_page_data
from stepscore.report.page.judge_boards.stored_board import is_board

__all__ = ["board_page_data", "is_board"]
