"""A model names and times the stages of an episode: it plans first, and then says when each step runs.

With a vocabulary the plan is given and no other name is allowed. Without one the model drafts a plan for each
task, once, and may add a name where something else happens. An answer is taken as it stands or not at all:
what is wrong with it is told to the model, which may answer again, and what is still wrong is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import numpy as np

from stepscore.episodes import Episode, Label, Stage, sample_frames
from stepscore.episodes.labels import TaskSubgoals
from stepscore.errors import BudgetError, CapabilityError, ModelError, OptionError, RunError
from stepscore.judges import Ask
from stepscore.judges.common import fill, image_parts
from stepscore.models import Answer, Generate, Model, Part, Prompt, Turn
from stepscore.models.calls import Call
from stepscore.procedures.parse_stages import parse_stages, parse_steps
from stepscore.procedures.progress_labels import stage_names
from stepscore.procedures.spans import ODD, SLACK_S, SpanProblem, span_problems
from stepscore.runs import CallOptions, ModelClient, error_text, run_episodes, usage_of
from stepscore.types import Usage

T = TypeVar("T")

PLAN_FRAMES = 8
"""Frames of a rollout that the model sees while it plans."""


@dataclass(frozen=True)
class AnnotateOptions:
    """How a model looks and answers.

    Attributes:
        fps: Frames a second that it is shown.
        max_frames: Frames at most; a longer video is shown at a lower rate.
        size: Longer side of a frame in pixels.
        tries: Answers to one question: after one with problems the model is told them and asked again.
        max_tokens: Length of an answer at most.
    """

    fps: float = 2.0
    max_frames: int = 64
    size: int = 336
    tries: int = 2
    max_tokens: int = 1024

    def __post_init__(self) -> None:
        if self.tries < 1 or self.max_frames < 2 or self.fps <= 0:
            raise OptionError(
                f"tries is {self.tries}, max_frames {self.max_frames} and fps {self.fps}; they must be at "
                "least 1, at least 2 and above 0."
            )


@dataclass(frozen=True)
class Annotation:
    """What a model said of one episode.

    Attributes:
        episode_id: Of which.
        stages: The spans as it stated them; empty where they cannot be used.
        plan: The steps they were chosen from.
        problems: What is wrong with its last answer. Gaps and another order than the plan's leave the stages
            usable; anything else does not.
        error: Why there are no stages; ``None`` where there are.
        usage: What it took.
    """

    episode_id: str
    stages: tuple[Stage, ...] = ()
    plan: tuple[str, ...] = ()
    problems: tuple[SpanProblem, ...] = ()
    error: str | None = None
    usage: Usage = field(default_factory=Usage)

    def rows(self, author: str, created: str = "") -> tuple[Label, ...]:
        """Rows of the labels table."""
        return tuple(Label("stage", *stage, author=author, created=created) for stage in self.stages)


def annotate_episodes(
    episodes: Sequence[Episode],
    model: Model,
    folder: Path,
    *,
    vocabulary: Mapping[str, TaskSubgoals] | None = None,
    options: AnnotateOptions | None = None,
    spending: CallOptions | None = None,
    on_done: Callable[[Annotation], None] | None = None,
) -> list[Annotation]:
    """The stages of every episode, in the episodes' order; one that failed says why.

    Args:
        episodes: The rollouts.
        model: Who looks.
        folder: Where attempts are written down; a later start with the same folder goes on with its budget.
        vocabulary: The steps of each task, from ``read_subgoals``: the only names allowed.
        options: How it looks and answers.
        spending: Budget, prices, cache and connections.
        on_done: Told each annotation as it comes.
    """
    if not model.capabilities.images:
        raise CapabilityError(f"{model.name} cannot look at pictures; annotate with another model.")
    spending = spending or CallOptions()
    spending.check([model])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"Cannot make {folder}: {error.strerror or error}.") from error
    client = ModelClient(folder, spending, model)
    annotator = _Annotator(client, options or AnnotateOptions(), vocabulary)
    annotations: dict[str, Annotation] = {}

    async def annotate(episode: Episode) -> None:
        annotations[episode.id] = annotation = await annotator.annotate(episode)
        if on_done is not None:
            on_done(annotation)

    try:
        run_episodes(episodes, annotate, spending.workers([model]))
    finally:
        client.close()
    return [annotations[episode.id] for episode in episodes]


class _Annotator:
    """Plans each task once, then segments its episodes."""

    def __init__(
        self, client: ModelClient, options: AnnotateOptions, vocabulary: Mapping[str, TaskSubgoals] | None
    ) -> None:
        self._client, self._options, self._vocabulary = client, options, vocabulary
        self._plans: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def annotate(self, episode: Episode) -> Annotation:
        """Return the episode's stages, or why there are none."""
        calls: list[Call] = []
        ask = self._client.of(episode, calls)
        plan: tuple[str, ...] = ()
        try:
            plan = stage_names(episode, self._vocabulary) or await self._plan(episode, ask)
            stages, problems = await self._segment(episode, plan, ask)
        except Exception as error:
            # A spent budget does not end the work: later episodes may have their answers in the cache.
            text = str(error) if isinstance(error, BudgetError) else error_text(error)
            return Annotation(episode.id, (), plan, error=text, usage=usage_of(calls, Usage()))
        wrong = [p for p in problems if p.kind not in ODD]
        error_message = " ".join(f"{p.kind}: {p.text}" for p in wrong) or None
        usable = () if wrong else stages
        return Annotation(episode.id, usable, plan, problems, error_message, usage_of(calls, Usage()))

    async def _plan(self, episode: Episode, ask: Ask) -> tuple[str, ...]:
        """The steps of an episode's task; the first episode that needs them has them drafted."""
        task = episode.task or episode.instruction
        if task not in self._plans:
            self._plans[task] = asyncio.ensure_future(self._draft(episode, ask))
        return await self._plans[task]

    async def _draft(self, episode: Episode, ask: Ask) -> tuple[str, ...]:
        moments = sample_frames(episode, count=PLAN_FRAMES)
        pictures = image_parts(moments, "interleaved", self._options.size)
        asked = _text("stages_plan.txt", instruction=episode.instruction)
        return await self._until(ask, (*pictures, asked), lambda text: (parse_steps(text), ""))

    async def _segment(
        self, episode: Episode, plan: Sequence[str], ask: Ask
    ) -> tuple[tuple[Stage, ...], tuple[SpanProblem, ...]]:
        """The stages as last stated, and what is wrong with them."""
        moments = sample_frames(episode, fps=self._options.fps, most=self._options.max_frames)
        pictures = image_parts(moments, "interleaved", self._options.size)
        end = episode.views[episode.main_view].info().duration_s
        closed = plan if self._vocabulary is not None else None
        # Between two frames that it was shown a model cannot say where one step ends and the next begins.
        blind_s = float(np.diff(moments.times).max(initial=0.0)) + SLACK_S

        def read(text: str) -> tuple[tuple[tuple[Stage, ...], tuple[SpanProblem, ...]], str]:
            stages = parse_stages(text)
            problems = span_problems(stages, closed, duration_s=end, gap_s=blind_s)
            return (stages, problems), " ".join(p.text for p in problems if p.kind not in ODD)

        return await self._until(
            ask, (*pictures, _question(episode, plan, end, closed=closed is not None)), read
        )

    async def _until(self, ask: Ask, parts: tuple[Part, ...], read: Callable[[str], tuple[T, str]]) -> T:
        """What ``read`` makes of the first answer it has nothing to say against, or of the last."""
        turns: tuple[Turn, ...] = (Turn("user", parts),)
        for left in range(self._options.tries - 1, -1, -1):
            request = Generate(Prompt(turns), max_tokens=self._options.max_tokens, json=True)
            answer = await ask(request)
            assert isinstance(answer, Answer)
            try:
                if answer.finish == "length":
                    raise ModelError(f"The answer was cut off after {self._options.max_tokens} tokens.")
                value, complaint = read(answer.text)
            except ModelError as error:
                complaint = str(error)
                if not left:
                    raise
            else:
                if not complaint or not left:
                    return value
            said = f"That cannot be used: {complaint} Look again and answer in the same form."
            turns = (*turns, Turn("assistant", (answer.text,)), Turn("user", (said,)))
        raise AssertionError("there is at least one try")


def _question(episode: Episode, plan: Sequence[str], end: float, *, closed: bool) -> str:
    only = "Use these names exactly, and no others."
    names = only if closed else "Use these names exactly; where something else happens, name it yourself."
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(plan, start=1))
    return _text(
        "stages_segment.txt", instruction=episode.instruction, steps=steps, names=names, end=f"{end:.2f}"
    )


def _text(name: str, **fields: str) -> str:
    """Return a prompt of this room with its fields filled in."""
    return fill(files("stepscore.procedures").joinpath("prompts", name).read_text(encoding="utf-8"), **fields)
