"""Annotate stages with a model: it plans the stages of a task, then states when each one runs.

With a vocabulary, the plan is given and no other name is allowed. Without one, the model drafts a plan per
task and may add names. An answer is used unchanged or not used: its problems are sent back for another try,
and those that remain are reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from stepscore.episodes import Episode, Label, SampledFrames, Stage, sample_frames
from stepscore.episodes.labels import TaskSubgoals
from stepscore.errors import BudgetError, CapabilityError, ModelError, OptionError, RunError, exits_as_errors
from stepscore.judges import Ask
from stepscore.judges.common import image_parts, load_prompt
from stepscore.models import Generate, Model, Part, Prompt, Turn
from stepscore.models.calls import Call, CallChain, CallOptions, opened_chain, usage_of
from stepscore.models.schemas import UNKNOWN, Schema
from stepscore.procedures.model_answers import (
    STEPS,
    is_structured,
    known_stages,
    parse_stages,
    parse_steps,
    stages_schema,
)
from stepscore.procedures.progress_labels import stage_names
from stepscore.procedures.spans import SPAN_TOLERANCE_S, TOLERATED, SpanProblem, span_problems
from stepscore.runs import error_text, run_episodes
from stepscore.types import Usage

T = TypeVar("T")

PLAN_FRAMES = 8
"""Frames of a rollout in a request for a plan."""


@dataclass(frozen=True)
class AnnotateOptions:
    """Frames and answers of an annotation.

    Attributes:
        fps: Frames per second in a request.
        max_frames: Most frames in a request; longer videos are sampled at a lower rate.
        size: Longer side of a frame in pixels.
        tries: Most answers to a question; problems with an answer are part of the next try.
        structured: Hold answers to a JSON schema with the names of a vocabulary; by default if the model
            supports it. A
        stage called unknown is then time that belongs to no stage.
    """

    fps: float = 2.0
    max_frames: int = 64
    size: int = 336
    tries: int = 2
    max_tokens: int = 1024
    structured: bool | None = None

    def __post_init__(self) -> None:
        if self.tries < 1 or self.max_frames < 2 or self.fps <= 0:
            raise OptionError(
                f"tries, max_frames and fps must be at least 1, at least 2 and above 0, got {self.tries}, "
                f"{self.max_frames} and {self.fps}."
            )


@dataclass(frozen=True)
class Annotation:
    """Stages of one episode as annotated by a model.

    Attributes:
        stages: Empty if they cannot be used.
        plan: The stage names to choose from.
        problems: Problems with the last answer; only gaps and another order than the plan's leave the stages
            usable.
        error: Why there are no stages; ``None`` if there are.
    """

    episode_id: str
    stages: tuple[Stage, ...] = ()
    plan: tuple[str, ...] = ()
    problems: tuple[SpanProblem, ...] = ()
    error: str | None = None
    usage: Usage = field(default_factory=Usage)

    def rows(self, author: str, created: str = "") -> tuple[Label, ...]:
        """Return the stages as rows of the labels table."""
        return tuple(Label("stage", *stage, author=author, created=created) for stage in self.stages)


def annotate_episodes(
    episodes: Sequence[Episode],
    model: Model,
    folder: Path,
    *,
    vocabulary: Mapping[str, TaskSubgoals] | None = None,
    options: AnnotateOptions | None = None,
    call_options: CallOptions | None = None,
    on_done: Callable[[Annotation], None] | None = None,
) -> list[Annotation]:
    """Annotate the stages of every episode, in order; failed annotations have an error.

    Args:
        model: A model that accepts images.
        folder: Where attempts are recorded; rerunning with the same folder continues its budget.
        vocabulary: The only allowed stages of each task, from ``read_subgoals``.
        on_done: Called with each finished annotation.
    """
    if not model.capabilities.images:
        raise CapabilityError(f"{model.name} does not accept images. Annotate with another model.")
    options, call_options = options or AnnotateOptions(), call_options or CallOptions()
    held = is_structured(model, structured=options.structured)
    call_options.check([model])
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"Cannot make {folder}: {error.strerror or error}.") from error
    annotations: dict[str, Annotation] = {}
    with opened_chain(folder, call_options, model) as chain:
        annotator = _Annotator(chain, options, vocabulary, held=held)

        async def annotate(episode: Episode) -> None:
            annotations[episode.id] = annotation = await annotator.annotate(episode)
            if on_done is not None:
                on_done(annotation)

        run_episodes(episodes, annotate, call_options.workers([model]))
    return [annotations[episode.id] for episode in episodes]


class _Annotator:
    """Plans each task once, then segments its episodes."""

    def __init__(
        self,
        chain: CallChain,
        options: AnnotateOptions,
        vocabulary: Mapping[str, TaskSubgoals] | None,
        *,
        held: bool,
    ) -> None:
        self._chain, self._options, self._vocabulary, self._held = chain, options, vocabulary, held
        self._plans: dict[str, asyncio.Task[tuple[str, ...]]] = {}

    async def annotate(self, episode: Episode) -> Annotation:
        """Return the episode's stages, or why there are none."""
        calls: list[Call] = []
        ask = self._chain.ask_about(episode, calls)
        plan: tuple[str, ...] = ()
        try:
            with exits_as_errors():
                plan = stage_names(episode, self._vocabulary) or await self._plan(episode, ask)
                stages, problems = await self._segment(episode, plan, ask)
        except Exception as error:
            # A spent budget does not end the work: later episodes may have their answers in the cache.
            text = str(error) if isinstance(error, BudgetError) else error_text(error)
            return Annotation(episode.id, (), plan, error=text, usage=usage_of(calls, Usage()))
        fatal = [p for p in problems if p.kind not in TOLERATED]
        error_message = " ".join(f"{p.kind}: {p.text}" for p in fatal) or None
        usable = () if fatal else stages
        return Annotation(episode.id, usable, plan, problems, error_message, usage_of(calls, Usage()))

    async def _plan(self, episode: Episode, ask: Ask) -> tuple[str, ...]:
        """Return the stage names of an episode's task, drafted once per task."""
        task = episode.task or episode.instruction
        if task not in self._plans:
            self._plans[task] = asyncio.ensure_future(self._draft(episode, ask))
        return await self._plans[task]

    async def _draft(self, episode: Episode, ask: Ask) -> tuple[str, ...]:
        parts = plan_question(episode, self._options)
        return await self._ask_until_usable(ask, parts, STEPS, lambda text: (parse_steps(text), ""))

    async def _segment(
        self, episode: Episode, plan: Sequence[str], ask: Ask
    ) -> tuple[tuple[Stage, ...], tuple[SpanProblem, ...]]:
        """Return the last stated stages and the problems with them."""
        sampled = _segment_frames(episode, self._options)
        end = episode.views[episode.main_view].info().duration_s
        closed = plan if self._vocabulary is not None else None
        # Between two sampled frames a model cannot know where one stage ends and the next begins.
        frame_gap_s = float(np.diff(sampled.times).max(initial=0.0)) + SPAN_TOLERANCE_S

        def read(text: str) -> tuple[tuple[tuple[Stage, ...], tuple[SpanProblem, ...]], str]:
            stages = parse_stages(text)
            if self._held and UNKNOWN not in plan:
                stages = known_stages(stages)
            # The question states the end in hundredths, perhaps rounded up.
            stages = tuple(s._replace(end_s=end) if end < s.end_s <= round(end, 2) else s for s in stages)
            problems = span_problems(stages, closed, duration_s=end, gap_s=frame_gap_s)
            return (stages, problems), " ".join(p.text for p in problems if p.kind not in TOLERATED)

        parts = segment_question(episode, plan, self._options, closed=closed is not None)
        return await self._ask_until_usable(ask, parts, stages_schema(closed), read)

    async def _ask_until_usable(
        self, ask: Ask, parts: tuple[Part, ...], schema: Schema, read: Callable[[str], tuple[T, str]]
    ) -> T:
        """Return what ``read`` parses from the first answer without a complaint, or from the last."""
        held = schema if self._held else None
        turns: tuple[Turn, ...] = (Turn("user", parts),)
        for left in range(self._options.tries - 1, -1, -1):
            request = Generate(Prompt(turns), max_tokens=self._options.max_tokens, json=True, schema=held)
            answer = await ask(request)
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
            # Part of a prompt: changing these words, or a complaint's, invalidates cached answers.
            feedback = f"That cannot be used: {complaint} Look again and answer in the same form."
            turns = (*turns, Turn("assistant", (answer.text,)), Turn("user", (feedback,)))
        raise AssertionError("there is at least one try")


