"""Image operations: fit, resize, read and tile."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from stepscore._untrusted import read_bytes, shown
from stepscore._untrusted.limits import MAX_IMAGE_BYTES, MAX_PIXELS, check_pixels, too_many_pixels
from stepscore.errors import OptionError, StepScoreError, VideoError
from stepscore.types import Frames

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage


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

    Frames that already have this size are returned as the same array.
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
    """Read an image file as RGB (h, w, 3) with the longer side ``size`` pixels; ``None`` keeps the original size.

    Raises:
        VideoError: The file is missing, not a regular file, too large, or not an image.
    """
    content = read_bytes(path, VideoError, max_bytes=MAX_IMAGE_BYTES)
    rgb = decode_image(content, shown(path), upright=False)
    width, height = fit_size(rgb.shape[1], rgb.shape[0], size)
    return resize_image(rgb, (height, width))


def square_image(image: Frames, side: int, *, stretch: bool = False) -> Frames:
    """Fit an image (h, w, 3) into a square, either scaled and centred on black, or stretched."""
    if stretch:
        return resize_image(image, (side, side))
    width, height = fit_size(image.shape[1], image.shape[0], side)
    square = np.zeros((side, side, 3), np.uint8)
    top, left = (side - height) // 2, (side - width) // 2
    square[top : top + height, left : left + width] = resize_image(image, (height, width))
    return square


def tile_images(images: Sequence[Frames], columns: int, *, gap: int = 0) -> Frames:
    """Tile images (h, w, 3) in rows of ``columns``; each cell has the largest size, padded with black."""
    height, width = max(i.shape[0] for i in images), max(i.shape[1] for i in images)
    rows = -(-len(images) // columns)
    sheet = np.zeros((rows * (height + gap) - gap, columns * (width + gap) - gap, 3), np.uint8)
    for number, image in enumerate(images):
        top, left = number // columns * (height + gap), number % columns * (width + gap)
        sheet[top : top + image.shape[0], left : left + image.shape[1]] = image
    return sheet


FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
"""Supported formats, by Pillow's names. Other formats run programs (EPS) or do not hold frames."""


def image_size(content: bytes, where: str) -> tuple[int, int]:
    """Return width and height of the upright image; error messages begin with ``where``."""
    from PIL import ExifTags

    with _opened(content, where) as image:
        is_transposed = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
        return (image.height, image.width) if is_transposed else (image.width, image.height)


def decode_image(content: bytes, where: str, *, upright: bool = True) -> Frames:
    """Return the image as RGB, (h, w, 3); ``upright`` applies the EXIF orientation."""
    from PIL import ImageOps

    with _opened(content, where) as image:
        if upright:
            ImageOps.exif_transpose(image, in_place=True)
        # convert() copies an image even if it is already RGB.
        return np.asarray(image if image.mode == "RGB" else image.convert("RGB"), dtype=np.uint8)


@contextmanager
def _opened(content: bytes, where: str) -> Iterator[PilImage]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            check_pixels(image.width, image.height, where)
            yield image
    except StepScoreError:
        raise
    except Image.DecompressionBombError as error:  # Pillow's own limit, which it checks first
        raise too_many_pixels("more", where) from error
    except Exception as error:  # decoders raise anything: struct.error, SyntaxError ...
        raise VideoError(f"{where} is not a readable image ({error or type(error).__name__}).") from error
