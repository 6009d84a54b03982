"""ProcVLM's way of judging: list what is left to do, then state how far it is.

At every point the model is shown the frames just before it, lists the remaining actions, and then states a
completion percentage in ``<progress>`` tags. Window, prompt and answer follow ProcVLM (arXiv 2605.08774; card
and inference code of ProcVLM-2B). Here an answer that cannot be parsed is unknown, where theirs repeats the
value before it, and the list of remaining actions becomes a verdict on every subgoal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, SampledFrames, frame_at, sample_frames
from stepscore.episodes.labels import Subgoal
from stepscore.errors import EpisodeError
from stepscore.judges.base import Ask, StructuredJudge
from stepscore.judges.common.ask_model import ask_answers, least_mass, require
from stepscore.judges.common.digits import expected_numbers, logprobs_to_request
from stepscore.judges.common.framing import ViewLayout, image_parts
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    image_size,
    one_of,
    optional,
    positive,
    whole,
    within,
)
from stepscore.judges.common.parsing import normalize_text, parse_remaining_actions, parse_tagged_percent
from stepscore.judges.common.prompts import load_prompt
from stepscore.models import Answer, Generate, Model, Prompt, Turn
from stepscore.models.schemas import UNKNOWN, Either, FreeText, Number, Schema, Steps, Written
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, Judgement, Verdict, VerdictAnswer

PromptChoice = Literal["auto", "published", "steps"]
ProgressSource = Literal["stated", "derived"]


@dataclass(frozen=True)
class ProcVlm(StructuredJudge):
    """Remaining actions first, then progress, over a sliding window of frames.

    Several views stand in one window, arranged by ``layout``. Channels of the curve: ``stated`` (the
    percentage in the tags), ``derived`` (the share of subgoals that are not among the remaining actions),
    ``remaining`` (how many actions are listed), each NaN where the answer does not state it; and ``raw``, the
    stated values, where one lies outside 0..1.

    Verdicts come from the remaining actions: a subgoal that is listed is not done, one that is not listed is
    done. Actions are matched to subgoals by their words alone (case, spaces and marks around them aside); if
    an action matches none, it may mean any of those not listed, and they are unknown. A subgoal with mode
    ``ever`` is yes if it was done at any point, one with ``holds`` if it is done at the last; ``when_s`` is
    the first timestamp of that. The model states no probability, so verdicts have no score.

    The success score is 1 where the last progress is at least ``success_at``, else 0 (ProcVLM counts success
    from 95 %), NaN where it is unknown. The fact ``unread`` counts answers without a readable percentage.

    Attributes:
        model: ``ProcVLM-2B``, or any vision-language model that generates text.
        points: Points to judge, evenly from the first frame to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_points``.
        max_points: With ``fps``: where there would be more, this many evenly spread ones instead.
        window: Frames of each view a question shows, the judged frame last (8 as published).
        spacing_s: Seconds between frames of a window; ``None`` takes the judged frames themselves, as
            published.
        pad: Repeat the first frame where a window reaches before the start, as published; else show fewer.
        size: Longer side of each frame in pixels; ``None`` for the recorded size.
        layout: How several views stand together: ``separate``, ``interleaved`` or ``tiled``.
        template: ``"published"`` is ProcVLM's own prompt. ``"steps"`` also gives the subgoals and asks for
            them in their words, so that they can be matched. ``"auto"`` is steps where the episode has
            subgoals, else published.
        progress: Channel that is the curve's progress: ``"stated"`` or ``"derived"``.
        success_at: Progress that counts as success.
        max_tokens: Length at which an answer is cut.
        structured: Hold answers to the form that the question asks for: a list out of the subgoals, or that none is
            left, and a percentage; or ``unknown`` in their place. Where the prompt gives no subgoals, only the
            percentage is held. ``None`` does so where the model supports it, but for ProcVLM's own checkpoints. Where
            the model returns the log-probabilities of its answers, progress is then the expected value of the
            number's tokens (channel ``expected``). The channel ``schema_mass`` is the smallest probability that the
            model gave to the allowed tokens of an answer, where it states it.
    """

    model: Model = field(metadata=names("model"))
    points: int = 16
    fps: float | None = None
    max_points: int = 128
    window: int = 8
    spacing_s: float | None = None
    pad: bool = True
    size: int | None = 512
    layout: ViewLayout = "interleaved"
    template: PromptChoice = "auto"
    progress: ProgressSource = "stated"
    success_at: float = 0.95
    max_tokens: int = 512
    structured: bool | None = None
    name = "procvlm"

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), fps=optional(frame_rate()), max_points=whole(1))
        check_options(self, window=whole(1, 1000), spacing_s=optional(positive()), pad=boolean())
        check_options(self, size=image_size(), layout=one_of(ViewLayout), template=one_of(PromptChoice))
        check_options(self, progress=one_of(ProgressSource), success_at=within(0, 1), max_tokens=whole(1))
        check_options(self, structured=optional(boolean()))

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, prompt digests included."""
        left_out = ("model", "structured")
        values = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out
        }
        values |= self.structured_options()
        prompts = {form: load_prompt(f"procvlm_{form}").digest for form in ("published", "steps")}
        return {**values, "prompts": prompts}

    @property
    def needs_subgoals(self) -> bool:
        """Whether its options ask for subgoals."""
        return self.template == "steps" or self.progress == "derived"

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve, and a verdict on every subgoal the episode has."""
        require(self.model, "procvlm", text=True, structured=self.is_structured)
        if not episode.subgoals and self.needs_subgoals:
            raise EpisodeError(
                f"Episode {episode.id} has no subgoals, which template=steps and progress=derived need. "
                "Give some: --subgoals subgoals.yaml"
            )
        count = None if self.fps is not None else self.points
        judged = sample_frames(episode, count=count, fps=self.fps, most=self.max_points)
        answers = await ask_answers(ask, [self._request(episode, *w) for w in self._windows(episode, judged)])
        stated = np.array([parse_tagged_percent(answer.text, "progress") for answer in answers])
        left = [self._remaining(answer.text) for answer in answers]
        done = done_by_point(left, episode.subgoals)
        curve = self._curve(judged.times, stated, left, done, self._by_schema(episode, answers))
        last = curve.progress[-1]
        return Judgement(
            curve,
            verdicts_of(done, episode.subgoals, judged.times),
            success_score=math.nan if math.isnan(last) else float(last >= self.success_at),
            facts={"unread": float(np.isnan(stated).sum()), **least_mass(answers)},
        )

    def _remaining(self, text: str) -> tuple[str, ...] | None:
        """Return the actions that an answer says are left; ``None`` where it does not say, or says unknown."""
        actions = parse_remaining_actions(text)
        return None if self.is_structured and actions == (UNKNOWN,) else actions

    def _by_schema(self, episode: Episode, answers: Sequence[Answer]) -> dict[str, FloatArray]:
        """Return the channels of answers that were held to a schema, without those that no answer gives."""
        if not self.is_structured:
            return {}
        schema = self._schema(self._form(episode), episode)
        numbers = [expected_numbers(answer, schema) for answer in answers]
        masses = [answer.schema_mass for answer in answers]
        channels = {
            "expected": np.array([found[0] / 100 if found else math.nan for found in numbers]),
            "schema_mass": np.array([math.nan if mass is None else mass for mass in masses]),
        }
        return {name: values for name, values in channels.items() if not np.isnan(values).all()}

    def _windows(self, episode: Episode, judged: SampledFrames) -> list[tuple[SampledFrames, list[int]]]:
        """Return the frames to show for every judged point: sampled frames and which of them, oldest first."""
        if self.spacing_s is None:
            windows = [
                [max(0, at) for at in range(last - self.window + 1, last + 1)] for last in range(len(judged))
            ]
            return [(judged, self._padded(window)) for window in windows]
        back = np.arange(self.window - 1, -1, -1)
        spaced = []
        for time in judged.times:
            times = np.maximum(0.0, time - back * self.spacing_s)
            sampled = sample_frames(episode, times=np.unique(times).tolist())
            spaced.append((sampled, self._padded(frame_at(sampled.times, times).tolist())))
        return spaced

    def _padded(self, window: list[int]) -> list[int]:
        return window if self.pad else sorted(set(window))

    def _request(self, episode: Episode, sampled: SampledFrames, window: Sequence[int]) -> Generate:
        form = self._form(episode)
        # The published prompt has the images alone before its text.
        labelled = form == "steps"
        images = image_parts(sampled, self.layout, self.size, chosen=window, labelled=labelled)
        steps = "\n".join(f"- {subgoal.name}" for subgoal in episode.subgoals)
        values = {"instruction": episode.instruction, "steps": steps}
        parts = load_prompt(f"procvlm_{form}").parts(values, {"pictures": images})  # stored name
        prompt = Prompt((Turn("user", parts),))
        if not self.is_structured:
            return Generate(prompt, max_tokens=self.max_tokens)
        logprobs = logprobs_to_request(self.model, self.max_tokens)
        schema = self._schema(form, episode)
        return Generate(prompt, max_tokens=self.max_tokens, top_logprobs=logprobs, schema=schema)

    def _form(self, episode: Episode) -> str:
        """Return which prompt an episode is judged with."""
        by_subgoals = "steps" if episode.subgoals else "published"
        return by_subgoals if self.template == "auto" else self.template

    def _schema(self, form: str, episode: Episode) -> Schema:
        percent = Number(0, 100, decimals=2, unit="%")
        if form == "published":
            return Written((FreeText("<"), "<progress>", percent, "</progress>"))
        listed = Written(
            ("The following steps are required:\n", Steps(tuple(s.name for s in episode.subgoals)))
        )
        none_left = Written((FreeText("\n<"), "no further steps required."))
        closing = "\nTherefore, the estimated progress is <progress>"
        return Written((Either((listed, none_left)), closing, percent, "</progress>."))

    def _curve(
        self,
        times: FloatArray,
        stated: FloatArray,
        left: Sequence[tuple[str, ...] | None],
        done: FloatArray,
        by_schema: Mapping[str, FloatArray],
    ) -> Curve:
        inside = np.where((stated >= 0) & (stated <= 1), stated, np.nan)
        counts = np.array([math.nan if actions is None else len(actions) for actions in left])
        channels = {"stated": inside, "remaining": counts}
        if np.any((stated < 0) | (stated > 1)):
            channels["raw"] = stated
        if done.shape[1]:
            channels["derived"] = done.mean(axis=1)
        channels |= by_schema
        progress = channels[self.progress]
        if self.progress == "stated" and "expected" in by_schema:
            progress = np.where(np.isnan(by_schema["expected"]), progress, by_schema["expected"])
        return Curve(times, progress, channels)


def done_by_point(left: Sequence[tuple[str, ...] | None], subgoals: Sequence[Subgoal]) -> FloatArray:
    """Return 1 where a subgoal is done, 0 where it is listed as remaining, else NaN; shape (points, subgoals)."""
    names = [normalize_text(subgoal.name) for subgoal in subgoals]
    done = np.full((len(left), len(names)), np.nan)
    for row, actions in zip(done, left, strict=True):
        if actions is None:
            continue
        listed = {normalize_text(action) for action in actions}
        others = math.nan if listed - set(names) else 1.0
        row[:] = [0.0 if name in listed else others for name in names]
    return done


def verdicts_of(done: FloatArray, subgoals: Sequence[Subgoal], times: FloatArray) -> tuple[Verdict, ...]:
    """Return a verdict on each subgoal from where it was done; see :class:`ProcVlm`."""
    verdicts = []
    for subgoal, column in zip(subgoals, done.T, strict=True):
        ever, last = np.any(column == 1), column[-1]
        yes = bool(ever) if subgoal.mode == "ever" else last == 1
        answer: VerdictAnswer = "yes" if yes else ("no" if last == 0 else "unknown")
        since = first_done(column, subgoal) if yes else None
        when = math.nan if since is None else float(times[since])
        why = "" if answer == "unknown" else _reason(answer, subgoal, last, when)
        verdicts.append(Verdict(subgoal.name, answer, when_s=when, why=why))
    return tuple(verdicts)


def first_done(column: FloatArray, subgoal: Subgoal) -> int:
    """Return the point from which a subgoal is done: the first, or for ``holds`` the start of the last run."""
    if subgoal.mode == "ever":
        return int(np.argmax(column == 1))
    undone = np.flatnonzero(column != 1)
    return int(undone[-1]) + 1 if len(undone) else 0


def _reason(answer: VerdictAnswer, subgoal: Subgoal, last: float, when: float) -> str:
    if answer == "no":
        return "among the remaining actions at the last moment"  # stored name
    if last == 1:
        return f"not among the remaining actions from {when:.2f} s"
    return f"not among the remaining actions at {when:.2f} s, and later again"
