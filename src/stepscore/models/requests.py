"""What a judge asks of a model.

A request names its pictures (view, frame, size) instead of holding them. The engine looks the request up in
the cache by those names, and decodes only what was never asked before. A model sees the resolved form, in
which every name has become a :class:`DecodedMedia`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stepscore.episodes import Clip, Episode, read_image, tile_images
from stepscore.errors import EpisodeError


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
    """Several frames side by side in one picture, row by row, ``columns`` to a row."""

    stills: tuple[FrameRef, ...]
    columns: int


@dataclass(frozen=True, slots=True)
class VideoFrames:
    """Frames of a view, in order, shown as a video with their times."""

    view: str
    indices: tuple[int, ...]
    size: int | None = None


MediaRef = FrameRef | GoalImage | TiledFrames | VideoFrames


@dataclass(frozen=True, eq=False)
class DecodedMedia:
    """Pictures in hand: one frame as an image, or several as a video."""

    clip: Clip
    video: bool = False


Part = str | FrameRef | GoalImage | TiledFrames | VideoFrames | DecodedMedia
Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Turn:
    """One turn of a conversation: texts and pictures in order."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Prompt:
    """A conversation for the model to answer.

    Attributes:
        turns: What was said, in order.
        continued: The last turn is the assistant's and unfinished: the model goes on from its end.
    """

    turns: tuple[Turn, ...]
    continued: bool = False


@dataclass(frozen=True)
class Generate:
    """Write an answer.

    Attributes:
        prompt: What to answer.
        max_tokens: Length at which to stop.
        temperature: 0 for the likeliest answer.
        top_p: Share of probability to draw from.
        seed: For servers that take one.
        json: Ask for a JSON object where the model can be held to it.
        repeat: Which of several equal questions this is; each is asked, and cached, on its own.
    """

    prompt: Prompt
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = None
    json: bool = False
    repeat: int = 0


@dataclass(frozen=True)
class Score:
    """Log-probability of each candidate as the next text after the prompt (one token each)."""

    prompt: Prompt
    candidates: tuple[str, ...]
    repeat: int = 0


@dataclass(frozen=True)
class ScorePrefixes:
    r"""Log-probability of each candidate after growing prefixes of one video, for one or more texts.

    For every length k and tail s the model reads ``head``, the first ``lengths[k]`` frames of ``film``, then
    ``tails[s]``; the candidates' log-probabilities as the next token are the answer.

    Attributes:
        film: The frames, sampled once for the whole episode, so that prefixes share them.
        lengths: How many frames each prefix shows.
        head: Text before the video, special tokens included (``"<|im_start|>user\n"``).
        tails: Texts after it, one per instruction or question.
        candidates: Words to score, one token each, the leading space included (``" True"``).
    """

    film: VideoFrames | DecodedMedia
    lengths: tuple[int, ...]
    head: str
    tails: tuple[str, ...]
    candidates: tuple[str, ...]
    repeat: int = 0


Request = Generate | Score | ScorePrefixes


def media_refs(request: Request) -> Iterator[MediaRef]:
    """The pictures a request names, in order."""
    if isinstance(request, ScorePrefixes):
        if not isinstance(request.film, DecodedMedia):
            yield request.film
        return
    for turn in request.prompt.turns:
        for part in turn.parts:
            if not isinstance(part, str | DecodedMedia):
                yield part


def resolve(request: Request, show: Callable[[MediaRef], DecodedMedia]) -> Request:
    """The request with every name replaced by the pictures themselves."""
    if isinstance(request, ScorePrefixes):
        return (
            request if isinstance(request.film, DecodedMedia) else replace(request, film=show(request.film))
        )
    turns = tuple(
        Turn(turn.role, tuple(p if isinstance(p, str | DecodedMedia) else show(p) for p in turn.parts))
        for turn in request.prompt.turns
    )
    return replace(request, prompt=replace(request.prompt, turns=turns))


def media_decoder(episode: Episode) -> Callable[[MediaRef], DecodedMedia]:
    """A function that decodes what a request names from an episode."""

    def show(part: MediaRef) -> DecodedMedia:
        if isinstance(part, VideoFrames):
            return DecodedMedia(episode.clip(part.view, indices=part.indices, size=part.size), video=True)
        if isinstance(part, FrameRef):
            return DecodedMedia(episode.clip(part.view, indices=[part.index], size=part.size))
        if isinstance(part, TiledFrames):
            return DecodedMedia(_tiled([show(still).clip for still in part.stills], part.columns))
        return DecodedMedia(_goal(episode, part))

    return show


def _tiled(clips: list[Clip], columns: int) -> Clip:
    """One picture of several: cells as large as the largest, filled up with black."""
    sheet = tile_images([clip.frames[0] for clip in clips], columns)
    return Clip(sheet[None], clips[0].timestamps[:1], clips[0].indices[:1])


def _goal(episode: Episode, goal: GoalImage) -> Clip:
    if goal.view not in episode.goals:
        has = ", ".join(episode.goals) or "none"
        raise EpisodeError(
            f"Episode {episode.id} has no goal image for the view {goal.view!r} (it has {has})."
        )
    image = read_image(episode.goals[goal.view], goal.size)
    return Clip(image[None], np.zeros(1), np.zeros(1, dtype=np.int64))
