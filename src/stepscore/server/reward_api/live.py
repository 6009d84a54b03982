"""Sessions over HTTP: open, add frames, read points, close. A growing video costs only its new frames."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stepscore.episodes import Clip, Episode
from stepscore.errors import StepScoreError
from stepscore.models.calls import Call
from stepscore.server.reward_api.arrays import read_frames
from stepscore.server.reward_api.limits import Limits, RefusedError
from stepscore.server.reward_api.multipart import Form
from stepscore.server.reward_api.received import ReceivedView
from stepscore.server.reward_api.robometer import instruction_of, parse, shown, times_of
from stepscore.server.reward_api.scorer import Scorer
from stepscore.types import Curve

MAX_VIEWS = 16


@dataclass
class LiveVideo:
    """An open session of a client.

    Attributes:
        session: The judge's session.
        episode: What the run keeps of it.
        views: Its cameras.
        calls: Its calls.
        lock: One request at a time.
        used: When it was used last.
        seconds: Time it took.
        times: Seconds of the frames that were sent.
        size: Their height and width.
        digest: The sha256 of the first camera's frames so far.
    """

    session: Any
    episode: Episode
    views: tuple[str, ...]
    calls: list[Call]
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    used: float = 0.0
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    size: tuple[int, int] = (1, 1)
    digest: Any = field(default_factory=hashlib.sha256)


class LiveVideos:
    """The open sessions.

    Args:
        scorer: Scores.
        limits: How many, and for how long.
    """

    def __init__(self, scorer: Scorer, limits: Limits) -> None:
        self._scorer, self._limits = scorer, limits
        self._open: dict[str, LiveVideo] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def open(self, content: object) -> dict[str, Any]:
        """Open a session, and return its name and what it shows."""
        if not isinstance(content, dict):
            raise RefusedError(400, "Send an object with the instruction.")
        instruction = instruction_of(content.get("instruction"), "instruction")
        views, task = content.get("views", ["main"]), content.get("task")
        if (
            not isinstance(views, list)
            or not 1 <= len(views) <= MAX_VIEWS
            or len(set(map(str, views))) < len(views)
        ):
            raise RefusedError(400, f"views must be a list of 1 to {MAX_VIEWS} different names.")
        if not all(isinstance(view, str) and 0 < len(view) <= 100 for view in views):
            raise RefusedError(400, "Names of views must have 1 to 100 characters.")
        if task is not None and not isinstance(task, str):
            raise RefusedError(400, "task must be a text.")
        odd = content.get("odd", "wait")
        if odd not in ("wait", "repeat"):
            raise RefusedError(400, "odd must be wait or repeat.")
        if len(self._open) >= self._limits.sessions:
            raise RefusedError(429, f"{len(self._open)} sessions are open (at most {self._limits.sessions}).")
        if not hasattr(self._scorer.judge, "live_prompt"):
            raise RefusedError(422, f"The judge {self._scorer.judge.name} has no sessions; topreward has.")
        episode = Episode(self._scorer.name("session"), instruction, source="server", task=task)
        calls: list[Call] = []
        ask = self._scorer.ask_about(episode, calls)
        try:
            session = await asyncio.to_thread(
                lambda: self._scorer.judge.open(  # type: ignore[attr-defined]
                    instruction, views, task, odd=odd, ask=ask, calls=calls
                )
            )
        except StepScoreError as error:
            raise RefusedError(422, str(error)) from error
        name = secrets.token_urlsafe(16)
        self._open[name] = LiveVideo(session, episode, tuple(views), calls, used=time.monotonic())
        judge = self._scorer.judge
        facts = {part: getattr(judge, part) for part in ("fps", "size", "max_frames", "min_first")}
        return {
            "session": name,
            "views": views,
            "odd": odd,
            "calibrated": self._scorer.is_calibrated,
            **facts,
        }

    async def add(self, name: str, form: Form) -> dict[str, Any]:
        """Add frames, and return their points."""
        live = self._of(name)
        async with live.lock, self._scorer.turn():
            if name not in self._open:
                raise _gone(name)
            live.used, started = time.monotonic(), time.perf_counter()
            clips = self._clips(live, form)
            try:
                async with asyncio.timeout(self._limits.answer_s):
                    curve = await live.session.add_async(clips)
            except TimeoutError:
                await self._close(name, live, error="a request took too long")
                raise RefusedError(
                    503, f"Not scored within {self._limits.answer_s:g} s; it is closed."
                ) from None
            except StepScoreError as error:
                raise RefusedError(422, str(error)) from error
            finally:
                live.seconds += time.perf_counter() - started
            main = clips[live.views[0]]
            live.times += main.timestamps.tolist()
            live.size = main.frames.shape[1:3]
            live.digest.update(np.ascontiguousarray(main.frames))
            self._scorer.count(curve)
            return {**points(curve), "frames": len(live.times), "shown": live.session.shown}

    async def points(self, name: str) -> dict[str, Any]:
        """Return all points so far."""
        live = self._of(name)
        async with live.lock:
            live.used = time.monotonic()
            return {**points(live.session.curve), "frames": len(live.times), "shown": live.session.shown}

    async def close(self, name: str) -> dict[str, Any]:
        """Score a last frame that has no point yet, close, and return the points that came of it."""
        live = self._of(name)
        async with live.lock, self._scorer.turn():
            if name not in self._open:
                raise _gone(name)
            curve = await self._close(name, live)
            return {**points(curve), "frames": len(live.times), "shown": live.session.shown}

    async def close_idle(self) -> None:
        """Close sessions that were not used for a while."""
        now = time.monotonic()
        for name, live in list(self._open.items()):
            if now - live.used > self._limits.idle_s and not live.lock.locked():
                async with live.lock:
                    await self._close(name, live)

    async def close_all(self) -> None:
        """Close every session: the server stops."""
        for name, live in list(self._open.items()):
            async with live.lock:
                if name in self._open:
                    await self._close(name, live)

    def _of(self, name: str) -> LiveVideo:
        if (live := self._open.get(name)) is None:
            raise _gone(name)
        return live

    async def _close(self, name: str, live: LiveVideo, error: str | None = None) -> Curve:
        del self._open[name]
        last = Curve(np.zeros(0), np.zeros(0))
        try:
            if error is None and live.times:
                last = await live.session.finish_async()
        except StepScoreError as failed:
            error = str(failed)
        judgement = live.session.judged(error)
        if live.times:
            view = ReceivedView(np.array(live.times) - live.times[0], live.size, live.digest.digest())
            views = {live.views[0]: view}
            fields = (live.episode.id, live.episode.instruction)
            kept = Episode(*fields, source="server", task=live.episode.task, views=views)
            self._scorer.record(kept, judgement, live.calls, live.seconds)
        live.session.close()
        return last

    def _clips(self, live: LiveVideo, form: Form) -> dict[str, Clip]:
        if set(form.files) != set(live.views):
            raise RefusedError(400, f"Send a .npy file for each view: {', '.join(live.views)}.")
        arrays = {view: read_frames(form.files[view], self._limits, view) for view in live.views}
        n = len(arrays[live.views[0]])
        if any(len(array) != n for array in arrays.values()):
            raise RefusedError(400, "The views must have the same number of frames.")
        fps = self._scorer.fps
        if "timestamps" in form.fields:
            given = parse(form.fields["timestamps"], "timestamps")
            times_of({"timestamps": given}, n, fps, "timestamps")
            times = np.asarray(given, dtype=np.float64)
        else:
            begin = live.times[-1] + 1 / fps if live.times else 0.0
            times = begin + np.arange(n) / fps
        if live.times and times[0] <= live.times[-1]:
            raise RefusedError(
                400, f"Frames come in order: {times[0]:g} s is not after {live.times[-1]:g} s."
            )
        numbers = np.arange(len(live.times), len(live.times) + n)
        return {view: Clip(array, times, numbers) for view, array in arrays.items()}


def points(curve: Curve) -> dict[str, Any]:
    """Return points as JSON; unknown is null."""
    channels = {name: shown(values, None) for name, values in curve.channels.items()}
    return {
        "time_s": curve.times.tolist(),
        "progress": shown(curve.progress, None),
        "channels": channels,
        "calibrated": curve.calibrated,
    }


def _gone(name: str) -> RefusedError:
    return RefusedError(404, f"There is no open session {name[:40]!r}.")
