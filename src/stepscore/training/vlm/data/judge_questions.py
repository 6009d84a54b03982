"""Training examples from the judges: their exact questions, each with the correct answer.

The real judge runs on a labelled episode, and its requests are answered from the labels. Each question is
kept with the correct answer in the requested format, so a model is trained on the prompts it will see in use.

===============  =======================================================================================
question type    answer
===============  =======================================================================================
stepeval-all     a JSON object with an entry for every subgoal
stepeval-one     a JSON object about one subgoal
stepeval-tokens  one of two words
procvlm          the remaining steps, then the percentage
procvlm-direct   only the percentage: the answer begins with ``answer_key.DIRECT``
hop              a signed percentage in ``<score>`` tags
gvl              a line with a percentage for every frame, in the order shown
topreward        one of two words after a prefix of the video
===============  =======================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, Episode, sample_frames
from stepscore.episodes.perturbations import Cut, RetimedView
from stepscore.errors import OptionError
from stepscore.judges import Gvl, Hop, HopMode, Judge, ProcVlm, StepEval, TopReward
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
    VideoFrames,
    VideoPrefix,
)
from stepscore.training.sync_runner import run_sync
from stepscore.training.vlm.data import answer_key
from stepscore.training.vlm.data.answer_key import EpisodeTruth, PercentAnswer, UnlabelledTimeError

QuestionType = Literal[
    "stepeval-all",
    "stepeval-one",
    "stepeval-tokens",
    "procvlm",
    "procvlm-direct",
    "hop",
    "gvl",
    "topreward",
    "stages-plan",
    "stages-segment",
]
RANDOM_PAIR_PROB = 0.7
"""Probability that hop compares two random frames instead of two neighbouring sample points."""
WRONG_WORD_LOGPROB = -30.0
"""Log-probability of the wrong word in a response made from the labels."""
SupportedJudge = StepEval | ProcVlm | Hop | Gvl | TopReward


@dataclass(frozen=True)
class TrainingExample:
    """A question and its correct answer.

    Attributes:
        prompt: The question, with images given as references (view and frame of the episode).
        answer: Text of the assistant's turn. If the question has candidates, the correct one of them.
        candidates: The words to choose from, if the question asks for one of several words.
        question_type: One of the question types above, or of those in ``stage_questions.py``.
        values: The true value (0..1) of each percentage in the answer, in order.
    """

    prompt: Prompt
    answer: str
    candidates: tuple[str, ...]
    question_type: QuestionType
    values: tuple[float, ...] = ()


def training_examples(judge: Judge, episode: Episode) -> list[TrainingExample]:
    """Return every question the judge asks about the episode, in order, with the correct answers.

    A repeated question gives one example. A procvlm question gives two: ``procvlm`` and ``procvlm-direct``.

    Raises:
        EpisodeError: The episode lacks labels that a right answer needs; the message names them.
    """
    supported, truth = _supported(judge), EpisodeTruth(episode)
    examples: list[TrainingExample] = []

    async def ask(request: Request, model: Model | None = None) -> Any:
        assert isinstance(request, Generate | Score | ScorePrefixes)
        answered = _examples_of(supported, request, truth)
        examples.extend(answered if request.repeat == 0 else [])
        return _response(request, answered)

    run_sync(judge.judge(episode, ask))
    return examples


def sample_examples(judge: Judge, episode: Episode, rng: np.random.Generator) -> list[TrainingExample]:
    """Return the questions about a random frame; none if the labels give no correct answer there.

    The frame is drawn uniformly from the main view. The judge runs on the episode up to that frame, with the
    sampling interval of the whole episode. Questions cover every subgoal, one of hop's modes, and answers
    with and without remaining actions. Three cases differ: TOPReward's prefix is drawn from those it scores,
    gvl judges the whole episode in a new random order, and hop mostly compares two random frames in both
    directions. No frame is decoded unless hop compares goal images with the start.

    Args:
        judge: The judge that asks.
        episode: The labelled episode, to which the examples' frame references belong.
        rng: Random generator.

    Raises:
        EpisodeError: The episode lacks labels that a right answer needs; the message names them.
    """
    supported, truth = _supported(judge), EpisodeTruth(episode)
    prefix, asking = episode, supported
    if isinstance(supported, Hop) and len(truth.times) > 1 and rng.random() < RANDOM_PAIR_PROB:
        return _random_pair(supported, truth, rng)
    if isinstance(supported, Gvl):
        asking = replace(supported, seed=int(rng.integers(2**31)))
    elif not isinstance(supported, TopReward):
        first = min(isinstance(supported, Hop), len(truth.times) - 1)
        last = int(rng.integers(first, len(truth.times)))
        prefix = _up_to(episode, float(truth.times[last]))
        asking = _single_point(supported, episode, last / max(1, len(truth.times) - 1), rng)
    requests: list[Request] = []

    async def ask(request: Request, model: Model | None = None) -> Any:
        requests.append(request)
        # StepEval may state earlier verdicts in a prompt; no other question depends on an answer.
        needed = isinstance(supported, StepEval)
        return _response(request, _examples_of(supported, request, truth) if needed else [])

    try:
        run_sync(asking.judge(prefix, ask))
        if isinstance(supported, ProcVlm | Hop):  # these judges ask about one frame at a time
            requests = requests[-1:]
        elif isinstance(supported, TopReward):
            requests = [_one_prefix(requests[int(rng.integers(len(requests)))], rng)]
        return [example for request in requests for example in _examples_of(supported, request, truth)]
    except UnlabelledTimeError:
        return []


def _random_pair(judge: Hop, truth: EpisodeTruth, rng: np.random.Generator) -> list[TrainingExample]:
    """Return hop's questions about two frames drawn uniformly, forwards and backwards."""
    one, other = sorted(rng.choice(len(truth.times), 2, replace=False).tolist())
    frames = sorted({0, one, other})
    sampled = sample_frames(truth.episode, indices=frames)
    at = frames.index(one), frames.index(other)
    requests: list[Request] = []

    async def ask(request: Request, model: Model | None = None) -> Any:
        requests.append(request)
        return Answer("")

    try:
        run_sync(judge.compare(truth.episode, sampled, [at, at[::-1]], ask))
        return [example for request in requests for example in _examples_of(judge, request, truth)]
    except UnlabelledTimeError:
        return []


