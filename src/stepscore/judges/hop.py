"""A hop judge: how much closer to the goal is this frame than that one?

The model is shown the start, the goal, a BEFORE and an AFTER, and states the hop between the two: the share of
what was left that got done, or of what was done that came undone. Prompt shape, modes and formulas are those of
Robo-Dopamine and PRM-as-a-Judge (code v1.0), the wording is ours. With three views a question holds their
eight images: START and END of the main view, BEFORE and AFTER of all three.
"""

from __future__ import annotations

import asyncio
import math
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

import numpy as np

from stepscore.episodes import Episode, SampledFrames, resize_image
from stepscore.judges.base import Ask, StructuredJudge
from stepscore.judges.common.ask_model import ask_answers, least_mass, require
from stepscore.judges.common.curves import progress_curve, success_at_end
from stepscore.judges.common.digits import expected_numbers, logprobs_to_request
from stepscore.judges.common.framing import frame_refs, sample_after_first
from stepscore.judges.common.option_checks import (
    at_least,
    below_one,
    boolean,
    check_options,
    frame_rate,
    image_size,
    one_of,
    optional,
    whole,
    within,
)
from stepscore.judges.common.pairs import repeated
from stepscore.judges.common.parsing import parse_tagged_percent
from stepscore.judges.common.prompts import load_prompt
from stepscore.models import Answer, FrameRef, Generate, GoalImage, Model, Part, Prompt, Turn, media_decoder
from stepscore.models.schemas import Number, Written
from stepscore.registry import names
from stepscore.types import FloatArray, Frames, Judgement

HopMode = Literal["incremental", "forward", "backward", "fused"]
Fusion = Literal["mean", "confident"]
THUMBNAIL_SIZE = 128
"""Longer side, in pixels, of the images in which goal and start are compared."""
PIXEL_CHANGE = 25
"""Levels of 255 by which a pixel must differ to count as changed."""
SCHEMA = Written(("<score>", Number(-100, 100, plus=True, unit="%"), "</score>"))
"""The form of an answer, as in the question."""
GOAL = -1
"""Means the goal image instead of the number of a sampled frame."""


@dataclass(frozen=True)
class HopScene:
    """What the questions about one episode show: its sampled frames, and the views whose goal image is used."""

    episode: Episode
    sampled: SampledFrames
    goals: tuple[str, ...]

    def with_view_names(self, images: Sequence[FrameRef | GoalImage]) -> tuple[Part, ...]:
        """Return images with the name of their view before each if there are several views."""
        if len(self.sampled.views) == 1:
            return tuple(images)
        return tuple(part for image in images for part in (f"{image.view}: ", image, "\n"))


