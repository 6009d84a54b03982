"""Questions with exact answers about labelled episodes, after ProcVQA (ProcVLM).

=============  =================  ==================================================
kind           shown              answer
=============  =================  ==================================================
progress       video up to a time  progress at its last frame, 0..1
remaining      the same           the subgoals that are not done then
next           the same           the first of them; empty if there is none
segmentation   the whole video    its stages with their times
=============  =================  ==================================================
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from stepscore._files import write_text
from stepscore._untrusted import parse_json, read_text, shown
from stepscore.episodes import Episode, perturb
from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.errors import ManifestError, OptionError, first_field_error

Kind = Literal["progress", "remaining", "next", "segmentation"]
KINDS: tuple[Kind, ...] = ("progress", "remaining", "next", "segmentation")
MAX_QUESTIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class StageSpan:
    """A stage in an answer, with start and end in seconds."""

    stage: str
    start_s: float
    end_s: float


Answer = float | str | tuple[str, ...] | tuple[StageSpan, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about an episode.

    Attributes:
        to_s: The video ends at this second; ``None`` for the whole video.
        steps: The task's subgoals or, for a segmentation, its stages, in order.
        scene: Scene, shared by episodes that are not independent; empty if unknown.
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
    """Convert an answer to the type of its question kind; raise ValueError if invalid."""
    if kind == "progress":
        if isinstance(answer, bool) or not isinstance(answer, int | float) or not 0 <= answer <= 1:
            raise ValueError("the answer must be a number from 0 to 1")
        return float(answer)
    if kind == "segmentation":
        if not isinstance(answer, list) or not answer:
            raise ValueError("the answer must be a list of stages")
        spans = [_Span.model_validate(one) for one in answer]
        if any(span.stage not in steps or not span.end_s > span.start_s for span in spans):
            raise ValueError("a stage is not among the steps, or ends before it starts")
        return tuple(StageSpan(**span.model_dump()) for span in spans)
    named = [answer] if kind == "next" else answer
    if not isinstance(named, list) or not all(isinstance(one, str) for one in named):
        raise ValueError("the answer must name steps")
    if any(one not in steps for one in named if one or kind == "remaining"):
        raise ValueError("the answer is not among the steps")
    return str(answer) if kind == "next" else tuple(named)


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions as JSON lines."""
    write_text(path, "".join(json.dumps(asdict(one)) + "\n" for one in questions), make_folder=True)


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read questions from JSON lines; errors name the file and line."""
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
            raise ManifestError(f"{where}: two questions have the id {shown(row.id)!r}.")
        seen.add(row.id)
        questions.append(Question(**dict(row)))
        if len(questions) > MAX_QUESTIONS:
            raise ManifestError(f"{shown(path)} has more than {MAX_QUESTIONS} questions.")
    if not questions:
        raise ManifestError(f"{shown(path)} has no questions.")
    return tuple(questions)


LEAST_SHARE = 0.2
"""Smallest share of a video that a question covers."""

TEXTS: Mapping[Kind, str] = {
    "progress": "How far is the task done at the last frame, from 0 to 1?",
    "remaining": "Which of these steps are not done at the last frame?",
    "next": "Which of these steps is the first that is not done at the last frame?",
    "segmentation": "When does each of these stages begin and end?",
}


def make_questions(episodes: Iterable[Episode], *, most: int = 48, seed: int = 0) -> tuple[Question, ...]:
    """Make questions about the beginnings of some episodes, and about the stages of some.

    Args:
        episodes: The episodes; those without labelled progress, subgoals or stages are skipped.
        most: Largest number of episodes, spread over tasks, to ask about, and also to segment.

    Raises:
        OptionError: No episode has labels of these kinds.
    """
    chosen = _spread([episode for episode in episodes if episode.error is None], seed)
    questions: list[Question] = []
    for ask in (partial(_about_beginning, seed=seed), _about_stages):
        asked = filter(None, map(ask, chosen))
        questions += [question for found in islice(asked, most) for question in found]
    if not questions:
        raise OptionError(
            "No episode has labelled progress, subgoals or stages to ask about. Join labels: --labels FILE"
        )
    return tuple(questions)


def _drawn(seed: int, episode: Episode) -> bytes:
    return hashlib.sha256(f"questions\0{seed}\0{episode.id}".encode()).digest()


def _spread(episodes: Sequence[Episode], seed: int) -> list[Episode]:
    """Order episodes so that any prefix covers the tasks evenly."""
    by_task: dict[str, list[Episode]] = {}
    for episode in sorted(episodes, key=lambda episode: _drawn(seed, episode)):
        by_task.setdefault(episode.task or episode.instruction, []).append(episode)
    places = {id(one): place for group in by_task.values() for place, one in enumerate(group)}
    return sorted(episodes, key=lambda one: (places[id(one)], one.task or one.instruction))


def _about_beginning(episode: Episode, seed: int) -> list[Question]:
    share = LEAST_SHARE + (1 - LEAST_SHARE) * int.from_bytes(_drawn(seed, episode)[:8], "big") / 2**64
    to_s = _between_frames(episode, share)
    shown = perturb(episode, "cut", to_s=to_s)
    names = tuple(subgoal.name for subgoal in episode.subgoals)
    found = []
    value = _last_progress(shown)
    if 0 <= value <= 1:
        found.append(_question(episode, "progress", to_s, names, round(value, 6)))
    done = [shown.labels.subgoal(name) for name in names]
    if names and None not in done:
        left = tuple(name for name, reached in zip(names, done, strict=True) if not reached)
        found.append(_question(episode, "remaining", to_s, names, left))
        found.append(_question(episode, "next", to_s, names, left[0] if left else ""))
    return found


def _last_progress(shown: Episode) -> float:
    """Return the labelled progress of the last frame; NaN without a label."""
    if not shown.labels.potentials:
        return math.nan
    times, truth = shown.labels.progress(shown.labels.potentials[0])
    last_s = float(shown.view(shown.main_view).timestamps()[-1])
    covered = len(times) > 0 and times[0] <= last_s + LABEL_TOLERANCE_S <= times[-1] + 2 * LABEL_TOLERANCE_S
    return float(np.interp(last_s, times, truth)) if covered else math.nan


def _between_frames(episode: Episode, share: float) -> float:
    """Return a time after about this share of the frames, midway between two frames to be safe from rounding."""
    times = episode.view(episode.main_view).timestamps()
    last = min(len(times) - 1, max(1, round(share * (len(times) - 1))))
    gap = float(np.diff(times).min()) if len(times) > 1 else 0.0
    return round(float(times[last]) + gap / 2, 6)


def _about_stages(episode: Episode) -> list[Question]:
    """Make a segmentation question if a success passes every stage once; otherwise the order is ambiguous."""
    stages = episode.labels.stages
    names = tuple(stage.name for stage in stages)
    whole = len(names) == len(set(names)) == (len(episode.subgoals) or len(names))
    if len(names) < 2 or not whole or not episode.labels.success:
        return []
    spans = tuple(StageSpan(s.name, round(s.start_s, 6), round(s.end_s, 6)) for s in stages)
    return [_question(episode, "segmentation", None, names, spans)]


def _question(
    episode: Episode, kind: Kind, to_s: float | None, steps: tuple[str, ...], answer: Answer
) -> Question:
    name = f"{episode.id}/{kind}"
    task = episode.task or episode.instruction
    return Question(name, kind, episode.id, to_s, TEXTS[kind], steps, answer, task, episode.pair or "")