def _supported(judge: Judge) -> SupportedJudge:
    if not isinstance(judge, SupportedJudge):
        raise OptionError(
            f"Training examples cannot be made from the judge {judge.name}. Use stepeval, procvlm, hop, gvl or "
            "topreward."
        )
    if isinstance(judge, StepEval) and judge.answer == "statement":
        raise OptionError(
            "stepeval's statements are TOPReward's, and trained as such. Use answer=tokens or text."
        )
    if isinstance(judge, Gvl) and (judge.form != "published" or judge.context):
        raise OptionError("gvl is trained with form=published and context=0.")
    if isinstance(judge, TopReward) and judge.variant != "token":
        raise OptionError("topreward asks for no answer with variant=instruction. Use variant=token.")
    return judge


def _examples_of(judge: SupportedJudge, request: Request, truth: EpisodeTruth) -> list[TrainingExample]:
    """Return the training examples in one request."""
    assert isinstance(request, Generate | Score | ScorePrefixes)
    if isinstance(request, ScorePrefixes):
        return _prefix_examples(request, truth)
    if isinstance(judge, StepEval):
        answer = answer_key.stepeval_answer(judge, request, truth)
        if isinstance(request, Score):
            return [TrainingExample(request.prompt, answer, request.candidates, "stepeval-tokens")]
        kind: QuestionType = "stepeval-all" if judge.strategy == "all-at-once" else "stepeval-one"
        return [TrainingExample(request.prompt, answer, (), kind)]
    if isinstance(judge, Hop):
        return [_percent_example(request.prompt, answer_key.hop_answer(request.prompt, truth), "hop")]
    if isinstance(judge, Gvl):
        answered = answer_key.gvl_answer(request.prompt, truth, anchored=judge.anchor)
        return [_percent_example(request.prompt, answered, "gvl")]
    percentage = answer_key.procvlm_percentage(request.prompt, truth)
    without_steps = answer_key.without_steps(request.prompt)
    return [
        _percent_example(request.prompt, answer_key.procvlm_answer(request.prompt, truth), "procvlm"),
        _percent_example(without_steps, percentage, "procvlm-direct"),
    ]


