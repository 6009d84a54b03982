"""Encoded images (PNG, JPEG ...) from anywhere, decoded within limits.

The size in the header is checked before a pixel is decoded, and every way in which a decoder fails on a damaged or
hostile image is a VideoError that names it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from stepscore._untrusted.limits import check_pixels, too_many_pixels
from stepscore.errors import StepScoreError, VideoError
from stepscore.types import Frames

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "JPEG2000")
"""Formats that are decoded, by Pillow's names. Others run programs (EPS) or are no frames."""


def image_size(content: bytes, where: str) -> tuple[int, int]:
    """Return width and height of the upright image; ``where`` begins the message of an error."""
    from PIL import ExifTags

    with _opened(content, where) as image:
        is_transposed = image.getexif().get(ExifTags.Base.Orientation, 1) in (5, 6, 7, 8)
        return (image.height, image.width) if is_transposed else (image.width, image.height)


def decode_image(content: bytes, where: str, *, upright: bool = True) -> Frames:
    """Return the image as RGB, (h, w, 3); ``upright`` turns it as its EXIF orientation says."""
    from PIL import ImageOps

    with _opened(content, where) as image:
        if upright:
            ImageOps.exif_transpose(image, in_place=True)
        # convert() copies an image that is RGB already.
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
    except Exception as error:  # decoders raise what their author thought of: struct.error, SyntaxError ...
        raise VideoError(f"{where} is not a readable image ({error or type(error).__name__}).") from error
