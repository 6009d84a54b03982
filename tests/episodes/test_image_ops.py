"""Images are fitted, resized, read and tiled in one place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes import fit_size, read_image, resize_frames, resize_image, tile_images
from stepscore.errors import OptionError
from tests.media import number_of, numbered


@pytest.mark.parametrize(
    ("width", "height", "size", "expected"),
    [
        (640, 480, None, (640, 480)),
        (640, 480, 320, (320, 240)),
        (480, 640, 320, (240, 320)),
        (65, 47, 32, (32, 23)),
        (1000, 1, 10, (10, 1)),
        (10, 10, 30, (30, 30)),
    ],
)
def test_the_longer_side_gets_the_size(
    width: int, height: int, size: int | None, expected: tuple[int, int]
) -> None:
    assert fit_size(width, height, size) == expected
    with pytest.raises(OptionError, match="size is 0"):
        fit_size(width, height, 0)


def test_resizing_is_bicubic_and_leaves_what_fits() -> None:
    frames = np.stack([numbered(5), numbered(9)])
    assert resize_frames(frames, (64, 96)) is frames
    small = resize_frames(frames, (32, 48))
    assert small.shape == (2, 32, 48, 3)
    expected = Image.fromarray(frames[1]).resize((48, 32), Image.Resampling.BICUBIC)
    np.testing.assert_array_equal(small[1], np.asarray(expected))
    np.testing.assert_array_equal(resize_image(frames[1], (32, 48)), small[1])
    flipped = frames[0][::-1]  # a view with negative strides
    np.testing.assert_array_equal(resize_image(flipped, (32, 48)), resize_image(flipped.copy(), (32, 48)))


def test_an_image_file_is_read_as_rgb_at_a_size(tmp_path: Path) -> None:
    Image.fromarray(numbered(7)).convert("RGBA").save(tmp_path / "goal.png")
    np.testing.assert_array_equal(read_image(tmp_path / "goal.png"), numbered(7))
    assert read_image(tmp_path / "goal.png", 48).shape == (32, 48, 3)


def test_tiles_are_laid_out_row_by_row_and_padded_with_black() -> None:
    sheet = tile_images([numbered(1), numbered(2, 48, 32), numbered(3)], 2)
    assert sheet.shape == (128, 192, 3)
    assert number_of(sheet[:64, :96]) == 1
    assert number_of(sheet[:32, 96:144]) == 2
    assert number_of(sheet[64:, :96]) == 3
    assert not sheet[32:64, 96:].any()
    assert not sheet[64:, 96:].any()
