"""Frames kept as separate images: image sequences on disk, and images inside other files."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Protocol

import numpy as np

from stepscore._untrusted import check_regular, read_bytes, shown
from stepscore._untrusted.limits import (
    MAX_IMAGE_BYTES,
    MAX_READ_BYTES,
    check_fps,
    check_frame_count,
    check_read,
)
from stepscore.episodes.image_ops import decode_image, fit_size, image_size, resize_image
from stepscore.episodes.sampling import check_indices, identifying_frames
from stepscore.episodes.view import ViewInfo
from stepscore.errors import ManifestError, OptionError, VideoError
from stepscore.types import FloatArray, Frames

MAX_ENCODED_IMAGES = 16
"""Encoded images loaded at a time, so that they do not pile up in memory with the decoded ones."""


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
        """Read the frames at ``indices``; all images of a view must have the size of its first image."""
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


_ZIP_PROBLEMS = (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError, OSError)
"""What a damaged, encrypted or unsupported archive raises."""


@dataclass(frozen=True)
class ArchivedImages:
    """Images of a folder or a zip archive, in the order of the frames.

    Attributes:
        root: The folder, or the archive.
        names: Paths below it.
    """

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        """Read the encoded images; VideoError where one is missing, too large, or outside of the folder."""
        read = self._from_folder if self.root.is_dir() else self._from_archive
        return [read(self.names[index]) for index in indices]

    def digest(self) -> bytes:
        """Return the sha256 of every image's content."""
        digest = hashlib.sha256(str(len(self)).encode())
        for index in range(len(self)):
            digest.update(hashlib.sha256(self.load([index])[0]).digest())
        return digest.digest()

    def location(self) -> str:
        """Return the folder or archive, and the names."""
        return f"{self.root}: {', '.join(self.names)}"

    def _from_folder(self, name: str) -> bytes:
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise VideoError(f"{shown(path)} is a link that leads out of {shown(self.root)}.")
        return read_bytes(path, VideoError, max_bytes=MAX_IMAGE_BYTES)

    def _from_archive(self, name: str) -> bytes:
        status = check_regular(self.root, VideoError)
        try:
            archive = _archive(self.root, status.st_mtime_ns, status.st_size)
            with archive.open(name) as file:
                content = file.read(MAX_IMAGE_BYTES + 1)
        except KeyError:
            raise VideoError(f"{shown(self.root)} has no image {shown(name)!r}.") from None
        except _ZIP_PROBLEMS as error:
            raise VideoError(f"Cannot read {shown(name)!r} in {shown(self.root)}: {error}.") from error
        if len(content) > MAX_IMAGE_BYTES:
            raise VideoError(f"{shown(name)!r} in {shown(self.root)} has more than {MAX_IMAGE_BYTES} bytes.")
        return content


@lru_cache(maxsize=4)
def _archive(path: Path, mtime_ns: int, size: int) -> zipfile.ZipFile:
    # Its list of thousands of names is read once, not once for each image.
    return zipfile.ZipFile(path)


def image_view(root: Path, names: Sequence[str]) -> ImageSequenceView:
    """Return images of a folder or zip archive as a view of 1 fps; ManifestError if a name leads out of it."""
    for name in names:
        path = PurePosixPath(name)
        if not name or "\0" in name or "\\" in name or path.is_absolute() or ".." in path.parts:
            raise ManifestError(
                f"Invalid image path {shown(name)!r}; expected one relative to {shown(root)}, and inside of it."
            )
    return ImageSequenceView(ArchivedImages(root, tuple(names)), 1.0)


def check_image_root(root: Path) -> None:
    """Raise ManifestError where a path is neither a folder nor a zip archive."""
    try:
        good = root.is_dir() or (root.is_file() and zipfile.is_zipfile(root))
    except (OSError, ValueError):
        good = False
    if not good:
        raise ManifestError(f"{shown(root)} is neither a folder of images nor a zip archive: --images PATH")
