"""Frames kept as one ``.npy`` array each, as inspect-robots streams them to disk."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stepscore._untrusted import read_bytes, shown
from stepscore._untrusted.limits import (
    MAX_IMAGE_BYTES,
    check_fps,
    check_frame_count,
    check_pixels,
    check_read,
)
from stepscore.episodes.image_ops import fit_size, resize_image
from stepscore.episodes.sampling import check_indices, identifying_frames
from stepscore.episodes.view import ViewInfo
from stepscore.errors import OptionError, VideoError
from stepscore.types import FloatArray, Frames

MAX_HEADER_BYTES = 4096


@dataclass(frozen=True)
class NpyFramesView:
    """One camera whose frames are arrays in files of their own.

    Attributes:
        paths: The files in order.
        steps: The environment step of each, strictly increasing.
        fps: Steps per second; a frame is at (its step - the first step) / fps seconds.
    """

    paths: tuple[Path, ...]
    steps: tuple[int, ...]
    fps: float

    def __post_init__(self) -> None:
        check_fps(self.fps, "frames", OptionError)

    def info(self) -> ViewInfo:
        """Return count, rate and size; the size is the first frame's."""
        times = self.timestamps()
        height, width = read_npy_image(self.paths[0]).shape[:2]
        return ViewInfo(len(self.paths), self.fps, width, height, float(times[-1]) + 1 / self.fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame."""
        if not self.paths:
            raise VideoError("there are no frames.")
        check_frame_count(len(self.paths), self.location())
        return (np.array(self.steps, dtype=np.float64) - self.steps[0]) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``; all frames of a view must have the size of its first frame."""
        info = self.info()
        width, height = fit_size(info.width, info.height, size)
        numbers = check_indices(indices, info.n_frames, self.location())
        check_read(len(numbers), width, height, self.location())
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        for place, number in enumerate(numbers.tolist()):
            image = read_npy_image(self.paths[number])
            if image.shape[:2] != (info.height, info.width):
                raise VideoError(
                    f"{shown(self.paths[number])} is {image.shape[1]}x{image.shape[0]}; the first frame is "
                    f"{info.width}x{info.height} and all must agree."
                )
            frames[place] = resize_image(image, (height, width))
        return frames

    def digest(self) -> bytes:
        """Return the sha256 of steps, rate, and some of the frames, the first and last included."""
        digest = hashlib.sha256(repr((self.steps, float(self.fps))).encode())
        for index in identifying_frames(len(self.paths)):
            content = read_bytes(self.paths[index], VideoError, max_bytes=MAX_IMAGE_BYTES)
            digest.update(hashlib.sha256(content).digest())
        return digest.digest()

    def location(self) -> str:
        """Return the first file and the number of files."""
        return f"{self.paths[0]} ({len(self.paths)} frames)" if self.paths else "(no frames)"


def read_npy_image(path: Path) -> Frames:
    """Read a uint8 image (h, w, 3) from a ``.npy`` file without unpickling; VideoError for other content."""
    content = read_bytes(path, VideoError, max_bytes=MAX_IMAGE_BYTES)
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        )
        shape, by_column, dtype = read_header(file, max_header_size=MAX_HEADER_BYTES)
    except Exception as error:  # the header is a Python literal, whose parser raises many kinds
        raise VideoError(f"{shown(path)} is not an array file ({type(error).__name__}).") from error
    if dtype != np.uint8 or by_column or len(shape) != 3 or shape[2] != 3:
        raise VideoError(
            f"{shown(path)} holds {dtype} of shape {shape}; a frame is uint8 of shape (height, width, 3)."
        )
    check_pixels(shape[1], shape[0], shown(path))
    if len(content) - file.tell() != shape[0] * shape[1] * 3:
        raise VideoError(f"{shown(path)} does not hold as many pixels as its header states.")
    image: Frames = np.frombuffer(content, np.uint8, offset=file.tell()).reshape(shape)
    return image
