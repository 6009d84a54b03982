"""Questions with exact answers about labelled episodes, and a judge's answers to them."""

from stepscore.audit.board.questions.make import make_questions
from stepscore.audit.board.questions.question import (
    KINDS,
    Question,
    StageSpan,
    read_questions,
    write_questions,
)
from stepscore.audit.board.questions.score import question_videos, score_questions

__all__ = [
    "KINDS",
    "Question",
    "StageSpan",
    "make_questions",
    "question_videos",
    "read_questions",
    "score_questions",
    "write_questions",
]
