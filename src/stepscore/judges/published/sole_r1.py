"""SOLE-R1 as published: one composite image per step, with the previous answer in each question."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, SampledFrames
from stepscore.judges.base import Ask
from stepscore.judges.common.ask_model import ask_texts, require
from stepscore.judges.common.curves import progress_curve, success_at_end
from stepscore.judges.common.framing import sample_after_first
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    one_of,
    optional,
    seed,
    text,
    whole,
    within,
)
from stepscore.judges.published.prompting import OWN, PUBLISHED
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import FrameRef, Generate, Model, TiledFrames
from stepscore.registry import names
from stepscore.types import Judgement

SingleCamera = Literal["external", "wrist"]


@dataclass(frozen=True)
class SoleR1(PublishedJudge):
    """Judges progress step by step with SOLE-R1, starting from 0 at the first frame.

    A question shows one image: first, previous and current frame side by side, each in a square of 384 pixels, the
    external camera's row over the wrist camera's where there are two. Its words say the progress of the previous
    frame, which is the model's own last answer: an episode's questions are asked one after another. Where an answer
    cannot be read, progress is unknown there, and the next question shows the last frame whose progress is known as
    the previous one. (Published code repeats the last value, and quotes the unreadable answer.) Values below 0 or
    above 1 stay in the channel ``raw``; the fact ``unread`` counts answers without a readable percentage.

    Attributes:
        model: SOLE-R1-8B.
        points: Points to judge after the first frame, evenly up to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_points``.
        max_points: With ``fps``: where there would be more, this many evenly spread ones instead.
        single: What the camera of an episode with one camera is: ``"external"`` or ``"wrist"``. Of two, the first is
            external.
        clip: Put progress outside 0..1 at 0 or 1; without it, it is unknown there.
        success_at: Progress that counts as success.
        profile: Profile of a model that is not known by its name: ``sole-r1``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published files.
        sampling_seed: Seed of the sampled answers, for servers that take one.
        max_tokens: Length at which an answer is cut.
    """

    model: Model = field(metadata=names("model"))
    points: int = 16
    fps: float | None = None
    max_points: int = 128
    single: SingleCamera = "external"
    clip: bool = False
    success_at: float = 0.95
    profile: str | None = field(default=None, metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    sampling_seed: int = 0
    max_tokens: int = 200
    name = "sole-r1"
    version = 1

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), fps=optional(frame_rate()), max_points=whole(1))
        check_options(self, single=one_of(SingleCamera), clip=boolean(), success_at=within(0, 1))
        check_options(self, prompt=text(), sampling_seed=seed(), max_tokens=whole(1))
        _ = self.rules

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions for episodes with one or two cameras."""
        return ("both", self.single)

    def options(self) -> Mapping[str, object]:
        """Return all options that can affect results, including digests of the prompts and the profile's rules."""
        return self.published_options()

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve without the first frame, where progress is 0 by definition."""
        require(self.model, self.name, text=True)
        sampled = sample_after_first(episode, self.points, self.fps, self.max_points, "step")
        self.view_names(episode)  # at most two
        raw = np.full(len(sampled), np.nan)
        raw[0] = known = 0
        for point in range(1, len(sampled)):
            (answer,) = await ask_texts(ask, [self._request(episode, sampled, known, point, raw[known])])
            raw[point] = self.read_number(self._question_of(sampled), answer)
            known = known if math.isnan(raw[point]) else point
        curve = progress_curve(sampled.times[1:], raw[1:], clip=self.clip)
        unread = float(np.isnan(raw).sum())
        return Judgement(
            curve, success_score=success_at_end(curve, self.success_at), facts={"unread": unread}
        )

    def _question_of(self, sampled: SampledFrames) -> str:
        return "both" if len(sampled.views) > 1 else self.single

    def _request(
        self, episode: Episode, sampled: SampledFrames, previous: int, current: int, progress: float
    ) -> Generate:
        name, rule = self._question_of(sampled), self.rules.images
        points = {"first": 0, "previous": previous, "current": current}
        frames = tuple(
            FrameRef(view, int(sampled.indices[view][points[slot.role]]), rule.cell)
            for slot in self.question(name).images
            for view in sampled.views[slot.view - 1 : slot.view]
        )
        composite = TiledFrames(frames, len(points), rule.cell, gap=rule.gap)
        values = {"instruction": episode.instruction, "previous": round(100 * progress)}
        return self.request(name, [composite], values, max_tokens=self.max_tokens, seed=self.sampling_seed)
