"""Questions from episodes with labelled progress, subgoals and stages."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

import numpy as np

from stepscore.audit.board.questions.question import Answer, Kind, Question, StageSpan
from stepscore.episodes import Episode, perturb
from stepscore.episodes.labels import LABEL_TOLERANCE_S
from stepscore.errors import OptionError

LEAST_SHARE = 0.2
"""Least share of a video that is shown."""

TEXTS: Mapping[Kind, str] = {
    "progress": "How far is the task done at the last frame, from 0 to 1?",
    "remaining": "Which of these steps are not done at the last frame?",
    "next": "Which of these steps is the first that is not done at the last frame?",
    "segmentation": "When does each of these stages begin and end?",
}


def make_questions(episodes: Iterable[Episode], *, most: int = 48, seed: int = 0) -> tuple[Question, ...]:
    """Ask about the beginnings of some episodes, and for the stages of some.

    Args:
        episodes: Episodes with labelled progress, subgoals or stages; others give no question.
        most: Most episodes that are asked about, spread over tasks; and most that are segmented.
        seed: Random seed; what is asked of an episode depends on it and the episode's id alone.

    Raises:
        OptionError: No episode has such labels.
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
    """Return the episodes so that any first part is spread over tasks."""
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
    """Return the labelled progress of a video's last frame; NaN where it is not labelled."""
    if not shown.labels.potentials:
        return math.nan
    times, truth = shown.labels.progress(shown.labels.potentials[0])
    last_s = float(shown.view(shown.main_view).timestamps()[-1])
    covered = len(times) > 0 and times[0] <= last_s + LABEL_TOLERANCE_S <= times[-1] + 2 * LABEL_TOLERANCE_S
    return float(np.interp(last_s, times, truth)) if covered else math.nan


def _between_frames(episode: Episode, share: float) -> float:
    """Return a time after about this share of the frames, half-way to the next: no rounding changes what is shown."""
    times = episode.view(episode.main_view).timestamps()
    last = min(len(times) - 1, max(1, round(share * (len(times) - 1))))
    gap = float(np.diff(times).min()) if len(times) > 1 else 0.0
    return round(float(times[last]) + gap / 2, 6)


def _about_stages(episode: Episode) -> list[Question]:
    """Ask for the stages of a success that goes through every stage once: others have no one procedure."""
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
