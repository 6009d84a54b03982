"""Training questions for vision-language models, with right answers from a person's own labels."""

from stepscore.report.exports.vqa.questions import KINDS, Question, questions_of
from stepscore.report.exports.vqa.writer import VqaExport, export_vqa

__all__ = ["KINDS", "Question", "VqaExport", "export_vqa", "questions_of"]
