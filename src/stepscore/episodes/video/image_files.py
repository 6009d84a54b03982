"""Frames kept as separate images: image sequences on disk, and images inside other files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from stepscore._untrusted import read_bytes
from stepscore._untrusted.limits import (
    MAX_IMAGE_BYTES,
    MAX_READ_BYTES,
    check_fps,
    check_frame_count,
    check_read,
)
from stepscore.episodes.encoded_images import decode_image, image_size
from stepscore.episodes.image_ops import fit_size, resize_image
from stepscore.episodes.sampling import check_indices, identifying_frames
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
        contents: list[bytes] = []
        left = MAX_READ_BYTES
        for index in indices:
            contents.append(read_bytes(self.paths[index], VideoError, max_bytes=min(left, MAX_IMAGE_BYTES)))
            left -= len(contents[-1])
        return contents

    def digest(self) -> bytes:
        """Return the sha256 of the number of files and of some of them, the first and last included."""
        digest = hashlib.sha256(str(len(self)).encode())
        for index in identifying_frames(len(self)):
            digest.update(hashlib.sha256(self.load([index])[0]).digest())
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
        check_fps(self.fps, "image sequence", OptionError)

    def info(self) -> ViewInfo:
        """Return count, rate and size; the size is the first image's, from its header."""
        n = self._count()
        width, height = image_size(self._encoded.load([0])[0], f"{self._encoded.location()}, frame 0")
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame: 0, 1/fps, 2/fps ..."""
        return np.arange(self._count()) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``; all images of a view must have the first one's size."""
        info = self.info()
        width, height = fit_size(info.width, info.height, size)
        numbers = check_indices(indices, info.n_frames, self._encoded.location())
        check_read(len(numbers), width, height, self._encoded.location())
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        # Files are read one by one; images inside of one file, several at a time.
        most = 1 if isinstance(self.images, tuple) else MAX_ENCODED_IMAGES
        for begin in range(0, len(numbers), most):
            part = numbers[begin : begin + most].tolist()
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
        check_frame_count(len(self._encoded), self._encoded.location())
        return len(self._encoded)


def _decode(content: bytes, expected: tuple[int, int], wanted: tuple[int, int], where: str) -> Frames:
    image = decode_image(content, where)
    height, width = image.shape[:2]
    if (width, height) != expected:
        raise VideoError(
            f"{where} is {width}x{height}; the first image is {expected[0]}x{expected[1]} and all must agree."
        )
    return resize_image(image, wanted[::-1])
