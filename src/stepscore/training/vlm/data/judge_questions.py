"""Lessons: the questions judges ask, word for word, each with its right answer.

The real judge is run on a labelled episode. Whoever answers it knows the labels: every question is kept, and
answered rightly in the form it asks for. So a model is trained on the prompts it will be judged by.

===============  =======================================================================================
form             answer
===============  =======================================================================================
stepeval-all     a JSON object with an entry for every subgoal
stepeval-one     a JSON object about one subgoal
stepeval-tokens  one of two words
procvlm          the remaining steps, then the percentage
procvlm-direct   the percentage alone: the answer is begun by ``oracle.DIRECT``
hop              a signed percentage in ``<score>`` tags
topreward        one of two words after a prefix of the video
===============  =======================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.perturbations import SAME_TIMESTAMP_S, Cut, RetimedView
from stepscore.errors import OptionError
from stepscore.judges import Hop, Judge, Mode, ProcVlm, StepEval, TopReward
from stepscore.judges.common import sample_frames
from stepscore.models import (
    Answer,
    Generate,
    Model,
    PrefixScores,
    Prompt,
    Request,
    Response,
    Score,
    ScorePrefixes,
    Scores,
    Turn,
    VideoFrames,
)
from stepscore.training.sync_runner import run_at_once
from stepscore.training.vlm.data import answer_key as oracle
from stepscore.training.vlm.data.answer_key import EpisodeTruth, UnlabelledMomentError

Form = Literal[
    "stepeval-all", "stepeval-one", "stepeval-tokens", "procvlm", "procvlm-direct", "hop", "topreward"
]
UNLIKELY = -30.0
"""Log-probability of a wrong word for one who knows the right one."""
Teachable = StepEval | ProcVlm | Hop | TopReward


@dataclass(frozen=True)
class Lesson:
    """A question and its right answer.

    Attributes:
        prompt: The question, its pictures by name (view and frame of the episode). Of ``topreward`` the one
            turn holds the text before the film, the film and the text after it, markup included: they are
            read as they stand, without a chat template.
        answer: What the assistant should say; of a question for words, the right candidate.
        candidates: The words to choose from, where the question is for words.
        form: Which of the forms above.
    """

    prompt: Prompt
    answer: str
    candidates: tuple[str, ...]
    form: Form


def lessons(judge: Judge, episode: Episode) -> list[Lesson]:
    """Every question the judge asks about the episode, in the order asked, with its right answer.

    Repeats of a question are one lesson. A procvlm question makes two: ``procvlm`` and ``procvlm-direct``.

    Raises:
        EpisodeError: The episode lacks labels that a right answer needs; the message names them.
    """
    taught, truth = _teachable(judge), EpisodeTruth(episode)
    found: list[Lesson] = []

    async def ask(request: Request, model: Model | None = None) -> Response:
        right = _lessons_of(taught, request, truth)
        found.extend(right if request.repeat == 0 else [])
        return _response(request, right)

    run_at_once(judge.judge(episode, ask))
    return found


def moment_lessons(judge: Judge, episode: Episode, rng: np.random.Generator) -> list[Lesson]:
    """What is asked about a moment drawn at random; nothing where the labels do not say what is right there.

    The moment is any of the main view's frames, each as likely, and the judge is asked about the episode up
    to it, with moments as far apart as over the whole of it: about every subgoal, in one of hop's modes, with and
    without remaining actions. TOPReward's prefix is drawn among those it scores. Nothing is decoded, unless hop
    compares goal images with the start.

    Args:
        judge: Who asks.
        episode: About what; frames named in the lessons are its own.
        rng: What draws.

    Raises:
        EpisodeError: The episode lacks labels that a right answer needs; the message names them.
    """
    taught, truth = _teachable(judge), EpisodeTruth(episode)
    shown, shorter = episode, taught
    if not isinstance(taught, TopReward):
        first = min(isinstance(taught, Hop), len(truth.times) - 1)
        last = int(rng.integers(first, len(truth.times)))
        shown = _up_to(episode, float(truth.times[last]))
        shorter = _shorter(taught, episode, last / max(1, len(truth.times) - 1), rng)
    requests: list[Request] = []

    async def ask(request: Request, model: Model | None = None) -> Response:
        requests.append(request)
        # StepEval may tell what was judged before; no other question depends on an answer.
        known = isinstance(taught, StepEval)
        return _response(request, _lessons_of(taught, request, truth) if known else [])

    try:
        run_at_once(shorter.judge(shown, ask))
        if isinstance(taught, ProcVlm | Hop):  # they ask of one moment after the other
            requests = requests[-1:]
        elif isinstance(taught, TopReward):
            requests = [_one_prefix(requests[int(rng.integers(len(requests)))], rng)]
        return [lesson for request in requests for lesson in _lessons_of(taught, request, truth)]
    except UnlabelledMomentError:
        return []


def _teachable(judge: Judge) -> Teachable:
    if not isinstance(judge, Teachable):
        raise OptionError(
            f"No lessons in the questions of {judge.name}. Use stepeval, procvlm, hop or topreward."
        )
    if isinstance(judge, StepEval) and judge.answer == "statement":
        raise OptionError(
            "stepeval's statements are TOPReward's, and learned as such. Use answer=tokens or text."
        )
    if isinstance(judge, TopReward) and judge.variant != "token":
        raise OptionError("topreward asks for no answer with variant=instruction. Use variant=token.")
    return judge


def _lessons_of(judge: Teachable, request: Request, truth: EpisodeTruth) -> list[Lesson]:
    """The lessons in one question."""
    if isinstance(request, ScorePrefixes):
        return _of_prefixes(request, truth)
    if isinstance(judge, StepEval):
        answer = oracle.stepeval_answer(judge, request, truth)
        if isinstance(request, Score):
            return [Lesson(request.prompt, answer, request.candidates, "stepeval-tokens")]
        form: Form = "stepeval-all" if judge.strategy == "all-at-once" else "stepeval-one"
        return [Lesson(request.prompt, answer, (), form)]
    if isinstance(judge, Hop):
        return [Lesson(request.prompt, oracle.hop_answer(request.prompt, truth), (), "hop")]
    percentage = oracle.procvlm_percentage(request.prompt, truth)
    return [
        Lesson(request.prompt, oracle.procvlm_answer(request.prompt, truth), (), "procvlm"),
        Lesson(oracle.without_steps(request.prompt), percentage, (), "procvlm-direct"),
    ]


def _of_prefixes(request: ScorePrefixes, truth: EpisodeTruth) -> list[Lesson]:
    """A lesson for every prefix, by whether success counts at its last frame."""
    film = request.film
    assert isinstance(film, VideoFrames)
    times = truth.episode.views[film.view].timestamps()
    found = []
    for length in request.lengths:
        seen = replace(film, indices=film.indices[:length])
        done = truth.succeeded(float(times[seen.indices[-1]]))
        prompt = Prompt((Turn("user", (request.head, seen, request.tails[0])),))
        found.append(Lesson(prompt, request.candidates[0 if done else 1], request.candidates, "topreward"))
    return found


def _response(request: Request, right: Sequence[Lesson]) -> Response:
    """The right answer as a model would give it, sure of itself; nothing readable where none is given."""
    if isinstance(request, Generate):
        return Answer(right[0].answer if right else "")
    chosen = [[0.0 if word == lesson.answer else UNLIKELY for word in request.candidates] for lesson in right]
    if isinstance(request, Score):
        values = chosen[0] if chosen else [math.nan] * len(request.candidates)
        return Scores(tuple(values), (False,) * len(values))
    shape = (1, len(request.lengths), len(request.candidates))
    return PrefixScores(np.reshape(chosen, shape) if chosen else np.full(shape, np.nan))


def _one_prefix(request: Request, rng: np.random.Generator) -> Request:
    if not isinstance(request, ScorePrefixes):
        return request
    return replace(request, lengths=(int(rng.choice(request.lengths)),))


def _up_to(episode: Episode, last_s: float) -> Episode:
    """The episode up to the frame at ``last_s``; its frames keep their numbers."""
    cut = Cut(last_s + 2 * SAME_TIMESTAMP_S)
    return replace(episode, views={name: RetimedView(view, cut) for name, view in episode.views.items()})


def _shorter(
    judge: StepEval | ProcVlm | Hop, episode: Episode, share: float, rng: np.random.Generator
) -> StepEval | ProcVlm | Hop:
    """The judge with no more questions about a share of the episode than one moment's question needs."""
    if isinstance(judge, StepEval):
        return judge if judge.repeats == 1 else replace(judge, repeats=1)
    if isinstance(judge, ProcVlm) and judge.spacing_s is not None:
        return replace(judge, points=1, fps=None)
    extra = isinstance(judge, Hop)  # the first frame, which it does not judge
    even = None if judge.fps is not None else judge.points + extra
    times = sample_frames(episode, count=even, fps=judge.fps, most=judge.max_points + extra).times
    if isinstance(judge, ProcVlm):
        apart = float(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
        return replace(judge, points=1, fps=None, spacing_s=apart)
    modes: list[Mode] = ["incremental", "forward", "backward"]
    mode = modes[int(rng.integers(3))] if judge.mode == "fused" else judge.mode
    points = max(1, round(share * (len(times) - 1)))
    return replace(judge, points=points, fps=None, mode=mode if episode.goals else "incremental")
