"""Frames kept as separate images: image sequences on disk, and images inside other files."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from stepscore.episodes.image_ops import fit_size, resize_image
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.view import ViewInfo
from stepscore.errors import OptionError, VideoError
from stepscore.types import FloatArray, Frames

MAX_ENCODED_IMAGES = 16
"""Encoded images loaded at a time, so that they do not pile up in memory beside the decoded ones."""


class EncodedImages(Protocol):
    """The encoded images (PNG, JPEG ...) of one camera, wherever they are kept. Must be picklable."""

    def __len__(self) -> int: ...

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the encoded images at ``indices``, in that order; VideoError where one is missing."""

    def digest(self) -> bytes:
        """Return bytes that identify the images and are cheap to compute."""

    def location(self) -> str:
        """Return where they are, for messages."""


@dataclass(frozen=True)
class ImageFiles:
    """One file per image, in the order of the frames."""

    paths: tuple[Path, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the files' contents."""
        try:
            return [self.paths[index].read_bytes() for index in indices]
        except OSError as error:
            raise VideoError(f"Cannot read {error.filename}: {error.strerror}.") from error

    def digest(self) -> bytes:
        """Return the sha256 of the number of files and the first and last of them."""
        digest = hashlib.sha256(str(len(self)).encode())
        for content in self.load([0, -1] if self.paths else []):
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def location(self) -> str:
        """Return the first file and the number of files."""
        return f"{self.paths[0]} ({len(self)} images)" if self.paths else "(no images)"


@dataclass(frozen=True)
class ImageSequenceView:
    """One camera whose frames are separate images at ``fps``; frame i is at i / fps seconds.

    Attributes:
        images: The image files in order, or encoded images kept elsewhere.
        fps: Frames per second, which image files do not state.
    """

    images: EncodedImages | tuple[Path, ...]
    fps: float

    def __post_init__(self) -> None:
        if not self.fps > 0:
            raise OptionError(f"fps is {self.fps}; it must be above 0.")

    def info(self) -> ViewInfo:
        """Return count, rate and size; the size is the first image's, from its header."""
        n = self._count()
        width, height = _size(self._encoded.load([0])[0], f"{self._encoded.location()}, frame 0")
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame: 0, 1/fps, 2/fps ..."""
        return np.arange(self._count()) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``; all images of a view must have the first one's size."""
        info = self.info()
        width, height = fit_size(info.width, info.height, size)
        numbers = check_indices(indices, info.n_frames, self._encoded.location())
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        for begin in range(0, len(numbers), MAX_ENCODED_IMAGES):
            part = numbers[begin : begin + MAX_ENCODED_IMAGES].tolist()
            for offset, (number, content) in enumerate(zip(part, self._encoded.load(part), strict=True)):
                where = f"{self._encoded.location()}, frame {number}"
                frames[begin + offset] = _decode(content, (info.width, info.height), (width, height), where)
        return frames

    def digest(self) -> bytes:
        """Return the sha256 of the images' digest and the rate."""
        return hashlib.sha256(self._encoded.digest() + repr(float(self.fps)).encode()).digest()

    def location(self) -> str:
        """Return where the images are."""
        return self._encoded.location()

    @property
    def _encoded(self) -> EncodedImages:
        return ImageFiles(self.images) if isinstance(self.images, tuple) else self.images

    def _count(self) -> int:
        if not len(self._encoded):
            raise VideoError(f"{self._encoded.location()}: there are no frames.")
        return len(self._encoded)


def _size(content: bytes, where: str) -> tuple[int, int]:
    from PIL import ExifTags, Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            is_transposed = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
            return (image.height, image.width) if is_transposed else (image.width, image.height)
    except (OSError, ValueError) as error:
        raise VideoError(f"{where} is not a readable image ({error}).") from error


def _decode(content: bytes, expected: tuple[int, int], wanted: tuple[int, int], where: str) -> Frames:
    from PIL import Image, ImageOps

    try:
        with Image.open(io.BytesIO(content)) as image:
            upright = ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:
        raise VideoError(f"{where} is not a readable image ({error}).") from error
    if upright.size != expected:
        raise VideoError(
            f"{where} is {upright.width}x{upright.height}; "
            f"the first image is {expected[0]}x{expected[1]} and all must agree."
        )
    if wanted != expected:
        return resize_image(np.asarray(upright), wanted[::-1])
    return np.asarray(upright)
