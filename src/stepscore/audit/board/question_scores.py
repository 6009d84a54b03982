"""Score a judge's answers to questions, read off its curves and verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from stepscore.analysis.against_labels import level_estimate
from stepscore.audit.board.questions import Question, StageSpan
from stepscore.audit.board.row import Points
from stepscore.episodes import Episode, perturb
from stepscore.errors import ManifestError
from stepscore.metrics.stats import rate_estimate
from stepscore.types import Estimate, FloatArray

Stages = Mapping[str, Sequence[float]]
"""By video: the judge's own stage at each point of its curve."""


def question_videos(questions: Sequence[Question], episodes: Mapping[str, Episode]) -> Mapping[str, Episode]:
    """Return the video of every question by its id: the episode, or its beginning.

    Raises:
        ManifestError: A question is about an unknown episode.
    """
    beginnings: dict[tuple[str, float], Episode] = {}
    videos = {}
    for question in questions:
        if question.episode not in episodes:
            raise ManifestError(
                f"Question {question.id} is about episode {question.episode!r}, which is not in the source. "
                "Pass the source that the questions were made from."
            )
        episode = episodes[question.episode]
        if question.to_s is not None:
            key = (question.episode, question.to_s)
            if key not in beginnings:
                beginnings[key] = perturb(episode, "cut", to_s=question.to_s)
            episode = beginnings[key]
        videos[question.id] = episode
    return videos


def score_questions(
    questions: Sequence[Question],
    videos: Mapping[str, Episode],
    said: Mapping[str, Points],
    stages: Stages | None = None,
) -> dict[str, Estimate]:
    """Return the mean score of every kind of question; intervals resample scenes within tasks.

    ============  ==================================================================================================
    progress      absolute error of the last progress
    remaining     1 if the subgoals with the verdict no are exactly those not done
    next          1 if the first of them is the right one
    segmentation  share of the curve's points in the right stage: the judge's own, else the k-th of n equal parts
                  of its progress
    ============  ==================================================================================================

    Args:
        videos: The video of each question, by its id.
        said: The judge's answers by id of the videos' episodes.
        stages: Its own stages, if it states any.
    """
    kinds: dict[str, tuple[Callable[..., float], Callable[..., Estimate]]] = {
        "progress": (_progress, level_estimate),
        "remaining": (_remaining, _rate),
        "next": (_next, _rate),
        "segmentation": (_segmentation, level_estimate),
    }
    found = {}
    for kind, (score, estimate) in kinds.items():
        asked = [question for question in questions if question.kind == kind]
        if not asked:
            continue
        names = [videos[question.id].id for question in asked]
        scores = [
            score(question, said.get(name, Points()), (stages or {}).get(name))
            for question, name in zip(asked, names, strict=True)
        ]
        found[kind] = estimate(np.array(scores, dtype=np.float64), _resampling(asked))
    return found


def _rate(outcomes: FloatArray, groups: dict[str, Any]) -> Estimate:
    return rate_estimate(outcomes, **groups)


def _resampling(questions: Sequence[Question]) -> dict[str, Any]:
    return {
        "clusters": [question.scene or question.episode for question in questions],
        "strata": [question.task for question in questions],
    }


def _progress(question: Question, said: Points, stages: Sequence[float] | None) -> float:
    assert isinstance(question.answer, float)
    last = said.progress[-1] if said.progress else None
    return math.nan if last is None else abs(last - question.answer)


def _left(question: Question, said: Points) -> list[str | None]:
    """Return the steps that the judge says are not done; ``None`` in place of unknown ones."""
    answers = [said.verdicts.get(step, "unknown") for step in question.steps]
    named = zip(question.steps, answers, strict=True)
    return [None if answer == "unknown" else step for step, answer in named if answer != "yes"]


def _remaining(question: Question, said: Points, stages: Sequence[float] | None) -> float:
    left = _left(question, said)
    return math.nan if None in left else float(tuple(left) == question.answer)


def _next(question: Question, said: Points, stages: Sequence[float] | None) -> float:
    left = _left(question, said)
    first = left[0] if left else ""
    return math.nan if first is None else float(first == question.answer)


def _segmentation(question: Question, said: Points, stages: Sequence[float] | None) -> float:
    times, n = np.array(said.time_s), len(question.steps)
    if stages is None:
        progress = np.array([math.nan if p is None else p for p in said.progress], dtype=np.float64)
        numbers = np.minimum(np.floor(progress * n), n - 1)
    else:
        numbers = np.asarray(stages, dtype=np.float64)
    right = []
    assert isinstance(question.answer, tuple)
    for span in question.answer:
        assert isinstance(span, StageSpan)
        inside = (times >= span.start_s) & (times < span.end_s) & ~np.isnan(numbers)
        right += (numbers[inside] == question.steps.index(span.stage)).tolist()
    return float(np.mean(right)) if right else math.nan
