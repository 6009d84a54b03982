"""Requests to trained heads and encoders: stages, progress, preferences and similarity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from stepscore.models.media import DecodedMedia, FrameRef, GoalImage, VideoFrames, label
from stepscore.models.requests.typed import PromptRequest, TypedRequest
from stepscore.models.responses import (
    Preference,
    ProgressPredictions,
    Similarities,
    StagePredictions,
    cosines,
    count_of,
    probabilities,
)


@dataclass(frozen=True)
class PredictStages(TypedRequest[StagePredictions]):
    """Stage and progress at frames of a video, by a trained stage-aware reward model (``sarm/``).

    ``videos`` has the same timestamps in each of the checkpoint's views, in its order; ``frames`` are the positions
    to score, ``None`` for all. ``task`` is the trained task whose stages count, and ``decode`` says how their
    probabilities become progress: ``"argmax"`` or ``"expected"``. ``state`` is the robot's at each frame.
    """

    videos: tuple[VideoFrames | DecodedMedia, ...]
    instruction: str
    task: str
    frames: tuple[int, ...] | None = None
    decode: str = "argmax"
    state: tuple[tuple[float, ...], ...] | None = None
    tag: ClassVar[str] = "predict-stages"
    shown = ("videos",)
    response = StagePredictions
    unanswered = "predicts no stages; a checkpoint under sarm/ does"

    def as_text(self) -> str:
        """Return the videos, the task and the instruction."""
        videos = "".join(f"[{label(video)}]" for video in self.videos)
        return f"{videos}task: {self.task}\ninstruction: {self.instruction}"

    def unknown(self, text: str = "") -> StagePredictions:
        """Return no stages."""
        return StagePredictions({})

    def checked(self, response: StagePredictions) -> StagePredictions | None:
        """Return the predictions, whose arrays must fit together."""
        if not all(head.fits for head in response.heads.values()):
            return None
        return replace(response, tokens_in=count_of(response.tokens_in))


@dataclass(frozen=True)
class PredictProgress(PromptRequest[ProgressPredictions]):
    """Progress and success after each frame of a video, by the heads of a reward model (Robometer).

    The prompt is a user's turn with texts and one video. The model shows its frames as images, and writes the special
    token at which its heads read each of them.
    """

    tag: ClassVar[str] = "predict-progress"
    response = ProgressPredictions
    unanswered = "has no reward heads; a Robometer checkpoint under hf/ has"

    def unknown(self, text: str = "") -> ProgressPredictions:
        """Return NaN for every frame."""
        unknown = np.full(self.video_frames, np.nan)
        return ProgressPredictions(unknown, unknown, unknown)

    def checked(self, response: ProgressPredictions) -> ProgressPredictions | None:
        """Return the predictions; one outside 0..1 is unknown."""
        values = (response.progress, response.success, response.spread)
        arrays = [np.asarray(array, dtype=np.float64) for array in values]
        if any(array.shape != (self.video_frames,) for array in arrays):
            return None
        progress, success, spread = map(probabilities, arrays)
        return ProgressPredictions(progress, success, spread, count_of(response.tokens_in))


@dataclass(frozen=True)
class PreferVideo(PromptRequest[Preference]):
    """Probability that the first of two videos shows more progress, by a reward model's head (Robometer).

    The prompt is a user's turn with texts and two videos; frames of another episode than the judged one are given
    decoded. The model writes the special tokens.
    """

    tag: ClassVar[str] = "prefer-video"
    response = Preference
    unanswered = PredictProgress.unanswered

    def unknown(self, text: str = "") -> Preference:
        """Return NaN."""
        return Preference(math.nan)

    def checked(self, response: Preference) -> Preference:
        """Return the probability; one outside 0..1 is unknown."""
        return Preference(float(probabilities(np.float64(response.first))), count_of(response.tokens_in))


@dataclass(frozen=True)
class ScoreSimilarity(TypedRequest[Similarities]):
    """Cosine similarity of every frame of a video with images, and with texts if a model has such an encoder."""

    video: VideoFrames | DecodedMedia
    images: tuple[FrameRef | GoalImage | DecodedMedia, ...] = ()
    texts: tuple[str, ...] = ()
    tag: ClassVar[str] = "score-similarity"
    shown = ("video", "images")
    response = Similarities
    unanswered = "scores no similarity; embedded and encoders under hf/ do"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of frames, and of images and texts."""
        return self.video.images, len(self.images) + len(self.texts)

    def words(self) -> list[str]:
        """Return the texts."""
        return list(self.texts)

    def as_text(self) -> str:
        """Return the video, the images and the texts."""
        images = "".join(f"[{label(image)}]" for image in self.images)
        return "\n".join([f"[{label(self.video)}] similar to {images}", *self.texts])

    def unknown(self, text: str = "") -> Similarities:
        """Return NaN for every frame."""
        n, r = self.shape
        return Similarities(np.full((n, r), np.nan), np.full((r, r), np.nan))

    def checked(self, response: Similarities) -> Similarities | None:
        """Return the similarities; one outside -1..1 is unknown."""
        n, r = self.shape
        frames, references = (np.asarray(a, dtype=np.float64) for a in (response.frames, response.references))
        if frames.shape != (n, r) or references.shape != (r, r):
            return None
        return Similarities(cosines(frames), cosines(references), count_of(response.tokens_in))
