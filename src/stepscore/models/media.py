"""What a request shows: images and videos of an episode by name, or decoded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from stepscore.episodes import Clip, Episode, read_image, square_image, tile_images
from stepscore.errors import EpisodeError
from stepscore.models.tagged import Tagged


@dataclass(frozen=True, slots=True)
class FrameRef(Tagged):
    """One frame of a view; ``size`` is its longer side in pixels, ``None`` for the recorded size."""

    view: str
    index: int
    size: int | None = None
    tag: ClassVar[str] = "frame"
    images: ClassVar[int] = 1

    def read(self, episode: Episode) -> DecodedMedia:
        """Decode it from an episode."""
        return DecodedMedia(episode.clip(self.view, indices=[self.index], size=self.size))


@dataclass(frozen=True, slots=True)
class GoalImage(Tagged):
    """The goal image of a view."""

    view: str
    size: int | None = None
    tag: ClassVar[str] = "goal-image"
    images: ClassVar[int] = 1

    def read(self, episode: Episode) -> DecodedMedia:
        """Decode it from an episode."""
        if self.view not in episode.goals:
            has = ", ".join(episode.goals) or "none"
            raise EpisodeError(
                f"Episode {episode.id} has no goal image for the view {self.view!r} (it has {has})."
            )
        chosen = episode.goals[self.view]
        image = read_image(chosen, self.size) if isinstance(chosen, Path) else chosen.read(self.size)
        return DecodedMedia(Clip(image[None], np.zeros(1), np.zeros(1, dtype=np.int64)))


@dataclass(frozen=True, slots=True)
class TiledFrames(Tagged):
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
    tag: ClassVar[str] = "tiled-frames"
    later: ClassVar = {"cell": None, "stretch": False, "gap": 0}
    images: ClassVar[int] = 1

    def read(self, episode: Episode) -> DecodedMedia:
        """Decode its frames from an episode, and tile them into one image."""
        clips = [frame.read(episode).clip for frame in self.frames]
        frames = [clip.frames[0] for clip in clips]
        if self.cell is not None:
            frames = [square_image(frame, self.cell, stretch=self.stretch) for frame in frames]
        sheet = tile_images(frames, self.columns, gap=self.gap)
        return DecodedMedia(Clip(sheet[None], clips[0].timestamps[:1], clips[0].indices[:1]))


@dataclass(frozen=True, slots=True)
class VideoFrames(Tagged):
    """Frames of a view, in order, shown as a video with their timestamps."""

    view: str
    indices: tuple[int, ...]
    size: int | None = None
    tag: ClassVar[str] = "video"

    @property
    def images(self) -> int:
        """Number of its frames."""
        return len(self.indices)

    def read(self, episode: Episode) -> DecodedMedia:
        """Decode it from an episode."""
        return DecodedMedia(episode.clip(self.view, indices=self.indices, size=self.size), video=True)


MediaRef = FrameRef | GoalImage | TiledFrames | VideoFrames


@dataclass(frozen=True, eq=False)
class DecodedMedia(Tagged):
    """Decoded frames: one as an image, or several as a video."""

    clip: Clip
    video: bool = False

    @property
    def images(self) -> int:
        """Number of its frames."""
        return len(self.clip)

    def plain(self) -> dict[str, Any]:
        """Return its timestamps and a hash of its pixels."""
        pixels = hashlib.sha256(self.clip.frames.tobytes()).hexdigest()
        return {"frames": pixels, "times": self.clip.timestamps.tolist()}


@dataclass(frozen=True, slots=True)
class VideoPrefix(Tagged):
    """Stands for the first frames of the video in the prompts of :class:`ScorePrefixes`."""

    tag: ClassVar[str] = "video-prefix"
    images: ClassVar[int] = 1


Media = MediaRef | DecodedMedia | VideoPrefix
Decode = Callable[[MediaRef], DecodedMedia]


def media_decoder(episode: Episode) -> Decode:
    """Return a function that decodes what a request names from an episode."""
    return lambda named: named.read(episode)


def decoded(media: MediaRef | DecodedMedia, decode: Decode) -> DecodedMedia:
    """Return the frames that are named, or are there."""
    return media if isinstance(media, DecodedMedia) else decode(media)


def label(media: Media) -> str:
    """Return the name of an image or a video for a reader."""
    if isinstance(media, DecodedMedia):
        return "video" if media.video else "image"
    return f"{media.tag} {json.dumps(media.plain())}"
