"""Questions about one labelled episode, after ProcVLM (arXiv 2605.08774), each with its right answer.

============  ==========================================  =====================================================
kind          shows                                       answer
============  ==========================================  =====================================================
progress      the frames up to a time                     the remaining actions, then a percentage in tags
remaining     the same                                    a numbered list, or that no action is required
next          the same                                    the first action that is not done
success       the same                                    Yes. or No.
pairs         the start, and two frames                   how much of the rest got done between them, in tags
segmentation  numbered frames of the whole episode        a JSON list of actions with first and last frame
============  ==========================================  =====================================================

``progress`` and ``pairs`` are the questions of the judges ``procvlm`` and ``hop``, word for word, so that a model
fine-tuned on them can be used with these. What the labels do not state is not asked.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np

from stepscore.episodes import Episode, first_frame_from
from stepscore.errors import EpisodeError
from stepscore.judges import Hop, ProcVlm
from stepscore.models import FrameRef, get_model
from stepscore.training import EpisodeTruth, TrainingExample, sample_examples
from stepscore.types import FloatArray

Kind = Literal["progress", "remaining", "next", "success", "pairs", "segmentation"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WINDOW = 8
"""Most frames up to a time that a question shows."""
CURRENT_ONLY_PROB = 0.3
"""Probability that a question shows only the current frame."""
SEGMENTED_FRAMES = 32
"""Most frames of a question about the whole episode."""
IMAGE = "<image>"
"""Place of an image in a text."""
NO_ACTION = "No action required: the task is completed."
ASKED: Mapping[str, str] = {
    "remaining": "List the actions that are still required to complete the task, in order.",
    "next": "What is the next action that the robot has to do?",
    "success": "Is the task completed in the last image? Answer Yes or No.",
    "segmentation": (
        "Divide the video into the robot's actions. Answer with a JSON list of objects with the keys action, "
        "first_frame and last_frame."
    ),
}


@dataclass(frozen=True)
class Question:
    """One training question.

    Attributes:
        kind: Which question; see the table above.
        turns: Roles and texts before the answer, with ``<image>`` in the place of each image.
        answer: The right answer.
        frames: View and frame index of each image, in order.
    """

    kind: Kind
    turns: tuple[tuple[str, str], ...]
    answer: str
    frames: tuple[tuple[str, int], ...]


def questions_of(episode: Episode, times: int = 16) -> Iterator[Question]:
    """Yield the questions about an episode, each once: the same ones whenever and wherever they are made.

    Args:
        episode: The episode; its main view is shown.
        times: How many times of the episode each question is about, the last frame among them.
    """
    view = episode.main_view
    shown = replace(episode.with_views([view]), goals={})
    yield from dict.fromkeys(_drawn(shown, view, times))


def _drawn(shown: Episode, view: str, times: int) -> Iterator[Question]:
    """Yield the questions about an episode of one view; judges may draw a frame twice."""
    seed = int.from_bytes(hashlib.sha256(shown.id.encode()).digest()[:8])
    rng = np.random.default_rng(seed)
    truth = EpisodeTruth(shown)
    model = get_model("mock/yes")
    n = len(truth.times)
    for at in np.unique(np.linspace(0, n - 1, min(times, n)).round().astype(int)).tolist():
        for judge in (ProcVlm(model, window=WINDOW, pad=False), Hop(model)):
            try:
                examples = sample_examples(judge, shown, rng)
            except EpisodeError:
                continue
            yield from _of_judge("progress" if isinstance(judge, ProcVlm) else "pairs", examples)
        frames = _up_to(at, n, rng)
        yield from _at(truth, at, [(view, index) for index in frames])
    yield from _segmentation(shown, truth.times, view)


def _of_judge(kind: Kind, examples: Sequence[TrainingExample]) -> Iterator[Question]:
    """Yield a judge's questions, without those whose answer is prefilled."""
    for example in examples:
        prompt = example.prompt
        refs = [part for turn in prompt.turns for part in turn.parts if not isinstance(part, str)]
        frames = tuple((ref.view, ref.index) for ref in refs if isinstance(ref, FrameRef))
        if prompt.prefill or len(frames) < len(refs):
            continue
        turns = tuple(
            (turn.role, "".join(_plain(part) if isinstance(part, str) else IMAGE for part in turn.parts))
            for turn in prompt.turns
        )
        yield Question(kind, turns, example.answer, frames)


def _up_to(at: int, n: int, rng: np.random.Generator) -> list[int]:
    """Return the current frame, and mostly some before it at even distances."""
    if rng.random() < CURRENT_ONLY_PROB:
        return [at]
    step = max(1, n // 32)
    return [index for index in range(at - (WINDOW - 1) * step, at + 1, step) if index >= 0]


def _at(truth: EpisodeTruth, at: int, frames: Sequence[tuple[str, int]]) -> Iterator[Question]:
    """Yield the questions about one time whose answers the labels state."""
    at_s = float(truth.times[at])
    with suppress(EpisodeError):
        left = truth.remaining(at_s)
        numbered = "\n".join(f"{number}. {name}" for number, name in enumerate(left, start=1))
        yield _asked("remaining", truth.episode, frames, numbered or NO_ACTION)
        yield _asked("next", truth.episode, frames, left[0] if left else NO_ACTION)
    with suppress(EpisodeError):
        yield _asked("success", truth.episode, frames, "Yes." if truth.succeeded(at_s) else "No.")


def _segmentation(episode: Episode, times: FloatArray, view: str) -> Iterator[Question]:
    """Yield the question about the whole episode, if its stages are labelled and a frame shows one."""
    n = len(times)
    chosen = np.unique(np.linspace(0, n - 1, min(SEGMENTED_FRAMES, n)).round().astype(int))
    actions = []
    for stage in episode.labels.stages:
        first, end = first_frame_from(times[chosen], [stage.start_s, stage.end_s]).tolist()
        if first < end:
            actions.append({"action": stage.name, "first_frame": first + 1, "last_frame": end})
    if actions:
        frames = [(view, index) for index in chosen.tolist()]
        yield _asked("segmentation", episode, frames, json.dumps(actions, ensure_ascii=False), numbered=True)


def _asked(
    kind: Kind, episode: Episode, frames: Sequence[tuple[str, int]], answer: str, *, numbered: bool = False
) -> Question:
    images = [f"Frame {number}: {IMAGE}\n" if numbered else IMAGE for number in range(1, len(frames) + 1)]
    text = f'{"".join(images)}\nThe task of the robot is "{_plain(episode.instruction)}". {ASKED[kind]}'
    return Question(kind, (("user", text),), answer, tuple(frames))


def _plain(text: str) -> str:
    """Return a text without what would count as an image."""
    return text.replace(IMAGE, "image")
