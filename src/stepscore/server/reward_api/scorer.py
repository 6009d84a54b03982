"""What the server scores with: the judge, its call chain, and the run that keeps every score."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from stepscore.episodes import Clip, Episode, fit_size, resize_frames
from stepscore.errors import StepScoreError
from stepscore.judges import Ask, Judge, default_model
from stepscore.judges.common import PROBABILITY_CHANNEL
from stepscore.models.calls import Call, CallChain, CallOptions, UnstoredAccount
from stepscore.runs import LiveRun, protocol_of
from stepscore.server.reward_api.limits import Admission, Limits, RefusedError
from stepscore.server.reward_api.received import Received
from stepscore.types import Curve, FloatArray, Judgement


@runtime_checkable
class ClipJudge(Protocol):
    """A judge that scores every frame of a clip in one pass: ``topreward``."""

    size: int | None
    max_frames: int

    async def score_clips(
        self, clips: Mapping[str, Clip], instruction: str, ask: Ask, task: str | None = None
    ) -> Judgement:
        """Return the judgement, with a point for every frame."""


class Scorer:
    """Scores videos for all clients.

    Args:
        judge: The judge.
        limits: How many at a time.
        folder: The run folder that keeps the scores; ``None`` for none.
        command: Name and options of the command, kept in the run.

    Attributes:
        scored: Frames, and frames of unknown progress, so far.
    """

    def __init__(
        self,
        judge: Judge,
        limits: Limits,
        folder: Path | None = None,
        command: Mapping[str, Any] | None = None,
    ) -> None:
        self.judge, self.limits = judge, limits
        self.protocol = protocol_of(judge)
        options = CallOptions(cache=False)
        self.run = None if folder is None else LiveRun(folder, judge, options, command)
        self._chain = (
            CallChain(UnstoredAccount(), options, default_model(judge))
            if self.run is None
            else self.run.chain
        )
        self.admission = Admission(limits)
        self.scored = {"frames": 0, "unknown": 0}
        self._numbers = 0 if self.run is None else self.run.count

    @property
    def fps(self) -> float:
        """Frames a second of a video that states no times."""
        return float(getattr(self.judge, "fps", None) or 2.0)

    @property
    def is_calibrated(self) -> bool:
        """Whether progress is mapped to labelled progress."""
        return getattr(self.judge, "fitted", None) is not None

    def turn(self) -> AbstractAsyncContextManager[None]:
        """Wait for a turn to score."""
        return self.admission.slot()

    def name(self, kind: str) -> str:
        """Return a new episode's name."""
        self._numbers += 1
        return f"{kind}_{self._numbers:08d}"

    def ask_about(self, episode: Episode, calls: list[Call]) -> Ask:
        """Return what sends the requests about an episode."""
        return self._chain.ask_about(episode, calls)

    async def score(self, video: Received) -> Curve:
        """Return a point for each frame of a video; unknown where the judge does not know.

        Raises:
            RefusedError: The judge cannot score it, or took too long.
        """
        async with self.turn():
            name = self.name("video")
            started = time.perf_counter()
            calls: list[Call] = []
            episode = await asyncio.to_thread(video.episode, name)
            try:
                async with asyncio.timeout(self.limits.answer_s):
                    judgement = await self._judge(video, episode, self.ask_about(episode, calls))
            except TimeoutError:
                raise RefusedError(503, f"Not scored within {self.limits.answer_s:g} s. Try again.") from None
            except StepScoreError as error:
                self.record(episode, Judgement(error=str(error)), calls, time.perf_counter() - started)
                raise RefusedError(422, str(error)) from error
            self.record(episode, judgement, calls, time.perf_counter() - started)
            curve = at_frames(judgement, video.times)
            self.count(curve)
            return curve

    async def _judge(self, video: Received, episode: Episode, ask: Ask) -> Judgement:
        judge = self.judge
        if not isinstance(judge, ClipJudge):
            return await judge.judge(episode, ask)
        chosen = np.arange(len(video))
        if len(chosen) > judge.max_frames:
            chosen = np.unique(np.round(np.linspace(0, len(video) - 1, judge.max_frames)).astype(int))
        clips = await asyncio.to_thread(_fitted, video.clips, chosen, judge.size)
        return await judge.score_clips(clips, video.instruction, ask, video.task)

    def record(self, episode: Episode, judgement: Judgement, calls: list[Call], seconds: float) -> None:
        """Keep a judged video in the run, where there is one."""
        if self.run is not None:
            self.run.record(episode, judgement, calls, seconds)

    def count(self, curve: Curve) -> None:
        """Count the points of a video, or of new frames of one."""
        self.scored["frames"] += len(curve)
        self.scored["unknown"] += int(np.isnan(curve.progress).sum())

    def close(self) -> None:
        """Close the run."""
        if self.run is not None:
            self.run.close()
        else:
            self._chain.close()


def success_of(curve: Curve) -> FloatArray:
    """Return the probability of success at each point: calibrated where it is known, else the judge's own."""
    for channel in (PROBABILITY_CHANNEL, "success"):
        if channel in curve.channels:
            return curve.channels[channel]
    return np.full(len(curve), np.nan)


def at_frames(judgement: Judgement, times: FloatArray) -> Curve:
    """Return a judgement's curve at the frames: linear between points, unknown outside and beside unknown ones."""
    curve = judgement.curve
    if curve is None or not len(curve):
        return Curve(times, np.full(len(times), np.nan))

    def read(values: FloatArray) -> FloatArray:
        found = np.interp(times, curve.times, values, left=np.nan, right=np.nan)
        # A point is its own value even beside an unknown one, which makes np.interp unknown.
        nearest = np.clip(np.searchsorted(curve.times, times - 1e-6), 0, len(curve) - 1)
        return np.where(np.abs(curve.times[nearest] - times) < 1e-6, values[nearest], found)

    channels = {name: read(values) for name, values in curve.channels.items() if name != "minmax"}
    return replace(curve, times=times, progress=read(curve.progress), channels=channels)


def _fitted(clips: Mapping[str, Clip], chosen: Any, size: int | None) -> dict[str, Clip]:
    """Return the chosen frames at the size that the judge looks at."""
    fitted = {}
    for view, clip in clips.items():
        height, width = clip.frames.shape[1:3]
        frames = clip.frames if len(chosen) == len(clip) else clip.frames[chosen]
        frames = resize_frames(frames, fit_size(width, height, size)[::-1])
        fitted[view] = Clip(frames, clip.timestamps[chosen], clip.indices[chosen])
    return fitted
