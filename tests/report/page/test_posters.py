"""Frames of failures on the page: the one on screen at a time, small, few, and none without a video."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from stepscore.episodes import open_episodes
from stepscore.episodes.video import VideoView
from stepscore.errors import VideoError
from stepscore.judges import get_judge
from stepscore.report.page import posters
from stepscore.report.page.posters import SIZE, Posters
from stepscore.report.run_sources import RunSources
from stepscore.runs import Run, score
from tests.media import number_of, write_video

FRAMES, FPS = 24, 12


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("posters")
    for name in ("a", "b"):
        write_video(folder / "rollouts" / f"{name}.mp4", FRAMES, size=(480, 320), fps=FPS)
    return score(open_episodes(folder / "rollouts"), get_judge("linear-time"), folder / "run")


def image(text: str) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB"))


@pytest.mark.parametrize(("time_s", "frame"), [(0.0, 0), (0.99, 11), (1.0, 12), (99.0, 23), (None, 23)])
def test_the_frame_is_the_one_on_screen_at_that_time(run: Run, time_s: float | None, frame: int) -> None:
    found = Posters(RunSources([run]))
    assert found.number(run.episodes().to_pylist()[0], time_s) == 0
    shown = image(found.images[0])
    assert shown.shape[:2] == (160, SIZE)
    assert number_of(shown) == frame


def test_a_frame_is_read_once_and_no_more_than_the_limit(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posters, "MAX_POSTERS", 3)
    found = Posters(RunSources([run]))
    row, other = run.episodes().to_pylist()
    assert [found.number(row, t / FPS) for t in (1, 5, 1)] == [0, 1, 0]
    assert [found.number(other, t / FPS) for t in (9, 13)] == [2, -1]
    assert found.number(row, 5 / FPS) == 1
    assert len(found.images) == 3


def test_without_a_video_there_is_none(run: Run, tmp_path: Path) -> None:
    row = run.episodes().to_pylist()[0]
    assert Posters(None).number(row, 0.0) == -1
    gone = {**row, "source": str(tmp_path / "gone")}
    assert Posters(RunSources([run])).number(gone, 0.0) == -1


def test_a_frame_that_cannot_be_decoded_leaves_the_page_without_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def damaged(*_: object) -> None:
        raise VideoError("a.mp4 is damaged.")

    monkeypatch.setattr(VideoView, "read", damaged)
    found = Posters(RunSources([run]))
    assert found.number(run.episodes().to_pylist()[0], 0.5) == -1
    assert found.images == []
