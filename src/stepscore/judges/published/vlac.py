"""VLAC, a critic of pairs of images, as it was published: how much closer is the second, and is the task done?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, SampledFrames
from stepscore.judges.base import Ask
from stepscore.judges.common.ask_model import ask_answers, require
from stepscore.judges.common.curves import progress_curve
from stepscore.judges.common.digits import TOP, expected_number
from stepscore.judges.common.framing import sample_after_first
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    one_of,
    optional,
    text,
    whole,
)
from stepscore.judges.common.pairs import repeated
from stepscore.judges.hop import progress_by_hops
from stepscore.judges.published.prompting import OWN, PUBLISHED
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import Answer, Generate, Model
from stepscore.registry import names
from stepscore.types import FloatArray, Judgement

Digits = Literal["plain", "expected"]
DoneAt = Literal["last", "all", "none"]


@dataclass(frozen=True)
class Vlac(PublishedJudge):
    """Progress from VLAC's comparisons of two images of one camera, and success from its question "done?".

    The model states c, by how many percent of what remains the second image is closer. Progress follows by
    v + (1 - v) c / 100 for any sign of c, from v = 0 at the first frame. An answer that is not a number in -100..100
    is unknown, and so is progress; the next point is compared with the last known one. Channels: ``critic``, that is
    c / 100, ``done`` where it was asked at every point, ``raw`` where progress leaves 0..1. The success score is the
    answer to "done?" at the last point: 0 or 1, or between them with ``digits="expected"``.

    Attributes:
        model: VLAC-2B or VLAC-8B.
        points: Points to judge after the first frame, evenly up to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_points``.
        max_points: With ``fps``: where there would be more, this many evenly spread ones instead.
        digits: ``"plain"``, the number as written; or ``"expected"``, its expectation over the ten most likely tokens
            (the published code's rich form), for models that return log-probabilities of their answers.
        done: Where "done?" is asked: at the ``"last"`` point, at ``"all"``, or ``"none"``; success is then unknown.
        clip: Put progress outside 0..1 at 0 or 1; without it, it is unknown there.
        profile: Profile of a model that is not known by its name: ``vlac``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published files.
        max_tokens: Length at which an answer is cut.
    """

    model: Model = field(metadata=names("model"))
    points: int = 16
    fps: float | None = None
    max_points: int = 128
    digits: Digits = "plain"
    done: DoneAt = "last"
    clip: bool = False
    profile: str | None = field(default=None, metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    max_tokens: int = 64
    name = "vlac"
    version = 1

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), fps=optional(frame_rate()), max_points=whole(1))
        check_options(self, digits=one_of(Digits), done=one_of(DoneAt), clip=boolean())
        check_options(self, prompt=text(), max_tokens=whole(1))
        _ = self.rules

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions that its options ask."""
        return ("compare",) if self.done == "none" else ("compare", "done")

    def options(self) -> Mapping[str, object]:
        """Return all that can change a number, digests of the prompts and the profile's rules included."""
        return self.published_options()

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve over the judged points; the first frame is 0 by definition and not among them."""
        require(self.model, self.name, text=True)
        sampled = sample_after_first(episode, self.points, self.fps, self.max_points, "comparison")

        async def critics(pairs: Sequence[tuple[int, int]]) -> FloatArray:
            return await self.compare(episode, sampled, pairs, ask)

        n = len(sampled)
        critic, raw = await progress_by_hops(n, critics, progress_after_critic)
        asked = {"none": [], "last": [n - 1], "all": list(range(1, n))}[self.done]
        requests = [self._request("done", episode, sampled, (point,)) for point in asked]
        done = self._numbers("done", await ask_answers(ask, requests))
        channels = {"critic": critic, **({"done": done} if self.done == "all" else {})}
        curve = progress_curve(sampled.times[1:], raw, channels, clip=self.clip)
        unread = float(np.isnan(critic).sum() + np.isnan(done).sum())
        success = float(done[-1]) if len(done) else math.nan
        return Judgement(curve, success_score=success, facts={"unread": unread})

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return the stated critic of each pair of frames; see :class:`FrameComparer`."""
        require(self.model, self.name, text=True)
        requests = [repeated(self._request("compare", episode, sampled, pair), repeat) for pair in pairs]
        return self._numbers("compare", await ask_answers(ask, requests))

    def _request(
        self, name: str, episode: Episode, sampled: SampledFrames, points: Sequence[int]
    ) -> Generate:
        """Return a question about sampled points, one for each of its images."""
        view = self.view_names(episode)[0]
        images = [self.frame(episode, view, int(sampled.indices[view][point])) for point in points]
        expected = TOP if self.digits == "expected" else 0
        values = {"instruction": episode.instruction}
        return self.request(name, images, values, max_tokens=self.max_tokens, top_logprobs=expected)

    def _numbers(self, name: str, answers: Sequence[Answer]) -> FloatArray:
        return np.array([self._number(name, answer) for answer in answers], dtype=np.float64)

    def _number(self, name: str, answer: Answer) -> float:
        """Return what an answer states, as written or as the expectation of its digits; NaN where that is unknown."""
        stated = self.read_number(name, answer.text)
        if self.digits == "plain" or math.isnan(stated):
            return stated
        rule = self.question(name).answer
        assert rule is not None
        value = expected_number(answer.choices, answer.text)
        return value / rule.per if rule.lowest <= value <= rule.highest else math.nan


def progress_after_critic(progress: float, critic: float) -> float:
    """Return progress after a comparison: what remains, times the stated share, is added whatever its sign."""
    return progress + (1 - progress) * critic