@dataclass(frozen=True)
class Hop(StructuredJudge):
    """Progress from comparisons of two frames, r being the stated hop in -1..1 (``<score>+25%</score>``).

    ============  ==========================  ==========================================================
    mode          BEFORE                      progress
    ============  ==========================  ==========================================================
    incremental   the point before            p + (1 - p) r for r >= 0, p + p r for r < 0, from p = 0
    forward       the first frame             r
    backward      the goal image              1 + r
    fused         all three                   their mean (eq 8), or with ``fusion="confident"`` eq 9-11
    ============  ==========================  ==========================================================

    Eq 9-11 of the paper: m = (F + B) / 2, D = |B - F| / (m + eps), w = exp(-alpha D^2),
    P_t = P_{t-1} + (w / 2) (m - P_{t-1} + I_t - I_{t-1}): where forward and backward disagree, little moves.

    A hop that cannot be read, or lies outside -1..1, is unknown, and so is progress there. In incremental
    mode the next point is then compared with the last known one, at the price of one more call, so that
    one broken answer does not lose the rest. Forward below 0 and backward above 1 stay in the channel
    ``raw``.

    Several views: BEFORE and AFTER show every view, START the main one, END the first that has a goal image.
    Without a goal image, or when goal and start look alike, END and with it forward, backward and fused have
    no meaning: the judge warns, and judges incrementally without END. Channels: ``hop`` (incremental),
    ``incremental``, ``forward``, ``backward`` where judged. Facts: ``goal_used`` (1 or 0), ``goal_change``
    (the share of pixels in which goal and start differ) and ``unread`` (answers without a readable hop).

    The success score is 1 where the last progress is at least ``success_at`` (0.95 in the paper), else 0,
    NaN if unknown.

    Attributes:
        model: Any vision-language model that generates text.
        mode: See above.
        fusion: ``"mean"`` or ``"confident"``.
        points: Points to judge after the first frame, evenly up to the last.
        fps: Or one every 1/fps seconds (and the last), at most ``max_points``.
        max_points: With ``fps``: at most this many, evenly spread.
        size: Longer side of each image in pixels; ``None`` for the recorded size.
        alike: Goal and start look alike if fewer than this share of pixels differ; 0 turns the check off.
        clip: Put progress outside 0..1 at 0 or 1; without it, it is unknown there.
        alpha: Of eq 10 (the paper gives no value).
        eps: Of eq 9 (the paper gives no value).
        success_at: Progress that counts as success.
        max_tokens: Length at which an answer is cut.
        structured: Constrain answers to the question's form, ``<score>+25%</score>`` or
            ``<score>unknown</score>``. ``None``: if the model supports it. If the model returns the
            log-probabilities of its answers, the hop is then the expected value of the number's tokens. The fact
            ``schema_mass`` is the smallest probability that the model gave to the allowed tokens if it reports it.
    """

    model: Model = field(metadata=names("model"))
    mode: HopMode = "incremental"
    fusion: Fusion = "mean"
    points: int = 16
    fps: float | None = None
    max_points: int = 128
    size: int | None = 448
    alike: float = 0.01
    clip: bool = False
    alpha: float = 1.0
    eps: float = 1e-6
    success_at: float = 0.95
    max_tokens: int = 256
    structured: bool | None = None
    name = "hop"
    uses_goals = True

    def __post_init__(self) -> None:
        check_options(self, points=whole(1), fps=optional(frame_rate()), max_points=whole(1))
        check_options(self, mode=one_of(HopMode), fusion=one_of(Fusion), size=image_size(), clip=boolean())
        check_options(self, success_at=within(0, 1), max_tokens=whole(1))
        check_options(self, alike=below_one(), alpha=within(0, 1e6), eps=at_least(1e-9))
        check_options(self, structured=optional(boolean()))

    def options(self) -> Mapping[str, object]:
        """Return everything that can change a number, the prompt's digest included."""
        left_out = ("model", "structured")
        values = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out
        }
        return {**values, **self.structured_options(), "prompts": {"pair": load_prompt("hop_pair").digest}}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return a progress curve over the judged points; the first frame is 0 by definition and not among them."""
        require(self.model, self.name, text=True, structured=self.is_structured)
        sampled = sample_after_first(episode, self.points, self.fps, self.max_points, "hop")
        change = await asyncio.to_thread(goal_change, episode) if episode.goals else math.nan
        mode, goals = self.usable_mode(episode, change)
        pairs = _Pairs(self, HopScene(episode, sampled, goals), ask)
        series = await self._series(pairs, mode)
        raw = series[mode] if mode != "fused" else self._fused(series)
        curve = progress_curve(sampled.times[1:], raw, series, clip=self.clip)
        facts = {
            "goal_used": float(bool(goals)),
            "goal_change": change,
            "unread": float(pairs.unread),
            **least_mass(pairs.answers),
        }
        return Judgement(curve, success_score=success_at_end(curve, self.success_at), facts=facts)

    async def compare(
        self,
        episode: Episode,
        sampled: SampledFrames,
        pairs: Sequence[tuple[int, int]],
        ask: Ask,
        *,
        repeat: int = 0,
    ) -> FloatArray:
        """Return the stated hop of each pair of frames, whatever the mode; see :class:`FrameComparer`."""
        require(self.model, self.name, text=True, structured=self.is_structured)
        change = await asyncio.to_thread(goal_change, episode) if episode.goals else math.nan
        scene = HopScene(episode, sampled, self.comparison_goals(episode, change))
        return await _Pairs(self, scene, ask, repeat).hops(pairs)

    def comparison_goals(self, episode: Episode, change: float) -> tuple[str, ...]:
        """Return the views whose goal image a comparison shows; none if it looks like the start."""
        return goal_views(episode) if change >= self.alike else ()

    def usable_mode(self, episode: Episode, change: float) -> tuple[HopMode, tuple[str, ...]]:
        """Return the possible mode and the views with a usable goal image; warn if the mode changes."""
        goals = goal_views(episode)
        if goals and change >= self.alike:
            return self.mode, goals
        why = "has no goal image"
        if goals:
            why = f"has a goal image that looks like its start ({change:.2%} of the pixels differ)"
        if goals or self.mode != "incremental":
            warnings.warn(
                f"Episode {episode.id} {why}: judged in incremental mode, without the goal.", stacklevel=2
            )
        return "incremental", ()

    async def _series(self, pairs: _Pairs, mode: HopMode) -> dict[str, FloatArray]:
        """Return progress by every mode asked for, and the incremental hops."""
        after = range(1, len(pairs.scene.sampled))
        series: dict[str, FloatArray] = {}
        if mode in ("incremental", "fused"):
            n = len(pairs.scene.sampled)
            series["hop"], series["incremental"] = await progress_by_hops(
                n, pairs.hops, progress_after_hop, self.first_hop
            )
        if mode in ("forward", "fused"):
            series["forward"] = await pairs.hops([(0, t) for t in after])
        if mode in ("backward", "fused"):
            series["backward"] = 1 + await pairs.hops([(GOAL, t) for t in after])
        return series

    def pair_request(self, scene: HopScene, before: int, after: int) -> Generate:
        """Return the question about two points, by number; BEFORE may be ``GOAL``."""
        size, views = self.size, scene.sampled.views
        ends = [GoalImage(view, size) for view in scene.goals]
        several = ["several"] if len(views) > 1 else []
        images: dict[str, Sequence[Part]] = {
            "start": frame_refs(scene.sampled, 0, size)[:1],
            "end": ends[:1],
            "before": scene.with_view_names(
                ends if before == GOAL else frame_refs(scene.sampled, before, size)
            ),
            "after": scene.with_view_names(frame_refs(scene.sampled, after, size)),
        }
        values = {"instruction": scene.episode.instruction, "cameras": ", ".join(views)}
        when = [*several, "goal" if ends else "nogoal"]
        parts = load_prompt("hop_pair").parts(values, images, when=when)
        prompt = Prompt((Turn("user", parts),))
        if not self.is_structured:
            return Generate(prompt, max_tokens=self.max_tokens)
        logprobs = logprobs_to_request(self.model, self.max_tokens)
        return Generate(prompt, max_tokens=self.max_tokens, top_logprobs=logprobs, schema=SCHEMA)

    def first_hop(self, hop: float) -> float:
        """Return progress after a hop from the first frame."""
        return progress_after_hop(0.0, hop)

    def read_hop(self, answer: Answer) -> float:
        """Return the hop that an answer states, or the one to expect by its tokens; NaN if none is."""
        stated = parse_tagged_percent(answer.text, "score")
        expected = expected_numbers(answer, SCHEMA) if self.is_structured else []
        return expected[0] / 100 if len(expected) == 1 and not math.isnan(expected[0]) else stated

    def _fused(self, series: Mapping[str, FloatArray]) -> FloatArray:
        incremental, forward, backward = (series[m] for m in ("incremental", "forward", "backward"))
        if self.fusion == "mean":
            return np.asarray((incremental + forward + backward) / 3)
        return fuse_by_confidence(incremental, forward, backward, alpha=self.alpha, eps=self.eps)


@dataclass(eq=False)
class _Pairs:
    """Asks for hops between sampled frames of one episode, and counts the answers that state none."""

    judge: Hop
    scene: HopScene
    ask: Ask
    repeat: int = 0
    unread: int = 0
    answers: list[Answer] = field(default_factory=list)

    async def hops(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the stated hop of each pair (before, after), NaN if none in -1..1 is stated."""
        questions = [repeated(self.judge.pair_request(self.scene, *pair), self.repeat) for pair in pairs]
        answers = await ask_answers(self.ask, questions)
        self.answers.extend(answers)
        stated = np.array([self.judge.read_hop(answer) for answer in answers], dtype=np.float64)
        hops = np.where(np.abs(stated) <= 1, stated, np.nan)
        self.unread += int(np.isnan(hops).sum())
        return hops


