"""Draft subgoals with a model from an instruction and, if given, a video of the task."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stepscore._files import write_text
from stepscore.episodes import Episode, Subgoal
from stepscore.errors import BudgetError, CapabilityError, EpisodeError, ModelError, first_field_error
from stepscore.judges.common import load_prompt
from stepscore.models import FrameRef, Generate, Model, Prompt, Turn, run_blocking
from stepscore.models.calls import Call, CallOptions, opened_chain
from stepscore.procedures.model_answers import SUBGOALS, is_structured
from stepscore.types import SuccessMode

PLAN_FRAMES, FRAME_SIZE = 8, 336
"""Frames of the video in the request, and their longer side in pixels."""


@dataclass(frozen=True)
class SubgoalDraft:
    """Subgoals drafted by a model, in order and unreviewed.

    Attributes:
        success: Whether success counts ``ever`` or only if it ``holds`` at the end.
        task: The task under which they are written; by default the instruction.
    """

    instruction: str
    subgoals: tuple[Subgoal, ...]
    success: SuccessMode
    model: str
    task: str | None = None


class _PlannedSubgoal(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str = Field(min_length=1)
    criterion: str = Field(min_length=1)
    mode: SuccessMode


class _Plan(BaseModel):
    model_config = ConfigDict(extra="ignore")
    success: SuccessMode = "holds"
    subgoals: list[_PlannedSubgoal] = Field(min_length=1)


def plan_subgoals(
    instruction: str,
    model: Model,
    folder: Path,
    *,
    episode: Episode | None = None,
    call_options: CallOptions | None = None,
    structured: bool | None = None,
) -> SubgoalDraft:
    """Draft ordered, unreviewed subgoals for an instruction.

    Args:
        model: It must accept images if there is an episode.
        folder: Where attempts are recorded.
        episode: A rollout of the task; some of its frames are in the request.
        structured: Hold the answer to a JSON schema; by default if the model supports it.

    Raises:
        ModelError: The answer does not state subgoals; it is not cached.
    """
    if episode is not None and not model.capabilities.images:
        raise CapabilityError(
            f"{model.name} does not accept images; plan without --video, or with another model."
        )
    schema = SUBGOALS if is_structured(model, structured=structured) else None
    prompt = Prompt((Turn("user", _parts(instruction, episode)),))
    request = Generate(prompt, max_tokens=1024, json=True, schema=schema)
    call_options = call_options or CallOptions()
    call_options.check([model])
    calls: list[Call] = []
    with opened_chain(folder, call_options, model) as chain:
        answer = run_blocking(chain.ask_about(episode or Episode("plan", instruction), calls)(request))
        try:
            return _draft(instruction, parse_plan(answer.text), model.name)
        except ModelError:
            chain.forget(calls)
            raise


def _draft(instruction: str, plan: _Plan, model: str) -> SubgoalDraft:
    names = [subgoal.name for subgoal in plan.subgoals]
    if len(set(names)) < len(names):
        raise ModelError(
            f"{model} named a subgoal twice: {', '.join(names)}. Ask again, or write them by hand."
        )
    subgoals = tuple(Subgoal(s.name, s.criterion, s.mode, reviewed=False) for s in plan.subgoals)
    return SubgoalDraft(instruction, subgoals, plan.success, model)


def plan_tasks(
    episodes: Sequence[Episode],
    model: Model,
    folder: Path,
    *,
    call_options: CallOptions | None = None,
    structured: bool | None = None,
    on_done: Callable[[SubgoalDraft], None] = lambda draft: None,
) -> tuple[list[SubgoalDraft], dict[str, str]]:
    """Draft the subgoals of every task of a source, each from its first readable episode.

    Frames are in the request if the model accepts images. Return the drafts in order, and errors by task.

    Args:
        folder: Where attempts are recorded.
        structured: As in :func:`plan_subgoals`.

    Raises:
        BudgetError: The budget was spent before any task was drafted.
    """
    first: dict[str, Episode] = {}
    for episode in episodes:
        if episode.error is None and episode.instruction.strip():
            first.setdefault(episode.task or episode.instruction, episode)
    drafts, failures, stopped = list[SubgoalDraft](), dict[str, str](), None
    for task, episode in first.items():
        shown = episode if model.capabilities.images and episode.views else None
        try:
            draft = plan_subgoals(
                episode.instruction,
                model,
                folder,
                episode=shown,
                call_options=call_options,
                structured=structured,
            )
        except (ModelError, EpisodeError, BudgetError) as error:
            # A spent budget does not end the work: later tasks may have their answers in the cache.
            failures[task] = str(error)
            stopped = error if isinstance(error, BudgetError) else stopped
            continue
        drafts.append(replace(draft, task=task))
        on_done(drafts[-1])
    if stopped is not None and not drafts:
        raise stopped
    return drafts, failures


def parse_plan(text: str) -> _Plan:
    """Parse the JSON object of a plan, bare or in a fenced block."""
    fenced = re.search(r"```(?:json)?\s*(\{.*?\})\s*```", text, re.DOTALL)
    bare = re.search(r"\{.*\}", text, re.DOTALL)
    content = fenced.group(1) if fenced else (bare.group(0) if bare else "")
    try:
        return _Plan.model_validate(json.loads(content))
    except json.JSONDecodeError as error:
        raise ModelError(f"The answer states no plan ({error}): {text[:200]!r}") from None
    except ValidationError as error:
        first = first_field_error(error)
        raise ModelError(
            f"The answer states no plan ({first.field}: {first.message}): {text[:200]!r}"
        ) from None


def write_subgoals(drafts: SubgoalDraft | Sequence[SubgoalDraft], path: Path) -> None:
    """Write drafts as a subgoals file, with ``reviewed: false`` for a person to change."""
    listed = [drafts] if isinstance(drafts, SubgoalDraft) else drafts
    content = {"tasks": {draft.task or draft.instruction: _entry(draft) for draft in listed}}
    head = f"# Drafted by {listed[0].model}. Read each subgoal against a video, then set reviewed: true.\n"
    write_text(path, head + yaml.safe_dump(content, sort_keys=False, allow_unicode=True))


def _entry(draft: SubgoalDraft) -> dict[str, object]:
    return {
        "success": draft.success,
        "subgoals": [
            {"name": s.name, "criterion": s.criterion, "mode": s.mode, "reviewed": s.reviewed}
            for s in draft.subgoals
        ],
    }


def _parts(instruction: str, episode: Episode | None) -> tuple[str | FrameRef, ...]:
    # The file's last line break is part of the prompt, and so of the keys of cached answers.
    question = load_prompt("plan", "stepscore.procedures").fill(instruction=instruction) + "\n"
    if episode is None:
        return (question,)
    view = episode.main_view
    n_frames = episode.views[view].info().n_frames
    indices = np.round(np.linspace(0, n_frames - 1, PLAN_FRAMES)).astype(int)
    frames = tuple(FrameRef(view, int(i), FRAME_SIZE) for i in dict.fromkeys(indices.tolist()))
    return ("Frames of a robot at this task, in order:", *frames, question)
