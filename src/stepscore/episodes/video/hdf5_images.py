"""Images kept in an HDF5 file: raw arrays, or encoded images in a row of bytes each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore._untrusted.hdf5_access import check_rows, checked_dataset, member, open_h5
from stepscore._untrusted.limits import (
    MAX_IMAGE_BYTES,
    MAX_READ_BYTES,
    check_fps,
    check_frame_count,
    check_pixels,
    check_read,
)
from stepscore.episodes.episode import file_digest
from stepscore.episodes.image_ops import fit_size, resize_image
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.view import ViewInfo
from stepscore.errors import EpisodeError, VideoError
from stepscore.types import FloatArray, Frames


@dataclass(frozen=True)
class Hdf5ArrayView:
    """One camera whose frames are a (T, H, W, 3) uint8 dataset. Reads only the requested rows.

    Attributes:
        path: The file; opened for each call and not kept open, so that the view can be pickled.
        dataset: The dataset's name in it.
        fps: Frames per second, which the file's arrays do not state.
        bottom_up: Whether the first row is the lowest one, as in OpenGL; frames are read upright.
    """

    path: Path
    dataset: str
    fps: float
    bottom_up: bool = False

    def info(self) -> ViewInfo:
        """Return count and size from the dataset's shape."""
        with open_h5(self.path) as file:
            n, height, width, _ = self._rows(file).shape
        if n == 0:
            raise VideoError(f"{self.location()} has no frames.")
        check_frame_count(n, self.location())
        check_pixels(width, height, self.location())
        check_fps(self.fps, self.location())
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame: 0, 1/fps, 2/fps ..."""
        return np.arange(self.info().n_frames) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``, RGB and upright; see :class:`stepscore.episodes.view.View`."""
        info = self.info()
        numbers = check_indices(indices, info.n_frames, self.location())
        width, height = fit_size(info.width, info.height, size)
        check_read(len(numbers), width, height, self.location())
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        with open_h5(self.path) as file:
            rows = self._rows(file)
            check_rows(rows, numbers.tolist(), self.location())
            for place, number in enumerate(numbers.tolist()):
                row = rows[number]
                frames[place] = resize_image(row[::-1] if self.bottom_up else row, (height, width))
        return frames

    def digest(self) -> bytes:
        """Return the sha256 of the file's size, its first and last 64 KiB, and this view's fields."""
        try:
            fields = repr((self.dataset, self.fps, self.bottom_up)).encode()
            return hashlib.sha256(file_digest(self.path) + fields).digest()
        except EpisodeError as error:
            raise VideoError(str(error)) from error

    def location(self) -> str:
        """Return the file and the dataset in it."""
        return f"{self.path}:{self.dataset}"

    def _rows(self, file: Any) -> Any:
        rows = checked_dataset(member(file, self.dataset), self.location())
        if not is_raw_images(rows):
            raise VideoError(f"{self.location()} is {rows.shape} {rows.dtype}; expected (T, H, W, 3) uint8.")
        return rows


@dataclass(frozen=True)
class Hdf5Images:
    """Encoded images (JPEG, PNG), one in each row of a dataset, padded with zeros to a common length."""

    path: Path
    dataset: str
    n: int

    def __len__(self) -> int:
        return self.n

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the rows as bytes. The padding stays on: decoders stop at the image's own end."""
        with open_h5(self.path) as file:
            rows = checked_dataset(member(file, self.dataset), self.location())
            if not is_encoded_images(rows):
                raise VideoError(f"{self.location()} is {rows.shape} {rows.dtype}; expected encoded images.")
            images: list[bytes] = []
            left = MAX_READ_BYTES
            check_rows(rows, (index % self.n for index in indices), self.location())
            for index in indices:
                images.append(np.asarray(rows[index]).tobytes())
                left -= len(images[-1])
                if left < 0 or len(images[-1]) > MAX_IMAGE_BYTES:
                    raise VideoError(f"{self.location()}, frame {index} has too many bytes for an image.")
            return images

    def digest(self) -> bytes:
        """Return the sha256 of the file's size, its first and last 64 KiB and the dataset's name."""
        try:
            return hashlib.sha256(file_digest(self.path) + self.dataset.encode()).digest()
        except EpisodeError as error:
            raise VideoError(str(error)) from error

    def location(self) -> str:
        """Return the file and the dataset in it."""
        return f"{self.path}:{self.dataset}"


def is_raw_images(rows: Any) -> bool:
    """Return whether a dataset is raw RGB frames, (T, H, W, 3) uint8."""
    shape: tuple[int, ...] = getattr(rows, "shape", None) or ()
    return len(shape) == 4 and shape[-1] == 3 and bool(rows.dtype == np.uint8)


def is_encoded_images(rows: Any) -> bool:
    """Return whether a dataset is encoded images: rows of bytes, padded (T, L) or of any length (T,)."""
    shape = getattr(rows, "shape", None) or ()
    return (len(shape) == 2 and bool(rows.dtype == np.uint8)) or (
        len(shape) == 1 and rows.dtype.kind in "OSV"
    )
