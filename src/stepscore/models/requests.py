"""Requests of a judge to a model: text, token scores, scores of growing prefixes, stages, heads, similarity.

A request names its images (view, frame, size) instead of holding them. The engine looks the request up in the
cache by those names, and decodes only what was never asked before. A model gets the resolved request, in which
every :data:`MediaRef` has become :class:`DecodedMedia`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from stepscore.episodes import Clip, Episode, read_image, square_image, tile_images
from stepscore.errors import EpisodeError
from stepscore.models.schemas import Schema


@dataclass(frozen=True, slots=True)
class FrameRef:
    """One frame of a view; ``size`` is its longer side in pixels, ``None`` for the recorded size."""

    view: str
    index: int
    size: int | None = None


@dataclass(frozen=True, slots=True)
class GoalImage:
    """The goal image of a view."""

    view: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class TiledFrames:
    """Several frames side by side in one image, row by row, ``columns`` to a row.

    Attributes:
        frames: The frames.
        columns: Number of frames in a row.
        cell: Side in pixels of the square that each frame is put into; ``None`` for cells as large as the largest.
        stretch: Stretch a frame to its cell, instead of fitting it in with black around it.
        gap: Black pixels between cells.
    """

    frames: tuple[FrameRef, ...]
    columns: int
    cell: int | None = None
    stretch: bool = False
    gap: int = 0


@dataclass(frozen=True, slots=True)
class VideoFrames:
    """Frames of a view, in order, shown as a video with their timestamps."""

    view: str
    indices: tuple[int, ...]
    size: int | None = None


MediaRef = FrameRef | GoalImage | TiledFrames | VideoFrames


@dataclass(frozen=True, eq=False)
class DecodedMedia:
    """Decoded frames: one as an image, or several as a video."""

    clip: Clip
    video: bool = False


@dataclass(frozen=True, slots=True)
class VideoPrefix:
    """Stands for the first frames of the video in the prompts of :class:`ScorePrefixes`."""


Part = str | FrameRef | GoalImage | TiledFrames | VideoFrames | DecodedMedia | VideoPrefix
Role = Literal["system", "user", "assistant"]
Template = Literal["chat", "open", "none"]


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation: texts and images in order."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Prompt:
    """A conversation for the model to continue. The backend writes the markup of its own chat template.

    Attributes:
        turns: The turns in order.
        prefill: Text the model continues: the beginning of the assistant's turn, unless ``template`` says
            otherwise. Its leading space counts where it continues a text.
        template: ``"chat"``: the turns, then the assistant's turn is opened. ``"open"``: the last turn is never
            closed, and the prefill continues it (TOPReward's published code leaves the user's turn open).
            ``"none"``: the texts and images alone, without markup.
    """

    turns: tuple[Turn, ...]
    prefill: str = ""
    template: Template = "chat"


@dataclass(frozen=True)
class Generate:
    """Generate text.

    Attributes:
        prompt: What to answer.
        max_tokens: Length at which to stop.
        temperature: 0 for greedy decoding.
        top_p: Share of probability to sample from.
        top_k: Number of most likely tokens to sample from; ``None`` for all.
        top_logprobs: Number of most likely tokens whose log-probabilities are returned at every token of the answer.
        seed: For servers that take one.
        json: Ask for a JSON object where the model supports it.
        repeat: Number among several equal requests; each is asked, and cached, on its own.
        schema: The form that the answer must have, where the model supports it; ``None`` for any text.
    """

    prompt: Prompt
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    json: bool = False
    repeat: int = 0
    top_k: int | None = None
    top_logprobs: int = 0
    schema: Schema | None = None


@dataclass(frozen=True)
class Score:
    """Log-probability of each candidate as the next token after the prompt (one token each)."""

    prompt: Prompt
    candidates: tuple[str, ...]
    repeat: int = 0


@dataclass(frozen=True)
class ScorePrefixes:
    """Log-probability of each candidate after growing prefixes of one video, under one or more prompts.

    For every length k and prompt s the model reads prompt s with the first ``lengths[k]`` frames of ``video`` in
    the place of its :class:`VideoPrefix`; the candidates' log-probabilities as the next token are the response.

    Attributes:
        video: The frames, sampled once for the whole episode, so that prefixes share them.
        lengths: Number of frames in each prefix.
        prompts: One per instruction or question, alike up to the video.
        candidates: Words to score, one token each, the leading space included (``" True"``).
    """

    video: VideoFrames | DecodedMedia
    lengths: tuple[int, ...]
    prompts: tuple[Prompt, ...]
    candidates: tuple[str, ...]
    repeat: int = 0


@dataclass(frozen=True)
class PredictStages:
    """Stage and progress at frames of a video, by a trained stage-aware reward model (``sarm/``).

    Attributes:
        videos: The same timestamps in each of the checkpoint's views, in its order.
        instruction: What the robot was asked to do.
        task: The trained task whose stages count.
        frames: Positions in the videos to score; ``None`` for all.
        decode: How stage probabilities become progress: ``"argmax"`` or ``"expected"``.
        state: The robot's state at each frame, where the checkpoint takes it.
    """

    videos: tuple[VideoFrames | DecodedMedia, ...]
    instruction: str
    task: str
    frames: tuple[int, ...] | None = None
    decode: str = "argmax"
    state: tuple[tuple[float, ...], ...] | None = None


@dataclass(frozen=True)
class PredictProgress:
    """Progress and success after each frame of a video, by the heads of a reward model (Robometer).

    Attributes:
        prompt: One user's turn: texts and one video. The model shows its frames as images and writes the special
            token at which its heads read each of them.
    """

    prompt: Prompt


@dataclass(frozen=True)
class PreferVideo:
    """How likely the first of two videos shows more progress than the second, by a reward model's head (Robometer).

    Attributes:
        prompt: One user's turn: texts and two videos. The model writes the special tokens. Frames of another
            episode than the one that is judged are given decoded.
    """

    prompt: Prompt


@dataclass(frozen=True)
class ScoreSimilarity:
    """Cosine similarity of every frame of a video with some images and texts, by a model's encoders.

    Attributes:
        video: The frames; each is encoded once.
        images: Images to compare them with.
        texts: Texts to compare them with, where the model has a text encoder of the same space.
    """

    video: VideoFrames | DecodedMedia
    images: tuple[FrameRef | GoalImage | DecodedMedia, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        """The number of frames, and of references: images, then texts."""
        n = len(self.video.indices) if isinstance(self.video, VideoFrames) else len(self.video.clip)
        return n, len(self.images) + len(self.texts)


HeadRequest = PredictProgress | PreferVideo
Request = Generate | Score | ScorePrefixes | PredictStages | PredictProgress | PreferVideo | ScoreSimilarity


def media_refs(request: Request) -> Iterator[MediaRef]:
    """Yield the images and videos a request names, in order."""
    parts: Iterable[object]
    if isinstance(request, ScorePrefixes):
        parts = (request.video,)
    elif isinstance(request, PredictStages):
        parts = request.videos
    elif isinstance(request, ScoreSimilarity):
        parts = (request.video, *request.images)
    else:
        parts = _parts(request.prompt)
    yield from (part for part in parts if isinstance(part, MediaRef))


def _parts(prompt: Prompt) -> Iterator[Part]:
    return (part for turn in prompt.turns for part in turn.parts)


def frame_count(prompt: Prompt) -> int:
    """Return how many frames the videos of a prompt have together."""
    videos = (part for part in _parts(prompt) if isinstance(part, VideoFrames | DecodedMedia))
    return sum(len(part.indices) if isinstance(part, VideoFrames) else len(part.clip) for part in videos)


def resolve(request: Request, decode: Callable[[MediaRef], DecodedMedia]) -> Request:
    """Return the request with every reference replaced by decoded frames."""

    def decoded(media: MediaRef | DecodedMedia) -> DecodedMedia:
        return media if isinstance(media, DecodedMedia) else decode(media)

    if isinstance(request, ScorePrefixes):
        return replace(request, video=decoded(request.video))
    if isinstance(request, PredictStages):
        return replace(request, videos=tuple(map(decoded, request.videos)))
    if isinstance(request, ScoreSimilarity):
        return replace(request, video=decoded(request.video), images=tuple(map(decoded, request.images)))
    turns = tuple(
        Turn(turn.role, tuple(decode(part) if isinstance(part, MediaRef) else part for part in turn.parts))
        for turn in request.prompt.turns
    )
    return replace(request, prompt=replace(request.prompt, turns=turns))


def media_decoder(episode: Episode) -> Callable[[MediaRef], DecodedMedia]:
    """Return a function that decodes what a request names from an episode."""

    def decode(part: MediaRef) -> DecodedMedia:
        if isinstance(part, VideoFrames):
            return DecodedMedia(episode.clip(part.view, indices=part.indices, size=part.size), video=True)
        if isinstance(part, FrameRef):
            return DecodedMedia(episode.clip(part.view, indices=[part.index], size=part.size))
        if isinstance(part, TiledFrames):
            return DecodedMedia(_tiled([decode(frame).clip for frame in part.frames], part))
        return DecodedMedia(_goal(episode, part))

    return decode


def _tiled(clips: list[Clip], tiles: TiledFrames) -> Clip:
    """Tile several frames into one image."""
    frames = [clip.frames[0] for clip in clips]
    if tiles.cell is not None:
        frames = [square_image(frame, tiles.cell, stretch=tiles.stretch) for frame in frames]
    sheet = tile_images(frames, tiles.columns, gap=tiles.gap)
    return Clip(sheet[None], clips[0].timestamps[:1], clips[0].indices[:1])


def _goal(episode: Episode, goal: GoalImage) -> Clip:
    if goal.view not in episode.goals:
        has = ", ".join(episode.goals) or "none"
        raise EpisodeError(
            f"Episode {episode.id} has no goal image for the view {goal.view!r} (it has {has})."
        )
    chosen = episode.goals[goal.view]
    image = read_image(chosen, goal.size) if isinstance(chosen, Path) else chosen.read(goal.size)
    return Clip(image[None], np.zeros(1), np.zeros(1, dtype=np.int64))
