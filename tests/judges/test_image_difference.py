"""The image difference: motion as a judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from stepscore import get_judge
from stepscore.episodes import Episode
from stepscore.episodes.perturbations import freeze, reverse
from stepscore.errors import EpisodeError, OptionError
from stepscore.judges import Ask
from stepscore.types import Frames, Judgement
from tests.fakes import FakeView, episode


def judged(one: Episode, **options: object) -> Judgement:
    return asyncio.run(get_judge("image-difference", **options).judge(one, cast(Ask, None)))


def test_progress_is_the_distance_to_the_first_image_over_the_largest() -> None:
    # Frame i of a fake view is grey of value i.
    curve = judged(episode(views={"top": FakeView(n=50)}), points=5).curve
    assert curve is not None
    assert curve.channels["raw"] == pytest.approx(np.array([0, 12, 24, 37, 49]) / 255)
    assert curve.progress == pytest.approx(np.array([0, 12, 24, 37, 49]) / 49)


def test_where_nothing_moves_there_is_no_progress() -> None:
    curve = judged(freeze(episode())).curve
    assert curve is not None
    assert not curve.progress.any()


def test_backwards_it_rises_as_forwards() -> None:
    curve = judged(reverse(episode())).curve
    assert curve is not None
    assert curve.progress[-1] == 1.0


def test_views_are_averaged() -> None:
    @dataclass(frozen=True)
    class Still(FakeView):
        def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
            return super().read([0] * len(indices), size)

    curve = judged(episode(views={"top": FakeView(), "wrist": Still()}), points=2).curve
    assert curve is not None
    assert curve.channels["raw"] == pytest.approx([0, 24.5 / 255])


def test_no_video_and_wrong_options_are_refused() -> None:
    with pytest.raises(EpisodeError, match="no video"):
        judged(episode(views={}))
    with pytest.raises(OptionError, match="points"):
        get_judge("image-difference", points=1)
