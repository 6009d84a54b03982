"""Robometer: progress and success after each frame by trained heads, and a preference between two videos.

Liang et al. 2026, arXiv 2603.02115. The question is the published one, of which the profile ``robometer`` states
where its words are kept; ``models/robometer`` shows the frames and reads the heads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from stepscore.episodes import Episode, sample_frames
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges.base import Ask
from stepscore.judges.common.ask_model import ask_progress, require
from stepscore.judges.common.option_checks import (
    boolean,
    check_options,
    frame_rate,
    image_size,
    optional,
    text,
    whole,
)
from stepscore.judges.common.pairs import PairPreference
from stepscore.judges.published.prompting import OWN, PUBLISHED, fill_text, question_texts, text_digests
from stepscore.judges.published.published_judge import PublishedJudge
from stepscore.models import (
    DecodedMedia,
    Model,
    PredictProgress,
    PreferVideo,
    Prompt,
    Turn,
    VideoFrames,
)
from stepscore.registry import names
from stepscore.types import Curve, FloatArray, IntArray, Judgement

PAIR_OPTIONS = ("both_orders", "pair_progress", "pair_prompt")


@dataclass(frozen=True)
class Robometer(PublishedJudge):
    """Progress and success at frames of a video, by the heads of a Robometer checkpoint: absolute, uncalibrated.

    As in the published evaluation, a video is shown by eight frames, evenly from the first to the last, in one pass;
    progress after each of them is a point of the curve. A shorter video is padded with its last frame. Channels:
    ``success``, the probability that the task is done; ``spread``, the standard deviation of the predicted
    distribution of progress. The success score is the success probability at the last frame.

    Attributes:
        model: ``hf/CHECKPOINT``, of either published layout.
        frames: Frames of a question; the checkpoint was trained with 8.
        fps: Frames a second instead of evenly spread ones, at most ``frames`` of them. Published examples show all
            of a video at 1 frame a second: ``fps=1 frames=512``.
        points: A question for each of this number of evenly spread prefixes instead of one for the video; a prefix is
            shown by ``frames`` evenly spread frames, and the last of them is the point. The published evaluation of
            reward alignment has 5 points; LeRobot's has one at each frame, of 4 frames.
        pad: Repeat the last frame of a video or prefix that has fewer frames, as published.
        size: Longer side of a frame in pixels; ``None`` for the recorded size, as published.
        both_orders: Ask for a preference in both orders, and return the mean.
        pair_progress: Whether the question about two videos also asks for progress; ``None`` for what the
            checkpoint was trained with.
        pair_prompt: As ``prompt``, for the question about two videos: a file has sections ``[user]``,
            ``[progress]``, ``[first]``, ``[second]`` and ``[last]``.
        profile: The profile: ``robometer``.
        prompt: ``"published"``, ``"own"``, or a path to a text or to the published file.
    """

    model: Model = field(metadata=names("model"))
    frames: int = 8
    fps: float | None = None
    points: int | None = None
    pad: bool = True
    size: int | None = None
    both_orders: bool = False
    pair_progress: bool | None = None
    pair_prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    profile: str | None = field(default="robometer", metadata=names("text"))
    prompt: str = field(default=PUBLISHED, metadata=names("path", PUBLISHED, OWN))
    name = "robometer"
    version = 1

    def __post_init__(self) -> None:
        check_options(self, frames=whole(1, 512), fps=optional(frame_rate()), points=optional(whole(1)))
        check_options(self, pad=boolean(), size=image_size(), both_orders=boolean())
        check_options(self, pair_progress=optional(boolean()), pair_prompt=text(), prompt=text())
        if self.fps is not None and self.points is not None:
            raise OptionError("robometer: give fps or points, not both.")
        require(self.model, self.name, heads=True)
        _ = self.rules

    @property
    def questions(self) -> tuple[str, ...]:
        """The question of a run; preferences are asked outside of one."""
        return ("progress",)

    def options(self) -> Mapping[str, object]:
        """Return all that can change a curve, digests of the prompt included; those of pairs change none."""
        options = self.published_options()
        return {
            key: value for key, value in options.items() if key not in (*PAIR_OPTIONS, "sampling", "images")
        }

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        """Return progress and success at the shown frames, or at the ends of prefixes."""
        (view,) = self.view_names(episode)
        timestamps = episode.views[view].timestamps()
        points = self._ends(episode)
        shown = [points] if self.points is None else [spread_indices(end + 1, self.frames) for end in points]
        answers = await ask_progress(ask, [self._progress(episode, view, one) for one in shown])
        # Of a padded video the last repetition of the last frame counts, as published.
        read = [-1] if self.points is not None else [*range(len(points) - 1), -1]
        channels: dict[str, FloatArray] = {
            name: np.concatenate([getattr(answer, name)[read] for answer in answers])
            for name in ("progress", "success", "spread")
        }
        progress = channels.pop("progress")
        if np.isnan(channels["spread"]).all():
            del channels["spread"]
        success = float(channels["success"][-1])
        return Judgement(Curve(timestamps[points], progress, channels), success_score=success)

    def _ends(self, episode: Episode) -> IntArray:
        """Return the frames of the curve's points."""
        count = None if self.fps is not None else self.points or self.frames
        sampled = sample_frames(episode, count=count, fps=self.fps, most=self.frames)
        return sampled.indices[sampled.views[0]]

    def _progress(self, episode: Episode, view: str, shown: IntArray) -> PredictProgress:
        fields = self.question("progress").texts["user"].fields
        before = fill_text(self.texts("progress")["user"], fields, {"instruction": episode.instruction})
        video = VideoFrames(view, self._padded(shown), self.size)
        return PredictProgress(Prompt((Turn("user", (before, video)),)))

    def _padded(self, shown: IntArray) -> tuple[int, ...]:
        indices = tuple(shown.tolist())
        padded = self.pad and self.fps is None
        return indices + indices[-1:] * (self.frames - len(indices)) if padded else indices

    # Pairs ----------------------------------------------------------------------------------------------------------

    def pair_options(self) -> Mapping[str, object]:
        """Return all that can change a preference, digests of the prompt included."""
        return {
            "frames": self.frames,
            "fps": self.fps,
            "pad": self.pad,
            "size": self.size,
            "both_orders": self.both_orders,
            "pair_progress": self._asks_progress(),
            "profile": self.rules.name,
            "prompts": text_digests(self.rules, "preference", self.pair_prompt),
        }

    async def prefer(self, first: Episode, second: Episode, ask: Ask) -> PairPreference:
        """Return how likely the first of two episodes of one task got further; see :class:`PairJudge`.

        Args:
            first: The episode whose requests ``ask`` sends.
            second: Another, or the same.
            ask: Sends requests about ``first``; the frames of ``second`` are decoded here.

        Raises:
            EpisodeError: The two were given different instructions.
        """
        if first.instruction != second.instruction:
            raise EpisodeError(
                f"Episodes {first.id} and {second.id} have different instructions; a preference is about one task."
            )
        here, other = self._video(first), await asyncio.to_thread(self._decoded, second)
        forward = await self._preference(first, (here, other), ask)
        if not self.both_orders:
            return PairPreference(forward)
        return PairPreference(forward, 1 - await self._preference(first, (other, here), ask))

    async def _preference(
        self,
        episode: Episode,
        videos: tuple[VideoFrames | DecodedMedia, VideoFrames | DecodedMedia],
        ask: Ask,
    ) -> float:
        texts = question_texts(self.rules, "preference", self.pair_prompt)
        fields = self.question("preference").texts["user"].fields
        before = fill_text(texts["user"], fields, {"instruction": episode.instruction})
        before += (texts["progress"] if self._asks_progress() else "") + texts["first"]
        parts = (before, videos[0], texts["second"], videos[1], texts["last"])
        response = await ask(PreferVideo(Prompt((Turn("user", parts),))))
        return response.first

    def _asks_progress(self) -> bool:
        if self.pair_progress is not None:
            return self.pair_progress
        heads = self.model.describe().get("heads")
        return bool(heads.get("preference_asks_progress", True)) if isinstance(heads, Mapping) else True

    def _video(self, episode: Episode) -> VideoFrames:
        (view,) = self.view_names(episode)
        count = None if self.fps is not None else self.frames
        sampled = sample_frames(episode, count=count, fps=self.fps, most=self.frames)
        return VideoFrames(view, self._padded(sampled.indices[view]), self.size)

    def _decoded(self, episode: Episode) -> DecodedMedia:
        video = self._video(episode)
        return DecodedMedia(episode.clip(video.view, indices=video.indices, size=video.size), video=True)


def spread_indices(n: int, count: int) -> IntArray:
    """Return ``count`` indices spread evenly from 0 to ``n`` - 1, or all where there are fewer.

    >>> spread_indices(20, 4).tolist()
    [0, 6, 13, 19]
    """
    if count == 1:
        return np.array([n - 1])
    return np.round(np.linspace(0, n - 1, min(n, count))).astype(np.int64)
