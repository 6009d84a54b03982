"""TOPReward on a video that is still being recorded: every frame is encoded once, and points come as it grows.

Frames are sampled causally: at the judge's rate from the first frame on, whatever follows. A video model reads frames
in pairs, so a point comes with every second frame; the one that waits for its pair is scored by :meth:`finish`, shown
twice, as the offline judge scores a video with an odd number of frames.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Protocol, cast, runtime_checkable

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, Clip, Episode, fit_size, resize_frames
from stepscore.errors import CapabilityError, OptionError, UnknownNameError
from stepscore.judges.base import Ask
from stepscore.models import DecodedMedia, Model, Prompt, ScoreStream, run_blocking
from stepscore.models.calls import Call, CallChain, CallOptions, UnstoredAccount
from stepscore.types import Curve, FloatArray, Frames, Judgement

OddFrames = Literal["wait", "repeat"]
Added = Frames | Clip | Mapping[str, Frames | Clip]
"""What a session takes: an image, a clip, or one of them by view."""


@runtime_checkable
class StreamingModel(Protocol):
    """A model in process that scores growing videos."""

    def open_stream(self, prompt: Prompt) -> Any:
        """Open a stream."""


class LiveJudge(Protocol):
    """What a session needs of its judge, :class:`stepscore.judges.TopReward`; see its attributes."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def fps(self) -> float:
        """Frames shown per second."""

    @property
    def min_first(self) -> int:
        """Frames in the first prefix."""

    @property
    def max_frames(self) -> int:
        """Most frames shown."""

    @property
    def size(self) -> int | None:
        """Longer side of a frame."""

    def live_prompt(self, instruction: str) -> Prompt:
        """Return the statement that is scored."""

    def words(self) -> tuple[str, str]:
        """Return the two words whose log-probabilities are read."""

    def judgement(self, times: FloatArray, scored: Mapping[str, FloatArray], episode: Episode) -> Judgement:
        """Return the judgement of log-probabilities by view."""


