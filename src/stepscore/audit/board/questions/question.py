"""A question with an exact answer about a labelled episode, after ProcVQA (ProcVLM).

=============  ===============================================================  ====================================
kind           shown                                                            answer
=============  ===============================================================  ====================================
progress       the video up to a time                                           progress at its last frame, 0..1
remaining      the same                                                         the subgoals that are not done then
next           the same                                                         the first of them; empty where none is
segmentation   the whole video                                                  its stages with their times
=============  ===============================================================  ====================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepscore._files import write_text
from stepscore._untrusted import parse_json, read_text, shown
from stepscore.errors import ManifestError, first_field_error

Kind = Literal["progress", "remaining", "next", "segmentation"]
KINDS: tuple[Kind, ...] = ("progress", "remaining", "next", "segmentation")
MAX_QUESTIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A stage of an answer, in seconds."""

    stage: str
    start_s: float
    end_s: float


Answer = float | str | tuple[str, ...] | tuple[StageSpan, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question.

    Attributes:
        id: Unique within its file.
        kind: What is asked.
        episode: Id of the episode.
        to_s: The video is shown up to this second; ``None`` where all of it is.
        text: The question in words.
        steps: The task's subgoals or, for a segmentation, its stages, in order.
        answer: The exact answer.
        task: The episode's task.
        scene: The scene, shared by episodes that are not independent; empty where not known.
    """

    id: str
    kind: Kind
    episode: str
    to_s: float | None
    text: str
    steps: tuple[str, ...]
    answer: Answer
    task: str
    scene: str = ""


Text = Annotated[str, Field(max_length=2000)]
_STRICT = ConfigDict(extra="ignore", allow_inf_nan=False)


class _Span(BaseModel):
    model_config = _STRICT
    stage: Text
    start_s: Annotated[float, Field(ge=0)]
    end_s: Annotated[float, Field(ge=0)]


class _Row(BaseModel):
    model_config = _STRICT
    id: Annotated[str, Field(min_length=1, max_length=1000)]
    kind: Kind
    episode: Annotated[str, Field(min_length=1, max_length=1000)]
    to_s: Annotated[float, Field(gt=0)] | None = None
    text: Text = ""
    steps: Annotated[tuple[Text, ...], Field(max_length=1000)] = ()
    answer: Any
    task: Text = ""
    scene: Text = ""

    @model_validator(mode="after")
    def _answers_its_kind(self) -> Self:
        if (self.to_s is None) != (self.kind == "segmentation"):
            raise ValueError("to_s is given for all kinds but segmentation")
        self.answer = _answer(self.kind, self.answer, self.steps)
        return self


def _answer(kind: Kind, answer: Any, steps: tuple[str, ...]) -> Answer:
    """Return an answer of its kind; a ValueError says what is wrong."""
    if kind == "progress":
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= 1:
            raise ValueError("the answer is a number from 0 to 1")
        return float(answer)
    if kind == "segmentation":
        if not isinstance(answer, list) or not answer:
            raise ValueError("the answer is a list of stages")
        spans = [_Span.model_validate(one) for one in answer]
        if any(span.stage not in steps or not span.end_s > span.start_s for span in spans):
            raise ValueError("a stage is not among the steps, or ends before it starts")
        return tuple(StageSpan(**span.model_dump()) for span in spans)
    named = [answer] if kind == "next" else answer
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ValueError("the answer names steps")
    if any(one not in steps for one in named if one or kind == "remaining"):
        raise ValueError("the answer is not among the steps")
    return str(answer) if kind == "next" else tuple(named)


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions as JSON lines."""
    write_text(path, "".join(json.dumps(asdict(one)) + "\n" for one in questions), make_folder=True)


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read questions from JSON lines; an error names file and line."""
    questions: list[Question] = []
    seen: set[str] = set()
    for number, line in enumerate(read_text(path, ManifestError).splitlines(), 1):
        if not line.strip():
            continue
        where = f"{shown(path)}:{number}"
        try:
            row = _Row.model_validate(parse_json(line, where, ManifestError))
        except ValidationError as error:
            field, why = first_field_error(error)[:2]
            raise ManifestError(f"{where}: {shown(field or 'question')}: {shown(why)}.") from error
        if row.id in seen:
            raise ManifestError(f"{where}: two questions are called {shown(row.id)!r}.")
        seen.add(row.id)
        questions.append(Question(**dict(row)))
        if len(questions) > MAX_QUESTIONS:
            raise ManifestError(f"{shown(path)} has more than {MAX_QUESTIONS} questions.")
    if not questions:
        raise ManifestError(f"{shown(path)} has no questions.")
    return tuple(questions)
