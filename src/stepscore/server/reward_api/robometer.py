"""Robometer's requests and responses: ``/evaluate_batch_npy`` and ``/evaluate_batch``.

A progress sample has one ``trajectory``; a preference sample a ``chosen_trajectory`` and a ``rejected_trajectory``.
Frames carry no times in Robometer's form: they are taken at the judge's rate, unless ``metadata`` has ``fps`` or
``timestamps``. ``use_frame_steps`` is read and changes nothing: every prefix is scored in any case.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stepscore.episodes import Clip
from stepscore.server.reward_api.arrays import listed_frames, read_frames
from stepscore.server.reward_api.limits import Limits, RefusedError
from stepscore.server.reward_api.multipart import Form
from stepscore.server.reward_api.received import Received
from stepscore.server.reward_api.scorer import success_of
from stepscore.types import Curve, FloatArray

MAX_WORDS = 4000
"""Longest instruction, in characters."""


@dataclass(frozen=True)
class Sample:
    """One sample of a batch.

    Attributes:
        videos: One for progress; chosen and rejected for a preference.
    """

    videos: tuple[Received, ...]

    @property
    def is_preference(self) -> bool:
        """Whether two videos are compared."""
        return len(self.videos) == 2


@dataclass(frozen=True)
class Batch:
    """A request.

    Attributes:
        samples: Its samples.
        fill: What stands for unknown; ``None`` for null.
    """

    samples: Sequence[Sample]
    fill: float | None = None

    @property
    def videos(self) -> list[Received]:
        """All videos in order."""
        return [video for sample in self.samples for video in sample.videos]


def batch_of_form(form: Form, limits: Limits, fps: float) -> Batch:
    """Return the batch of a multipart request."""
    samples: list[Sample] = []
    while (text := form.fields.get(f"sample_{len(samples)}")) is not None:
        if len(samples) >= limits.samples:
            raise RefusedError(413, f"More than {limits.samples} samples in a request.")
        where = f"sample_{len(samples)}"
        samples.append(_sample(parse(text, where), where, form, limits, fps))
    if not samples:
        raise RefusedError(400, "The form has no field sample_0.")
    others = {name for name in form.fields if name.startswith("sample_")} - {
        f"sample_{i}" for i in range(len(samples))
    }
    if others:
        raise RefusedError(
            400, f"Samples are numbered from 0 without gaps; {sorted(others)[0][:80]!r} is left over."
        )
    return Batch(samples, _fill(form.fields.get("fill")))


def batch_of_json(content: object, limits: Limits, fps: float) -> Batch:
    """Return the batch of a JSON request."""
    if not isinstance(content, dict) or not isinstance(content.get("samples"), list):
        raise RefusedError(400, "Send an object with the list samples.")
    listed = content["samples"]
    if not 1 <= len(listed) <= limits.samples:
        raise RefusedError(
            413 if listed else 400, f"{len(listed)} samples; from 1 to {limits.samples} are taken."
        )
    none = Form({}, {})
    samples = [_sample(one, f"sample_{i}", none, limits, fps) for i, one in enumerate(listed)]
    return Batch(samples, _fill(content.get("fill")))


def parse(text: str | bytes | bytearray, where: str) -> Any:
    """Return a JSON value."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RefusedError(400, f"{where} is not JSON ({str(error)[:100]}).") from None


def response(batch: Batch, curves: Sequence[Curve]) -> dict[str, Any]:
    """Return the response, with Robometer's fields; ``curves`` are those of all videos in order."""
    progress: list[list[float | None]] = []
    success: list[list[float | None]] = []
    chosen: list[float | None] = []
    left = list(curves)
    for sample in batch.samples:
        mine, left = left[: len(sample.videos)], left[len(sample.videos) :]
        if sample.is_preference:
            chosen.append(_preference(*mine))
        else:
            progress.append(shown(mine[0].progress, batch.fill))
            success.append(shown(success_of(mine[0]), batch.fill))
    preference = {
        "predictions": [None if p is None else int(p > 0.5) for p in chosen],
        "prediction_probs": chosen,
        "preference_labels": [1] * len(chosen),
    }
    return {
        "outputs_preference": preference if chosen else None,
        "outputs_progress": {"progress_pred": progress} if progress else None,
        "outputs_success": {"success_probs": success} if success else None,
    }


