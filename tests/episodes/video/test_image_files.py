"""Frames kept as separate images."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes.video.image_files import ImageSequenceView
from stepscore.errors import OptionError, VideoError
from tests.media import numbered, numbers_of


@pytest.fixture
def paths(tmp_path: Path) -> tuple[Path, ...]:
    for number in range(6):
        Image.fromarray(numbered(number)).save(tmp_path / f"frame_{number:03d}.png")
    return tuple(sorted(tmp_path.glob("*.png")))


def test_images_are_frames_at_the_rate_given(paths: tuple[Path, ...]) -> None:
    view = ImageSequenceView(paths, fps=4.0)
    assert view.info() == (6, 4.0, 96, 64, 1.5, 0)
    np.testing.assert_array_equal(view.timestamps(), [0, 0.25, 0.5, 0.75, 1.0, 1.25])
    frames = view.read([5, 0, 5])
    assert numbers_of(frames) == [5, 0, 5]
    np.testing.assert_array_equal(frames[1], numbered(0))
    assert view.read([]).shape == (0, 64, 96, 3)


def test_resizing_keeps_the_aspect_ratio(paths: tuple[Path, ...]) -> None:
    frames = ImageSequenceView(paths, 4.0).read([3, 2], size=48)
    assert frames.shape == (2, 32, 48, 3)
    assert numbers_of(frames) == [3, 2]


def test_many_images_are_read_in_parts_and_stay_in_order(paths: tuple[Path, ...]) -> None:
    asked = [number % 6 for number in range(40)]
    assert numbers_of(ImageSequenceView(paths, 4.0).read(asked)) == asked


def test_photographs_come_out_upright(tmp_path: Path) -> None:
    upright = numbered(5)
    stored = Image.fromarray(np.rot90(upright))  # shot with the camera turned; noted in the file
    exif = Image.Exif()
    exif[0x0112] = 6
    stored.save(tmp_path / "turned.png", exif=exif)
    view = ImageSequenceView((tmp_path / "turned.png",), 1.0)
    assert (view.info().width, view.info().height) == (96, 64)
    np.testing.assert_array_equal(view.read([0])[0], upright)


def test_grey_palette_and_transparent_images_become_rgb(tmp_path: Path) -> None:
    for mode, name in (("L", "grey"), ("P", "palette"), ("RGBA", "alpha")):
        Image.fromarray(numbered(9)).convert(mode).save(tmp_path / f"{name}.png")
        frames = ImageSequenceView((tmp_path / f"{name}.png",), 1.0).read([0])
        assert frames.shape == (1, 64, 96, 3)
        assert numbers_of(frames) == [9]


def test_a_replaced_image_or_another_rate_changes_the_digest(paths: tuple[Path, ...]) -> None:
    digest = ImageSequenceView(paths, 4.0).digest()
    assert ImageSequenceView(paths, 4.0).digest() == digest
    assert ImageSequenceView(paths, 5.0).digest() != digest
    assert ImageSequenceView(paths[:-1], 4.0).digest() != digest
    Image.fromarray(numbered(77)).save(paths[-1])
    assert ImageSequenceView(paths, 4.0).digest() != digest


def test_views_travel_to_other_processes(paths: tuple[Path, ...]) -> None:
    view = ImageSequenceView(paths, 4.0)
    assert pickle.loads(pickle.dumps(view)) == view


def test_wrong_images_are_named(paths: tuple[Path, ...], tmp_path: Path) -> None:
    view = ImageSequenceView(paths, 4.0)
    with pytest.raises(OptionError, match=r"frames 0..5; index 6"):
        view.read([6])
    Image.fromarray(numbered(1, 48, 32)).save(paths[1])
    with pytest.raises(VideoError, match=r"frame 1 is 48x32; the first image is 96x64"):
        view.read([1])
    paths[2].write_bytes(paths[3].read_bytes()[:200])
    with pytest.raises(VideoError, match=r"frame 2 is not a readable image"):
        view.read([2])
    paths[3].unlink()
    with pytest.raises(VideoError, match=r"frame_003.png"):
        view.read([3])
    (tmp_path / "text.png").write_text("hello", encoding="utf-8")
    with pytest.raises(VideoError, match=r"text.png.*not a readable image"):
        ImageSequenceView((tmp_path / "text.png",), 1.0).info()
    with pytest.raises(VideoError, match=r"no frames"):
        ImageSequenceView((), 1.0).info()
    with pytest.raises(OptionError, match=r"fps must be from 1e-06 to 1e\+06, got 0"):
        ImageSequenceView(paths, 0.0)


@dataclass(frozen=True)
class Kept:
    """Images in memory: what another place that keeps encoded images has to offer."""

    contents: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.contents)

    def load(self, indices: Sequence[int]) -> list[bytes]:
        return [self.contents[index] for index in indices]

    def digest(self) -> bytes:
        return b"".join(self.contents)[:32]

    def location(self) -> str:
        return "memory"


def test_images_may_be_kept_elsewhere(paths: tuple[Path, ...]) -> None:
    view = ImageSequenceView(Kept(tuple(path.read_bytes() for path in paths)), 2.0)
    assert numbers_of(view.read([4, 1])) == [4, 1]
    assert view.location() == "memory"