def _percent_example(prompt: Prompt, answer: PercentAnswer, kind: QuestionType) -> TrainingExample:
    return TrainingExample(prompt, answer.text, (), kind, answer.values)


def _prefix_examples(request: ScorePrefixes, truth: EpisodeTruth) -> list[TrainingExample]:
    """Return an example for every prefix, answered by whether its last frame counts as success."""
    video, (asked,) = request.video, request.prompts
    assert isinstance(video, VideoFrames)
    times = truth.episode.views[video.view].timestamps()
    examples = []
    for length in request.lengths:
        prefix = replace(video, indices=video.indices[:length])
        done = truth.succeeded(float(times[prefix.indices[-1]]))
        (turn,) = asked.turns
        parts = tuple(prefix if isinstance(part, VideoPrefix) else part for part in turn.parts)
        prompt = replace(asked, turns=(replace(turn, parts=parts),))
        answer = request.candidates[0 if done else 1]
        examples.append(TrainingExample(prompt, answer, request.candidates, "topreward"))
    return examples


def _response(request: Request, examples: Sequence[TrainingExample]) -> Response:
    """Return the correct answer with full confidence, or an unreadable answer if there are no examples."""
    assert isinstance(request, Generate | Score | ScorePrefixes)
    if isinstance(request, Generate):
        return Answer(examples[0].answer if examples else "")
    logprobs = [
        [0.0 if word == example.answer else WRONG_WORD_LOGPROB for word in request.candidates]
        for example in examples
    ]
    if isinstance(request, Score):
        values = logprobs[0] if logprobs else [math.nan] * len(request.candidates)
        return Scores(tuple(values), (False,) * len(values))
    shape = (1, len(request.lengths), len(request.candidates))
    return PrefixScores(np.reshape(logprobs, shape) if logprobs else np.full(shape, np.nan))


def _one_prefix(request: Request, rng: np.random.Generator) -> Request:
    if not isinstance(request, ScorePrefixes):
        return request
    return replace(request, lengths=(int(rng.choice(request.lengths)),))


def _up_to(episode: Episode, last_s: float) -> Episode:
    """Return the episode up to the frame at ``last_s``; its frames keep their indices."""
    cut = Cut(last_s + 2 * TIME_TOLERANCE_S)
    return replace(episode, views={name: RetimedView(view, cut) for name, view in episode.views.items()})


def _single_point(
    judge: StepEval | ProcVlm | Hop, episode: Episode, fraction: float, rng: np.random.Generator
) -> StepEval | ProcVlm | Hop:
    """Return the judge reduced to the questions needed for the end of a partial episode."""
    if isinstance(judge, StepEval):
        return judge if judge.repeats == 1 else replace(judge, repeats=1)
    if isinstance(judge, ProcVlm) and judge.spacing_s is not None:
        return replace(judge, points=1, fps=None)
    extra = isinstance(judge, Hop)  # hop does not judge the first frame
    even = None if judge.fps is not None else judge.points + extra
    times = sample_frames(episode, count=even, fps=judge.fps, most=judge.max_points + extra).times
    if isinstance(judge, ProcVlm):
        spacing_s = float(times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None
        return replace(judge, points=1, fps=None, spacing_s=spacing_s)
    modes: list[HopMode] = ["incremental", "forward", "backward"]
    mode = modes[int(rng.integers(3))] if judge.mode == "fused" else judge.mode
    points = max(1, round(fraction * (len(times) - 1)))
    return replace(judge, points=points, fps=None, mode=mode if episode.goals else "incremental")
