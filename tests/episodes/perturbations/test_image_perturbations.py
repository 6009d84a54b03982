"""Changes of the image, pixel by pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Episode
from stepscore.episodes.perturbations.perturb import darken, recompress, shift, zoom
from stepscore.types import FloatArray, Frames
from tests.fakes import FakeView


@dataclass(frozen=True)
class Painted(FakeView):
    """A view that shows one given image."""

    n: object = None  # type: ignore[assignment]

    def info(self):
        image = np.asarray(self.n)
        return FakeView(1).info()._replace(width=image.shape[1], height=image.shape[0])

    def timestamps(self) -> FloatArray:
        return np.zeros(1)

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        return np.stack([np.asarray(self.n) for _ in indices])


def test_a_shift_moves_the_image_and_fills_what_it_uncovers() -> None:
    before = np.full((6, 8, 3), 7, np.uint8)
    before[2, 3] = 200
    moved = shift(Episode("e", "", views={"top": Painted(before)}), 2, -1).view().read([0])[0]
    assert (moved[1, 5] == 200).all()
    assert (moved == 200).sum() == 3
    black = shift(Episode("e", "", views={"top": Painted(before)}), 2, -1, fill="black").view().read([0])[0]
    assert (black[:, :2] == 0).all()
    assert (black[-1] == 0).all()
    assert (black[:-1, 2:] == moved[:-1, 2:]).all()


def test_a_zoom_keeps_the_middle_and_the_size() -> None:
    image = np.zeros((60, 80, 3), np.uint8)
    image[20:40, 30:50] = 255
    large = zoom(Episode("e", "", views={"top": Painted(image)}), 2.0).view().read([0])[0]
    assert large.shape == image.shape
    assert large[12:48, 22:58].min() > 250
    assert large[:8].max() == large[:, :18].max() == 0


def test_darker_multiplies() -> None:
    image = np.arange(256, dtype=np.uint8).reshape(16, 16, 1).repeat(3, axis=2)
    dark = darken(Episode("e", "", views={"top": Painted(image)}), 0.5).view().read([0])[0]
    assert np.array_equal(dark, np.round(image * 0.5).astype(np.uint8))


def test_recompression_loses_more_at_lower_quality() -> None:
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3)).astype(np.uint8)
    given_episode = Episode("e", "", views={"top": Painted(image)})

    def loss(quality: int) -> float:
        frame = recompress(given_episode, quality).view().read([0])[0]
        return float(np.abs(frame.astype(int) - image).mean())

    assert loss(10) > loss(60) > loss(95) > 0