AskHops = Callable[[Sequence[tuple[int, int]]], Awaitable[FloatArray]]
"""Returns the hop of each pair of points (before, after), NaN if it is unknown."""


async def progress_by_hops(
    n: int,
    ask_hops: AskHops,
    after_hop: Callable[[float, float], float],
    first_hop: Callable[[float], float] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return the hop to each point but the first from the last known one, and progress, from 0 at the first.

    A point whose hop is unknown is unknown; the next is compared with the last known one, at one more call.

    Args:
        n: Number of points, the first included.
        ask_hops: Asks for hops.
        after_hop: Returns progress from the progress before and the hop.
        first_hop: Returns progress from a hop from the first point; by default that is one from progress 0.
    """
    hops = await ask_hops([(t - 1, t) for t in range(1, n)])
    readable = bool(np.any(~np.isnan(hops)))  # a model that never states a hop is not asked again
    progress = np.full(n, np.nan)
    progress[0] = known = 0
    for t in range(1, n):
        if known < t - 1 and readable:
            # The hop from the point before says nothing if progress at that point is unknown.
            hops[t - 1] = (await ask_hops([(known, t)]))[0]
        if known == 0 and first_hop is not None:
            progress[t] = first_hop(hops[t - 1])
        else:
            progress[t] = after_hop(progress[known], hops[t - 1])
        known = known if math.isnan(progress[t]) else t
    return hops, progress[1:]


def progress_after_hop(progress: float, hop: float) -> float:
    """Return progress after a hop: a share of what is left is gained, or of what is done is lost; stays in 0..1."""
    return progress + ((1 - progress) if hop >= 0 else progress) * hop


def fuse_by_confidence(
    incremental: FloatArray, forward: FloatArray, backward: FloatArray, *, alpha: float, eps: float
) -> FloatArray:
    """Fuse by eq 9-11 (see :class:`Hop`), from progress 0; NaN if a mode is, continuing from the last known."""
    fused = np.full(len(incremental), np.nan)
    before = incremental_before = 0.0
    for t, (i, f, b) in enumerate(zip(incremental, forward, backward, strict=True)):
        middle = (f + b) / 2
        # Below 0 the ratio would change its sign; there the two modes are as far from agreeing as can be.
        weight = math.exp(-alpha * (abs(b - f) / (max(middle, 0.0) + eps)) ** 2)
        value = before + weight / 2 * (middle - before + i - incremental_before)
        if not math.isnan(value):
            fused[t], before, incremental_before = value, value, i
    return fused


def goal_views(episode: Episode) -> tuple[str, ...]:
    """Return the views that have a goal image, in their order."""
    return tuple(view for view in episode.views if view in episode.goals)


def goal_change(episode: Episode) -> float:
    """Return the share of pixels in which goal and first frame differ, the most of any view; NaN without a goal."""
    decode = media_decoder(episode)
    shares = []
    for view in goal_views(episode):
        start = decode(FrameRef(view, 0, THUMBNAIL_SIZE)).clip.frames[0]
        goal = _resize_like(decode(GoalImage(view, THUMBNAIL_SIZE)).clip.frames[0], start)
        difference = np.abs(start.astype(np.int16) - goal.astype(np.int16)).max(axis=-1)
        shares.append(float(np.mean(difference > PIXEL_CHANGE)))
    return max(shares, default=math.nan)


def _resize_like(frame: Frames, other: Frames) -> Frames:
    return resize_image(frame, (other.shape[0], other.shape[1]))
