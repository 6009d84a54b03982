"""A few images of a folder or a zip archive as a view, named relative to it; nothing outside of it is read."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from stepscore._untrusted import check_regular, read_bytes, shown
from stepscore._untrusted.limits import MAX_IMAGE_BYTES
from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.errors import ManifestError, VideoError

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
    """Return images of a folder or a zip archive as a view of a frame a second; opens nothing.

    Raises:
        ManifestError: A name is absolute, or climbs out of the folder.
    """
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
