"""Training examples from ``annotate``: its two questions, word for word, answered from labelled stages.

==============  =====================================================================================
question type   answer
==============  =====================================================================================
stages-plan     a JSON list of the task's steps, in order
stages-segment  a JSON list of the episode's stages with seconds, out of the task's steps
==============  =====================================================================================
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from stepscore.episodes import Episode, Stage, sample_frames
from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.errors import EpisodeError
from stepscore.models import Prompt, Turn
from stepscore.procedures import (
    MAX_STEPS,
    AnnotateOptions,
    check_spans,
    plan_question,
    segment_question,
    stage_spans,
)
from stepscore.training.vlm.data.judge_questions import TrainingExample


@dataclass(frozen=True)
class StageQuestions:
    """One of annotate's questions, about whole episodes.

    Attributes:
        name: Which question; see the table above.
        plans: The steps of each task in order, from :func:`recorded_plans`.
        options: Frames that the question shows.
    """

    name: Literal["stages-plan", "stages-segment"]
    plans: Mapping[str, tuple[str, ...]]
    options: AnnotateOptions

    def examples(self, episode: Episode) -> list[TrainingExample]:
        """Return the question about an episode with its right answer.

        Raises:
            EpisodeError: The labels do not state what is right.
        """
        plan = self.plans.get(_task(episode))
        if plan is None:
            raise EpisodeError(
                f"Episode {episode.id}: no success of its task has each of 2 to 8 stages once."
            )
        if self.name == "stages-plan":
            parts = plan_question(episode, self.options)
            answer = json.dumps({"steps": plan}, ensure_ascii=False)
        else:
            parts = segment_question(episode, plan, self.options, closed=True)
            answer = f'{{"stages": [{", ".join(map(_written, self._shown_stages(episode, plan)))}]}}'
        return [TrainingExample(Prompt((Turn("user", parts),)), answer, (), self.name)]

    def _shown_stages(self, episode: Episode, plan: Sequence[str]) -> list[Stage]:
        """Return the labelled stages at the times of the frames shown."""
        end = episode.views[episode.main_view].info().duration_s
        labelled = check_spans(
            stage_spans(episode),
            f"Episode {episode.id}",
            plan,
            duration_s=end + LABEL_TOLERANCE_S,
            allow=("gap", "wrong order"),
        )
        sampled = sample_frames(episode, fps=self.options.fps, most=self.options.max_frames)
        return at_shown_times(labelled, [*sampled.times.tolist(), end])


def recorded_plans(episodes: Iterable[Episode]) -> dict[str, tuple[str, ...]]:
    """Return the steps of each task in order, by task: the stages of the success that has most of them.

    A success in which a stage comes back says less of the order: what was done too fast for a frame may have been
    undone slowly. Tasks of one step, or of more than annotate asks for, are left out.
    """
    plans: dict[str, tuple[str, ...]] = {}
    for episode in episodes:
        names = tuple(stage.name for stage in episode.labels.stages)
        is_procedure = episode.labels.success and len(set(names)) == len(names)
        if is_procedure and max(1, len(plans.get(_task(episode), ()))) < len(names) <= MAX_STEPS:
            plans[_task(episode)] = names
    return plans


def at_shown_times(stages: Sequence[Stage], shown: Sequence[float]) -> list[Stage]:
    """Move stages to the nearest of the times shown; leave out those too short to span two of them.

    Args:
        stages: The stages by time.
        shown: Times of the frames shown, and the video's end.
    """
    found: list[Stage] = []
    for name, *span in stages:
        start, end = (min(shown, key=lambda time: abs(time - at)) for at in span)
        if found and found[-1].name == name and found[-1].end_s == start:
            start = found.pop().start_s
        if start < end:
            found.append(Stage(name, start, end))
    return found


def _written(stage: Stage) -> str:
    """Return a stage as annotate asks for it, seconds as they are written before the frames."""
    name = json.dumps(stage.name, ensure_ascii=False)
    return f'{{"name": {name}, "start": {stage.start_s:.2f}, "end": {stage.end_s:.2f}}}'


def _task(episode: Episode) -> str:
    return episode.task or episode.instruction
