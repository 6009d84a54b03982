"""Images from anywhere: their size is checked before a pixel is decoded."""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes.image_ops import decode_image, image_size, read_image
from stepscore.errors import VideoError
from tests.episodes import bombs
from tests.media import numbered

TOO_LARGE = {
    "PNG of 13,000 squared": bombs.png(13_000, 13_000),
    "PNG that claims 2**31 - 1 squared": bombs.png_header(2**31 - 1, 2**31 - 1),
    "GIF of 16,000 squared": bombs.gif(16_000, 16_000),
    "GIF of 65,535 squared": bombs.gif(65_535, 65_535),
    "APNG of 8,000 squared": bombs.png(8_000, 8_000, frames=3),
}


def encoded(kind: str, **options: object) -> bytes:
    made = io.BytesIO()
    Image.fromarray(numbered(5)).save(made, kind, **options)
    return made.getvalue()


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("content", TOO_LARGE.values(), ids=TOO_LARGE)
def test_an_image_of_too_many_pixels_is_refused_by_its_header(content: bytes) -> None:
    for use in (image_size, decode_image):
        with pytest.raises(VideoError, match=r"pixels; at most 40 million are read\. Scale it down"):
            use(content, "x")


def test_images_as_large_as_cameras_make_them_are_read() -> None:
    assert decode_image(bombs.png(3840, 2160), "x").shape == (2160, 3840, 3)
    assert image_size(bombs.png(7680, 4320), "x") == (7680, 4320)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_the_usual_formats_are_read(kind: str) -> None:
    image = decode_image(encoded(kind), "x")
    assert image.shape == (64, 96, 3)
    assert image_size(encoded(kind), "x") == (96, 64)
    assert np.abs(image.astype(int) - numbered(5)).mean() < 12


@pytest.mark.parametrize("content", [b"", b"text", b"%!PS-Adobe-3.0 EPSF\n", b"\x89PNG\r\n\x1a\n", b"GIF89a"])
def test_what_is_not_an_image_is_an_error_that_names_it(content: bytes) -> None:
    with pytest.raises(VideoError, match=r"goal\.png is not a readable image"):
        decode_image(content, "goal.png")


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_a_damaged_image_decodes_or_is_refused(kind: str) -> None:
    """Every cut of the file, and a flipped bit in every fifth byte: an array, or a VideoError."""
    content = encoded(kind)
    step = max(1, len(content) // 60)
    damaged = [content[:end] for end in range(0, len(content), step)]
    for at in range(0, min(len(content), 300), 5):
        flipped = bytearray(content)
        flipped[at] ^= 0x81
        damaged.append(bytes(flipped))
    for one in damaged:
        says = "x "
        try:
            assert decode_image(one, "x").dtype == np.uint8
        except VideoError as error:
            says = str(error)
        assert says.startswith("x ")


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "zero.png").symlink_to("/dev/zero")
    for name, kind in (("pipe.png", "named pipe"), ("zero.png", "device"), (".", "folder")):
        with pytest.raises(VideoError, match=kind):
            read_image(tmp_path / name)
