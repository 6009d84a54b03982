"""Views whose pictures look different: moved, enlarged, darker or compressed again, as they are read.

Lengths are in pixels of the recorded picture. A change that mixes or moves pixels is made at the recorded
size and the result is scaled to the size asked for, as a camera that had moved would have recorded it.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from stepscore.episodes.image_ops import fit_size
from stepscore.episodes.view import View, ViewInfo
from stepscore.errors import OptionError
from stepscore.types import FloatArray, Frames

Fill = Literal["edge", "black"]
AT_ONCE = 32
"""Pictures of recorded size held in memory at a time."""


class ImagePerturbation(Protocol):
    """What becomes of one picture. A frozen dataclass: its repr goes into the view's digest.

    ``pointwise`` says that each pixel changes by itself, so that scaling may come first.
    """

    pointwise: ClassVar[bool]

    def apply(self, picture: Frames) -> Frames:
        """The changed picture, (h, w, 3) uint8, of the same size."""


@dataclass(frozen=True)
class Shifted:
    """The picture moved ``dx`` pixels right and ``dy`` down.

    What is uncovered repeats the picture's edge, or is black.
    """

    dx: int
    dy: int
    fill: Fill = "edge"
    pointwise: ClassVar[bool] = False

    def apply(self, picture: Frames) -> Frames:
        """Each pixel from where it was."""
        height, width = picture.shape[:2]
        if abs(self.dx) >= width or abs(self.dy) >= height:
            raise OptionError(
                f"A shift of ({self.dx}, {self.dy}) pixels leaves nothing of a picture of {width}x{height}; "
                "it must be smaller than the picture."
            )
        rows, columns = np.arange(height) - self.dy, np.arange(width) - self.dx
        moved = picture[np.clip(rows, 0, height - 1)][:, np.clip(columns, 0, width - 1)]
        if self.fill == "black":
            moved[(rows < 0) | (rows >= height)] = 0
            moved[:, (columns < 0) | (columns >= width)] = 0
        return moved


@dataclass(frozen=True)
class Zoomed:
    """The middle of the picture, 1 / ``factor`` of its width and height, enlarged to its full size."""

    factor: float
    pointwise: ClassVar[bool] = False

    def apply(self, picture: Frames) -> Frames:
        """Cropped at fractions of a pixel and enlarged (bicubic)."""
        from PIL import Image

        height, width = picture.shape[:2]
        left, top = (width - width / self.factor) / 2, (height - height / self.factor) / 2
        image = Image.fromarray(np.ascontiguousarray(picture))
        box = (left, top, width - left, height - top)
        return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC, box=box))


@dataclass(frozen=True)
class Darker:
    """Every value times ``factor``."""

    factor: float
    pointwise: ClassVar[bool] = True

    def apply(self, picture: Frames) -> Frames:
        """Rounded to whole values."""
        table = np.round(np.arange(256) * self.factor).astype(np.uint8)
        return np.asarray(table[picture])


@dataclass(frozen=True)
class Recompressed:
    """The picture after JPEG compression at ``quality`` (1..95), colours at half resolution."""

    quality: int
    pointwise: ClassVar[bool] = False

    def apply(self, picture: Frames) -> Frames:
        """Encoded and decoded by Pillow."""
        from PIL import Image

        kept = io.BytesIO()
        image = Image.fromarray(np.ascontiguousarray(picture))
        image.save(kept, "JPEG", quality=self.quality, subsampling="4:2:0")
        with Image.open(kept) as compressed:
            return np.asarray(compressed.convert("RGB"))


@dataclass(frozen=True)
class RepaintedView:
    """A view under a change of its pictures. Holds no frames and opens nothing until asked.

    Attributes:
        view: The view as recorded.
        change: What becomes of each of its pictures.
    """

    view: View
    change: ImagePerturbation

    def info(self) -> ViewInfo:
        """As recorded."""
        return self.view.info()

    def timestamps(self) -> FloatArray:
        """As recorded."""
        return self.view.timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """The changed frames at ``indices``."""
        if self.change.pointwise or size is None:
            frames = self.view.read(indices, size)
            return np.stack([self.change.apply(frame) for frame in frames]) if len(frames) else frames
        info = self.view.info()
        width, height = fit_size(info.width, info.height, size)
        scaled = np.empty((len(indices), height, width, 3), dtype=np.uint8)
        for begin in range(0, len(indices), AT_ONCE):
            for offset, frame in enumerate(self.view.read(indices[begin : begin + AT_ONCE])):
                scaled[begin + offset] = _scaled(self.change.apply(frame), width, height)
        return scaled

    def digest(self) -> bytes:
        """sha256 of the recorded view's digest and the change."""
        return hashlib.sha256(self.view.digest() + repr(self.change).encode()).digest()

    def location(self) -> str:
        """Where the recorded pictures are, and the change."""
        return f"{self.view.location()} as {self.change!r}"


def _scaled(picture: Frames, width: int, height: int) -> Frames:
    """The picture at another size, by the scaler that views of videos use.

    Another scaler would be a second change: Pillow's box filter differs by 2 to 3 of 255 levels from what
    an unchanged video gives at 224 of 256 pixels, this one by 1 to 1.6, as colours are scaled decoded.
    """
    if picture.shape[:2] == (height, width):
        return picture
    import av

    shrink = width <= picture.shape[1]
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    scaled = frame.reformat(width, height, format="rgb24", interpolation="AREA" if shrink else "BICUBIC")
    return np.asarray(scaled.to_ndarray(), dtype=np.uint8)
