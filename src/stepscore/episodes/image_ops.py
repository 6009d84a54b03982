"""Image operations: fit, resize, read and tile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from stepscore._untrusted import read_bytes, shown
from stepscore._untrusted.limits import MAX_IMAGE_BYTES, MAX_PIXELS
from stepscore.episodes.encoded_images import decode_image
from stepscore.errors import OptionError, VideoError
from stepscore.types import Frames


def fit_size(width: int, height: int, size: int | None) -> tuple[int, int]:
    """Return width and height with the longer side ``size`` and the same aspect ratio; unchanged for ``None``."""
    if size is None:
        return width, height
    if size < 1:
        raise OptionError(f"size is {size}; the longer side must have at least 1 pixel.")
    longer = max(width, height)
    fitted = max(1, round(width * size / longer)), max(1, round(height * size / longer))
    if fitted[0] * fitted[1] > MAX_PIXELS:
        raise OptionError(
            f"size is {size}; frames of {fitted[0]}x{fitted[1]} would have more than {MAX_PIXELS} pixels."
        )
    return fitted


def resize_frames(frames: Frames, size: tuple[int, int]) -> Frames:
    """Resize frames (n, h, w, 3) to ``size``, a height and a width, by antialiased bicubic interpolation.

    Frames that have this size already are returned as the same array.
    """
    if frames.shape[1:3] == size:
        return frames
    return np.stack([resize_image(frame, size) for frame in frames])


def resize_image(image: Frames, size: tuple[int, int]) -> Frames:
    """Resize one image (h, w, 3) to ``size``, a height and a width; see :func:`resize_frames`."""
    from PIL import Image

    if image.shape[:2] == size:
        return image
    # Pillow's bicubic widens its kernel when it shrinks, so no pixel is skipped.
    resized = Image.fromarray(image).resize(size[::-1], Image.Resampling.BICUBIC)
    return np.asarray(resized, dtype=np.uint8)


def read_image(path: Path, size: int | None = None) -> Frames:
    """Read an image file as RGB (h, w, 3) with its longer side ``size`` pixels; ``None`` keeps its own size.

    Raises:
        VideoError: It is missing, not a regular file, too large, or not an image.
    """
    content = read_bytes(path, VideoError, max_bytes=MAX_IMAGE_BYTES)
    rgb = decode_image(content, shown(path), upright=False)
    width, height = fit_size(rgb.shape[1], rgb.shape[0], size)
    return resize_image(rgb, (height, width))


def square_image(image: Frames, side: int, *, stretch: bool = False) -> Frames:
    """Put an image (h, w, 3) into a square: scaled to fit and centred on black, or stretched."""
    if stretch:
        return resize_image(image, (side, side))
    width, height = fit_size(image.shape[1], image.shape[0], side)
    square = np.zeros((side, side, 3), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = resize_image(image, (height, width))
    return square


def tile_images(images: Sequence[Frames], columns: int, *, gap: int = 0) -> Frames:
    """Lay images (h, w, 3) out row by row, ``columns`` to a row, in cells as large as the largest, padded black.

    Args:
        images: The images.
        columns: Images in a row.
        gap: Black pixels between cells.
    """
    height, width = max(i.shape[0] for i in images), max(i.shape[1] for i in images)
    rows = -(-len(images) // columns)
    sheet = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), np.uint8)
    for number, image in enumerate(images):
        top, left = number // columns * (height + gap), number % columns * (width + gap)
        sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
    return sheet
