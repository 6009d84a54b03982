"""A video that is still being recorded, scored by SARM frame by frame; and the curve of SARM's predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from stepscore.episodes import TIME_TOLERANCE_S, Clip
from stepscore.errors import OptionError
from stepscore.models import StagePredictions
from stepscore.models.sarm import SarmModel
from stepscore.types import Curve, FloatArray

if TYPE_CHECKING:
    from stepscore.models.sarm import Half


def stage_curve(
    times: FloatArray,
    predictions: StagePredictions,
    head: str,
    smooth_s: float,
    before: tuple[FloatArray, FloatArray] | None = None,
) -> Curve:
    """Return the curve of a model's predictions under one head.

    ``smooth_s`` is the trailing mean in seconds (0 for none), into which the points of ``before`` enter.
    """
    chosen = predictions.heads[head]
    channels = {
        "stage": chosen.probabilities.argmax(axis=1).astype(np.float64),
        "share": chosen.shares,
        **{f"p_stage_{number}": column for number, column in enumerate(chosen.probabilities.T)},
    }
    if len(predictions.heads) > 1:
        channels |= {name: each.progress for name, each in predictions.heads.items()}
    raw = chosen.progress
    if not smooth_s:
        return Curve(times, raw, channels)
    earlier_s, earlier = before or (np.empty(0), np.empty(0))
    smooth = trailing_mean_s(np.append(earlier_s, times), np.append(earlier, raw), smooth_s)
    return Curve(times, smooth[len(earlier) :], {**channels, "raw": raw})


def trailing_mean_s(times: FloatArray, values: FloatArray, seconds: float) -> FloatArray:
    """Return the mean of the values at and before each time, less than ``seconds`` back, shape (n,)."""
    # The tolerance keeps sums of 1/fps from deciding whether a frame counts.
    first = np.searchsorted(times, times - seconds + TIME_TOLERANCE_S, side="left")
    sums = np.append(0.0, np.cumsum(values))
    at = np.arange(len(times))
    start = np.minimum(first, at)
    means: FloatArray = (sums[at + 1] - sums[start]) / (at + 1 - start)
    return np.clip(means, 0.0, 1.0)


class SarmSession:
    """A growing video. Every frame is encoded once; only the first and those within a window's reach are kept."""

    def __init__(
        self, model: SarmModel, head: str, instruction: str, task: str, *, decode: str, smooth_s: float
    ) -> None:
        self._model, self._head, self._instruction, self._task = model, head, instruction, task
        self._decode, self._smooth_s = decode, smooth_s
        self._times, self._raw_s, self._raw = np.empty(0), np.empty(0), np.empty(0)
        self._features: list[Half] = []
        self._state: list[FloatArray] = []

    def add(self, clip: Clip | Mapping[str, Clip], state: FloatArray | None = None) -> Curve:
        """Return the points of new frames, a point a frame.

        Args:
            clip: The frames, later than all before; several views by name, with the same timestamps in each.
                Decoded at ``judge.model.frame_encoder.side`` pixels they equal those that :meth:`Sarm.judge` encodes.
            state: The robot's state at each frame, shape (n, dim), where the checkpoint takes it.
        """
        config = self._model.config
        clips = [clip] if isinstance(clip, Clip) else [clip[view] for view in config.views if view in clip]
        self._check(clips, state)
        new = clips[0].timestamps
        first = len(self._times)
        self._times = np.append(self._times, new)
        self._features += list(self._model.encode_images([each.frames for each in clips]))
        self._state += [] if state is None else list(np.asarray(state, dtype=np.float64))
        predictions = self._model.predict(
            self._times,
            np.stack(self._features),
            self._instruction,
            self._task,
            np.arange(first, len(self._times)),
            self._decode,
            np.stack(self._state) if self._state else None,
        )
        before = (self._raw_s, self._raw)
        curve = stage_curve(new, predictions, self._head, self._smooth_s, before)
        self._forget(new, curve.channels.get("raw", curve.progress))
        return curve

    def _check(self, clips: list[Clip], state: FloatArray | None) -> None:
        config = self._model.config
        if len(clips) != len(config.views):
            raise OptionError(f"Give a clip of each view: {', '.join(config.views)}.")
        n = len(clips[0])
        if any(len(each) != n for each in clips) or not n:
            raise OptionError(
                f"The views' clips have {[len(each) for each in clips]} frames; expected the same, from 1."
            )
        if len(self._times) and clips[0].timestamps[0] <= self._times[-1]:
            raise OptionError(
                f"A frame of {clips[0].timestamps[0]:g} s comes after one of {self._times[-1]:g} s; frames are added "
                "in order."
            )
        if (state is None) != (not config.state) or (state is not None and len(state) != n):
            raise OptionError(
                f"The checkpoint takes {', '.join(config.state) or 'no state'}: give a row of it for each frame."
            )

    def _forget(self, new: FloatArray, raw: FloatArray) -> None:
        """Drop frames and points that no later window or mean can use."""
        now = float(self._times[-1])
        # A window contains the last frame recorded by a timestamp, so one frame further back may be needed.
        reach = now - self._model.config.window.reach_s - self._model.config.window.gap_s
        keep = np.flatnonzero((self._times >= reach) | (np.arange(len(self._times)) == 0))
        older = np.searchsorted(self._times, reach) - 1
        keep = np.union1d(keep, [max(0, int(older))])
        self._times = self._times[keep]
        self._features = [self._features[i] for i in keep]
        self._state = [self._state[i] for i in keep] if self._state else []
        self._raw_s, self._raw = np.append(self._raw_s, new), np.append(self._raw, raw)
        late = self._raw_s > now - self._smooth_s
        self._raw_s, self._raw = self._raw_s[late], self._raw[late]
