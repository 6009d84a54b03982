"""Images kept in an HDF5 file: raw arrays, or encoded images in a row of bytes each."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stepscore.episodes.episode import file_digest
from stepscore.episodes.image_ops import fit_size, resize_image
from stepscore.episodes.sampling import check_indices
from stepscore.episodes.view import ViewInfo
from stepscore.errors import EpisodeError, MissingExtraError, VideoError
from stepscore.types import FloatArray, Frames


@contextmanager
def open_h5(path: Path) -> Iterator[Any]:
    """Open the file; raise VideoError where it or something in it cannot be read."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError(f"Reading {path.name}", "hdf5") from None
    try:
        with h5py.File(path, "r") as file:
            yield file
    except (OSError, KeyError, RuntimeError) as error:
        # h5py says "not a file signature" with OSError, a broken object with KeyError or RuntimeError.
        raise VideoError(f"Cannot read {path} as HDF5: {error}.") from error


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
            n, height, width, _ = self._checked(file[self.dataset]).shape
        if n == 0:
            raise VideoError(f"{self.location()} has no frames.")
        return ViewInfo(n, self.fps, width, height, n / self.fps)

    def timestamps(self) -> FloatArray:
        """Return the seconds of every frame: 0, 1/fps, 2/fps ..."""
        return np.arange(self.info().n_frames) / self.fps

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices``, RGB and upright; see :class:`stepscore.episodes.view.View`."""
        info = self.info()
        numbers = check_indices(indices, info.n_frames, self.location())
        width, height = fit_size(info.width, info.height, size)
        frames = np.empty((len(numbers), height, width, 3), dtype=np.uint8)
        with open_h5(self.path) as file:
            rows = file[self.dataset]
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

    def _checked(self, rows: Any) -> Any:
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
            rows = file[self.dataset]
            return [np.asarray(rows[index]).tobytes() for index in indices]

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
    shape: tuple[int, ...] = getattr(rows, "shape", ())
    return len(shape) == 4 and shape[-1] == 3 and bool(rows.dtype == np.uint8)


def is_encoded_images(rows: Any) -> bool:
    """Return whether a dataset is encoded images: rows of bytes, padded (T, L) or of any length (T,)."""
    shape = getattr(rows, "shape", ())
    return (len(shape) == 2 and bool(rows.dtype == np.uint8)) or (
        len(shape) == 1 and rows.dtype.kind in "OSV"
    )