def shown(values: FloatArray, fill: float | None) -> list[float | None]:
    """Return values as JSON; unknown is null, or what the client asked for."""
    return [fill if math.isnan(value) else float(value) for value in values]


def times_of(metadata: Mapping[str, Any], n: int, fps: float, where: str) -> FloatArray:
    """Return the seconds of n frames: those that were sent, or those of a rate."""
    given, rate = metadata.get("timestamps"), metadata.get("fps", fps)
    if given is None:
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1e6:
            raise RefusedError(400, f"{where}: fps must be a number above 0, got {str(rate)[:50]}.")
        return np.arange(n) / float(rate)
    try:
        times = np.asarray(given, dtype=np.float64)
    except (ValueError, TypeError, OverflowError):
        times = np.zeros(0)
    if times.shape != (n,) or not np.all(np.isfinite(times)) or np.any(np.diff(times) <= 0):
        raise RefusedError(400, f"{where}: timestamps must be {n} increasing seconds, one for each frame.")
    from_first: FloatArray = times - times[0]
    return from_first


def instruction_of(value: object, where: str) -> str:
    """Return an instruction."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_WORDS:
        raise RefusedError(400, f"{where} must be an instruction of 1 to {MAX_WORDS} characters.")
    return value.encode("utf-8", "replace").decode().strip()


def _sample(content: object, where: str, form: Form, limits: Limits, fps: float) -> Sample:
    if not isinstance(content, dict):
        raise RefusedError(400, f"{where} must be an object.")
    kind = content.get("sample_type")
    names = {"progress": ("trajectory",), "preference": ("chosen_trajectory", "rejected_trajectory")}
    if not isinstance(kind, str) or kind not in names:
        raise RefusedError(
            400, f"{where}: sample_type must be progress or preference, got {str(kind)[:50]!r}."
        )
    return Sample(
        tuple(_video(content.get(name), f"{where}.{name}", form, limits, fps) for name in names[kind])
    )


def _video(content: object, where: str, form: Form, limits: Limits, fps: float) -> Received:
    if not isinstance(content, dict):
        raise RefusedError(400, f"{where} must be an object with frames and task.")
    metadata = content.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise RefusedError(400, f"{where}.metadata must be an object.")
    frames = content.get("frames")
    if isinstance(frames, dict):
        name = frames.get("__numpy_file__")
        if not isinstance(name, str) or name not in form.files:
            raise RefusedError(400, f"{where}.frames: the request has no file {str(name)[:80]!r}.")
        array = read_frames(form.files[name], limits, where)
    elif isinstance(frames, list):
        array = listed_frames(frames, limits, where)
    else:
        raise RefusedError(400, f'{where}.frames must be {{"__numpy_file__": NAME}} or nested lists.')
    n = len(array)
    clip = Clip(array, times_of(metadata, n, fps, where), np.arange(n))
    sent = {"id": content.get("id")} if isinstance(content.get("id"), str | int) else {}
    return Received({"main": clip}, instruction_of(content.get("task"), f"{where}.task"), metadata=sent)


def _fill(value: object) -> float | None:
    if value is None:
        return None
    try:
        fill = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        fill = math.nan
    if not 0 <= fill <= 1 or isinstance(value, bool):
        raise RefusedError(400, f"fill must be a number from 0 to 1, got {str(value)[:50]!r}.")
    return fill


def _preference(chosen: Curve, rejected: Curve) -> float | None:
    """Return how probable it is that the first video ends with more progress: by the margins, else by progress."""
    if "margin" in chosen.channels and "margin" in rejected.channels:
        difference = float(chosen.channels["margin"][-1] - rejected.channels["margin"][-1])
        return None if math.isnan(difference) else 0.5 * (1 + math.tanh(difference / 2))
    difference = float(chosen.progress[-1] - rejected.progress[-1])
    return None if math.isnan(difference) else 0.5 * (1 + math.copysign(difference != 0, difference))