class TopRewardSession:
    """A growing video.

    Args:
        judge: A judge with ``sampling=causal``.
        instruction: The text the robot was given.
        views: The cameras, in order.
        task: The task's name, where the success map has a term for it.
        odd: ``"wait"``: a point comes with every pair of frames. ``"repeat"``: with every frame; one without its
            pair is scored as if shown twice, and encoded once more in its pair.
        ask: Sends requests, where a call chain is open already; by default the session has a chain of its own.

    Attributes:
        shown: Frames of each view that the model was shown.
        points: Points so far.
        calls: The record of each call.
    """

    def __init__(
        self,
        judge: LiveJudge,
        instruction: str,
        views: Sequence[str],
        *,
        task: str | None = None,
        odd: OddFrames = "wait",
        ask: Ask | None = None,
        calls: list[Call] | None = None,
    ) -> None:
        model = judge.model
        if not isinstance(model, StreamingModel):
            raise CapabilityError(
                f"{model.name} scores no growing video; embedded and Qwen3-VL models under hf/ do. "
                "Judge recorded episodes instead: stepscore judge"
            )
        if odd not in ("wait", "repeat"):
            raise OptionError(f"odd must be 'wait' or 'repeat', got {odd!r}.")
        self._judge, self._views = judge, tuple(views)
        self._episode = Episode("live", instruction, task=task)
        self.calls: list[Call] = [] if calls is None else calls
        self._chain: CallChain | None = None
        if ask is None:
            self._chain = CallChain(UnstoredAccount(), CallOptions(cache=False), cast(Model, model))
            ask = self._chain.ask_about(self._episode, self.calls)
        self._ask = ask
        self._prompt = judge.live_prompt(instruction)
        self._streams = {view: model.open_stream(self._prompt) for view in self._views}
        self._step = 2 if odd == "wait" else 1
        self._first_point = max(2, judge.min_first + judge.min_first % 2)
        self._began: float | None = None
        self._last_s, self._added, self._next = -np.inf, 0, 0
        self._waiting: dict[str, list[Frames]] = {view: [] for view in self._views}
        self._waiting_s: list[float] = []
        self._skipped: tuple[float, dict[str, Frames]] | None = None
        self.shown = 0
        self._times: list[float] = []
        self._scores: dict[str, list[FloatArray]] = {view: [] for view in self._views}
        self._is_full = False

    @property
    def points(self) -> int:
        """Number of points so far."""
        return len(self._times)

    @property
    def curve(self) -> Curve:
        """All points so far."""
        return self._points_since(0)

    def judged(self, error: str | None = None) -> Judgement:
        """Return the judgement of all points so far, as a run keeps it."""
        if not self._times:
            return Judgement(error=error or "Too few frames were shown for a point.")
        return replace(self._judgement(), error=error)

    def add(self, frames: Added) -> Curve:
        """Return the points that these frames make, often none: see ``odd`` and the judge's ``fps``.

        Args:
            frames: An image (h, w, 3) uint8, the next at the judge's rate; or a clip, whose timestamps say which of
                its frames are shown. Several views by name.
        """
        return run_blocking(self.add_async(frames))

    def finish(self) -> Curve:
        """Return the point of the last frame, where it has none yet; frames that follow are unknown."""
        return run_blocking(self.finish_async())

    async def add_async(self, frames: Added) -> Curve:
        """As :meth:`add`, within an event loop."""
        clips = self._clips(frames)
        start = len(self._times)
        for index, time in enumerate(self._seconds(next(iter(clips.values())))):
            images = {view: clip.frames[index] for view, clip in clips.items()}
            tick = int(np.floor((time + TIME_TOLERANCE_S) * self._judge.fps))
            self._skipped = (time, images) if tick < self._next else None
            if tick < self._next:
                continue
            self._next = tick + 1
            if self._is_full or self.shown + len(self._waiting_s) >= self._judge.max_frames:
                self._fill(time)
                continue
            self._wait(time, images)
            count = self.shown + len(self._waiting_s)
            if count >= self._first_point and count % self._step == 0:
                await self._score()
        return self._points_since(start)

    async def finish_async(self) -> Curve:
        """As :meth:`finish`, within an event loop."""
        start = len(self._times)
        if self._skipped is not None and not self._is_full:
            self._wait(*self._skipped)
        if self._waiting_s:
            await self._score()
        self._skipped, self._is_full = None, True
        return self._points_since(start)

    def close(self) -> None:
        """Free the model's memory of the video."""
        self._streams.clear()
        if self._chain is not None:
            self._chain.close()

    def __enter__(self) -> TopRewardSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _clips(self, frames: Added) -> dict[str, Clip]:
        """Return what was given by view."""
        given = frames if isinstance(frames, Mapping) else {self._views[0]: frames}
        for view in given:
            if view not in self._views:
                raise UnknownNameError("view", view, self._views, where="the session")
        if missing := [view for view in self._views if view not in given]:
            raise OptionError(
                f"The session shows {', '.join(self._views)}; no frame of {missing[0]} was given."
            )
        clips = {view: self._clip(given[view]) for view in self._views}
        first = next(iter(clips.values()))
        if any(len(clip) != len(first) for clip in clips.values()):
            raise OptionError("The views' clips must have the same number of frames.")
        return clips

    def _clip(self, given: Frames | Clip) -> Clip:
        if isinstance(given, Clip):
            clip = given
        else:
            image = np.asarray(given)
            if image.ndim != 3 or image.shape[-1] != 3 or image.dtype != np.uint8:
                raise OptionError(
                    f"A frame must be an array (height, width, 3) of uint8, got {image.shape} {image.dtype}."
                )
            time = 0.0 if self._began is None else self._began + self._last_s + 1 / self._judge.fps
            clip = Clip(image[None], np.array([time]), np.array([self._added]))
        height, width = clip.frames.shape[1:3]
        fitted = fit_size(width, height, self._judge.size)[::-1]
        return replace(clip, frames=resize_frames(clip.frames, fitted))

    def _seconds(self, clip: Clip) -> list[float]:
        """Return the frames' seconds from the first frame of the session."""
        if not len(clip):
            return []
        if self._began is None:
            self._began = float(clip.timestamps[0])
        times: list[float] = (clip.timestamps - self._began).tolist()
        before = [self._last_s, *times[:-1]]
        if not np.all(np.isfinite(times)) or any(b <= a for a, b in zip(before, times, strict=True)):
            raise OptionError("Timestamps must increase from frame to frame.")
        self._last_s, self._added = times[-1], self._added + len(clip)
        return times

    def _wait(self, time: float, images: Mapping[str, Frames]) -> None:
        for view, image in images.items():
            self._waiting[view].append(image)
        self._waiting_s.append(time)

    def _fill(self, time: float) -> None:
        """Note an unknown point: the session has shown as many frames as the judge may show."""
        if not self._is_full:
            self._is_full = True
            warnings.warn(
                f"The session has shown {self._judge.max_frames} frames (max_frames); progress is unknown from "
                f"{time:.1f} s on. Open the judge with a larger max_frames or a lower fps.",
                stacklevel=4,
            )
        self._times.append(time)
        for scores in self._scores.values():
            scores.append(np.full(2, np.nan))

    async def _score(self) -> None:
        """Show the frames that wait, and score the video so far."""
        if not self._streams:
            raise OptionError("The session is closed.")
        times = np.array(self._waiting_s)
        numbers = np.arange(self.shown, self.shown + len(times))
        words = self._judge.words()
        for view, stream in self._streams.items():
            clip = Clip(np.stack(self._waiting[view]), times, numbers)
            request = ScoreStream(stream, DecodedMedia(clip, video=True), (self._prompt,), words)
            response = await self._ask(request)
            self._scores[view].append(np.asarray(response.logprobs, dtype=np.float64)[0, 0])
            self._forget_frames()
        self._times.append(float(times[-1]))
        self.shown += len(times)
        self._waiting = {view: [] for view in self._views}
        self._waiting_s = []

    def _forget_frames(self) -> None:
        """Drop the pixels from the record of the last call: it keeps the prompt and the answer."""
        if self.calls and isinstance(last := self.calls[-1].request, ScoreStream):
            empty = Clip(last.video.clip.frames[:0], np.zeros(0), np.zeros(0, np.int64))
            self.calls[-1].request = replace(
                last, stream=cast(Any, None), video=DecodedMedia(empty, video=True)
            )

    def _points_since(self, start: int) -> Curve:
        """Return the points from one on; each depends on nothing after it."""
        if start == len(self._times):
            return Curve(np.zeros(0), np.zeros(0))
        return since(self._judgement(), start)

    def _judgement(self) -> Judgement:
        scored = {view: np.stack(scores) for view, scores in self._scores.items()}
        return self._judge.judgement(np.array(self._times), scored, self._episode)


def since(judgement: Judgement, start: int) -> Curve:
    """Return the points of a judgement from one on, without ``minmax``, which needs the whole episode."""
    curve = judgement.curve
    assert curve is not None
    channels = {name: values[start:] for name, values in curve.channels.items() if name != "minmax"}
    return replace(curve, times=curve.times[start:], progress=curve.progress[start:], channels=channels)