def plan_question(episode: Episode, options: AnnotateOptions) -> tuple[Part, ...]:
    """Return the question for the steps of an episode's task."""
    images = image_parts(sample_frames(episode, count=PLAN_FRAMES), "interleaved", options.size)
    return (*images, _fill_prompt("stages_plan", instruction=episode.instruction))


def segment_question(
    episode: Episode, plan: Sequence[str], options: AnnotateOptions, *, closed: bool
) -> tuple[Part, ...]:
    """Return the question for the stages of an episode; if ``closed``, no other name is allowed."""
    images = image_parts(_segment_frames(episode, options), "interleaved", options.size)
    end = episode.views[episode.main_view].info().duration_s
    only = "Use these names exactly, and no others."
    names = only if closed else "Use these names exactly; where something else happens, name it yourself."
    steps = "\n".join(f"{number}. {step}" for number, step in enumerate(plan, start=1))
    question = _fill_prompt(
        "stages_segment", instruction=episode.instruction, steps=steps, names=names, end=f"{end:.2f}"
    )
    return (*images, question)


def _segment_frames(episode: Episode, options: AnnotateOptions) -> SampledFrames:
    return sample_frames(episode, fps=options.fps, most=options.max_frames)


def _fill_prompt(name: str, **fields: str) -> str:
    """Return a prompt of this room with its fields filled in."""
    # The file's last line break is part of these prompts, and so of the keys of cached answers.
    return load_prompt(name, "stepscore.procedures").fill(**fields) + "\n"
