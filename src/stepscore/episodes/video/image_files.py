"""Frames kept as separate pictures: image sequences on disk, and pictures inside other files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from stepscore.episodes.image_ops import fit_size
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.view import ViewInfo
from stepscore.errors import OptionError, VideoError
from stepscore.types import FloatArray, Frames


class Pictures(Protocol):
    """Where the encoded pictures (PNG, JPEG ...) of one camera are kept. Must be picklable."""

    def __len__(self) -> int: ...

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """The encoded pictures at ``indices``, in that order; VideoError where one is missing."""

    def digest(self) -> bytes:
        """What identifies the pictures, cheaply."""

    def location(self) -> str:
        """Where they are, for messages."""


@dataclass(frozen=True)
class PictureFiles:
    """One file a picture, in the order of the frames."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """The files' contents."""
        try:
            return [self.paths[index].read_bytes() for index in indices]
        except OSError as error:
            raise VideoError(f"Cannot read {error.filename}: {error.strerror}.") from error

    def digest(self) -> bytes:
        """sha256 of the number of files and the first and last of them."""
        digest = hashlib.sha256(str(len(self)).encode())
        for content in self.load([0, -1] if self.paths else []):
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def location(self) -> str:
        """The first file and the number of files."""
        return f"{self.paths[0]} ({len(self)} pictures)" if self.paths else "(no pictures)"


@dataclass(frozen=True)
class ImagesView:
    """One camera whose frames are separate pictures, shown at ``fps``; frame i is at i / fps seconds.

    Attributes:
        pictures: The picture files in order, or another place that keeps encoded pictures.
        fps: Frames a second. Pictures do not say it themselves, so whoever makes the view must.
    """

    pictures: Pictures | tuple[Path, ...]
    fps: float

    def __post_init__(self) -> None:
        if not self.fps > 0:
            raise OptionError(f"fps is {self.fps}; it must be above 0.")

    def info(self) -> ViewInfo:
        """Count, rate and size; the size is the first picture's, from its header."""
        n = self._count()
        width, height = _size(self._kept.load([0])[0], f"{self._kept.location()}, frame 0")
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Seconds of every frame: 0, 1/fps, 2/fps ..."""
        return np.arange(self._count()) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The frames at ``indices``; all pictures of a view must have the first one's size."""
        info = self.info()
        width, height = fit_size(info.width, info.height, size)
        numbers = check_indices(indices, info.n_frames, self._kept.location())
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        # A few at a time: encoded pictures must not pile up beside the decoded ones.
        for begin in range(0, len(numbers), 16):
            part = numbers[begin : begin + 16].tolist()
            for offset, (number, content) in enumerate(zip(part, self._kept.load(part), strict=True)):
                where = f"{self._kept.location()}, frame {number}"
                frames[begin + offset] = _decode(content, (info.width, info.height), (width, height), where)
        return frames

    def digest(self) -> bytes:
        """Digest of the pictures and the rate."""
        return hashlib.sha256(self._kept.digest() + repr(float(self.fps)).encode()).digest()

    def location(self) -> str:
        """Where the pictures are."""
        return self._kept.location()

    @property
    def _kept(self) -> Pictures:
        return PictureFiles(self.pictures) if isinstance(self.pictures, tuple) else self.pictures

    def _count(self) -> int:
        if not len(self._kept):
            raise VideoError(f"{self._kept.location()}: there are no frames.")
        return len(self._kept)


def _size(content: bytes, where: str) -> tuple[int, int]:
    from PIL import ExifTags, Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            lies_on_side = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
            return (image.height, image.width) if lies_on_side else (image.width, image.height)
    except (OSError, ValueError) as error:
        raise VideoError(f"{where} is not a picture that can be read ({error}).") from error


def _decode(content: bytes, expected: tuple[int, int], wanted: tuple[int, int], where: str) -> Frames:
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(content)) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise VideoError(f"{where} is not a picture that can be read ({error}).") from error
    if upright.size != expected:
        raise VideoError(
            f"{where} is {upright.width}x{upright.height}; "
            f"the first picture is {expected[0]}x{expected[1]} and all must agree."
        )
    if wanted != expected:
        # Pillow's bicubic widens its kernel when it shrinks, so nothing is skipped.
        upright = upright.resize(wanted, Image.Resampling.BICUBIC)
    return np.asarray(upright)
