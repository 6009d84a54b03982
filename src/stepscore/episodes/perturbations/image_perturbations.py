"""Views whose images are perturbed as they are read: moved, enlarged, darkened or compressed again.

Lengths are in pixels of the recorded image. A perturbation that mixes or moves pixels is applied at the recorded
size and the result is scaled to the requested size, as a camera that had moved would have recorded it.
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
MAX_FULL_SIZE_FRAMES = 32
"""Frames of recorded size held in memory at a time."""


class ImagePerturbation(Protocol):
    """A change of one image. A frozen dataclass whose repr enters the view's digest: its names are stored.

    ``pointwise`` states that each pixel changes independently, so that scaling may come first.
    """

    pointwise: ClassVar[bool]

    def apply(self, image: Frames) -> Frames:
        """Return the perturbed image, (h, w, 3) uint8, of the same size."""


@dataclass(frozen=True)
class Shifted:
    """The image moved ``dx`` pixels right and ``dy`` down.

    Uncovered pixels repeat the image's edge, or are black.
    """

    dx: int
    dy: int
    fill: Fill = "edge"
    pointwise: ClassVar[bool] = False

    def apply(self, image: Frames) -> Frames:
        """Return the image with every pixel moved."""
        height, width = image.shape[:2]
        if abs(self.dx) >= width or abs(self.dy) >= height:
            raise OptionError(
                f"A shift of ({self.dx}, {self.dy}) pixels leaves nothing of an image of {width}x{height}; "
                "it must be smaller than the image."
            )
        rows, columns = np.arange(height) - self.dy, np.arange(width) - self.dx
        moved = image[np.clip(rows, 0, height - 1)][:, np.clip(columns, 0, width - 1)]
        if self.fill == "black":
            moved[(rows < 0) | (rows >= height)] = 0
            moved[:, (columns < 0) | (columns >= width)] = 0
        return moved


@dataclass(frozen=True)
class Zoomed:
    """The middle of the image, 1 / ``factor`` of its width and height, enlarged to its full size."""

    factor: float
    pointwise: ClassVar[bool] = False

    def apply(self, image: Frames) -> Frames:
        """Crop at fractions of a pixel and enlarge (bicubic)."""
        from PIL import Image

        height, width = image.shape[:2]
        left, top = (width - width / self.factor) / 2, (height - height / self.factor) / 2
        crop = Image.fromarray(np.ascontiguousarray(image))
        box = (left, top, width - left, height - top)
        return np.asarray(crop.resize((width, height), Image.Resampling.BICUBIC, box=box))


@dataclass(frozen=True)
class Darker:
    """Every value times ``factor``."""

    factor: float
    pointwise: ClassVar[bool] = True

    def apply(self, image: Frames) -> Frames:
        """Scale the values and round them to integers."""
        table = np.round(np.arange(256) * self.factor).astype(np.uint8)
        return np.asarray(table[image])


@dataclass(frozen=True)
class Recompressed:
    """The image after JPEG compression at ``quality`` (1..95), colours at half resolution."""

    quality: int
    pointwise: ClassVar[bool] = False

    def apply(self, image: Frames) -> Frames:
        """Encode and decode with Pillow."""
        from PIL import Image

        jpeg = io.BytesIO()
        source = Image.fromarray(np.ascontiguousarray(image))
        source.save(jpeg, "JPEG", quality=self.quality, subsampling="4:2:0")
        with Image.open(jpeg) as compressed:
            return np.asarray(compressed.convert("RGB"))


@dataclass(frozen=True)
class Noisy:
    """Gaussian noise of ``sigma`` of 255 levels on every value; the same image gets the same noise each time."""

    sigma: float
    seed: int = 0
    pointwise: ClassVar[bool] = False

    def apply(self, image: Frames) -> Frames:
        """Draw the noise from a generator seeded by ``seed`` and the image's bytes."""
        content = hashlib.sha256(np.ascontiguousarray(image).tobytes()).digest()
        rng = np.random.default_rng([self.seed, int.from_bytes(content[:8], "big")])
        noisy = image + rng.normal(0.0, self.sigma, image.shape)
        return np.asarray(np.clip(np.round(noisy), 0, 255).astype(np.uint8))


@dataclass(frozen=True)
class LowResolution:
    """The image with ``factor`` times fewer pixels along each side, enlarged to its size again (bicubic)."""

    factor: float
    pointwise: ClassVar[bool] = False

    def apply(self, image: Frames) -> Frames:
        """Shrink by the mean of areas and enlarge."""
        from PIL import Image

        height, width = image.shape[:2]
        small = (max(1, round(width / self.factor)), max(1, round(height / self.factor)))
        source = Image.fromarray(np.ascontiguousarray(image))
        shrunk = source.resize(small, Image.Resampling.BOX)
        return np.asarray(shrunk.resize((width, height), Image.Resampling.BICUBIC))


@dataclass(frozen=True)
class Blank:
    """Black."""

    pointwise: ClassVar[bool] = True

    def apply(self, image: Frames) -> Frames:
        """Return an image of zeros."""
        return np.zeros_like(image)


@dataclass(frozen=True)
class PerturbedImageView:
    """A view with every image perturbed. Holds no frames and opens nothing until it is read."""

    view: View
    perturbation: ImagePerturbation

    def info(self) -> ViewInfo:
        """Return what the recorded view states."""
        return self.view.info()

    def timestamps(self) -> FloatArray:
        """Return the recorded timestamps."""
        return self.view.timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        """Read the frames at ``indices`` and perturb them."""
        if self.perturbation.pointwise or size is None:
            frames = self.view.read(indices, size)
            return np.stack([self.perturbation.apply(frame) for frame in frames]) if len(frames) else frames
        info = self.view.info()
        width, height = fit_size(info.width, info.height, size)
        scaled = np.empty((len(indices), height, width, 3), dtype=np.uint8)
        for begin in range(0, len(indices), MAX_FULL_SIZE_FRAMES):
            for offset, frame in enumerate(self.view.read(indices[begin : begin + MAX_FULL_SIZE_FRAMES])):
                scaled[begin + offset] = _scaled(self.perturbation.apply(frame), width, height)
        return scaled

    def digest(self) -> bytes:
        """Return the sha256 of the recorded view's digest and the perturbation."""
        return hashlib.sha256(self.view.digest() + repr(self.perturbation).encode()).digest()

    def location(self) -> str:
        """Return where the recorded frames are, and the perturbation."""
        return f"{self.view.location()} as {self.perturbation!r}"


def _scaled(image: Frames, width: int, height: int) -> Frames:
    """Return the image at another size, by the scaler that views of videos use.

    Another scaler would be a second perturbation: Pillow's box filter differs by 2 to 3 of 255 levels from what
    an unperturbed video gives at 224 of 256 pixels, this one by 1 to 1.6, as colours are scaled decoded.
    """
    if image.shape[:2] == (height, width):
        return image
    import av

    shrink = width <= image.shape[1]
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format="rgb24")
    scaled = frame.reformat(width, height, format="rgb24", interpolation="AREA" if shrink else "BICUBIC")
    return np.asarray(scaled.to_ndarray(), dtype=np.uint8)
