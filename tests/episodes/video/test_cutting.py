"""A part of a video file is copied without encoding, and holds the episode's frames."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest

from stepscore.episodes.video import VideoPart, VideoView, cut_video
from stepscore.episodes.video.video_view import FileSpan
from tests.media import write_video

CODECS = ("av1", "h264", "hevc")


def decoded(part: VideoPart) -> list[np.ndarray]:
    with av.open(io.BytesIO(part.data), "r") as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


@pytest.mark.parametrize(("codec", "b_frames"), [("h264", 0), ("h264", 3), ("av1", 0)])
@pytest.mark.parametrize("first", [0, 12, 17])
def test_the_frames_of_the_part_are_those_of_the_episode(
    tmp_path: Path, codec: str, b_frames: int, first: int
) -> None:
    path = write_video(tmp_path / "many.mp4", 40, codec=codec, b_frames=b_frames, gop=12)
    view = VideoView(path, FileSpan(first / 30, 14, 30.0))
    part = cut_video(view, CODECS)
    assert isinstance(part, VideoPart)
    frames = decoded(part)
    assert len(frames) == part.n_frames < 40
    shown = np.stack([frames[place] for place in part.places])
    np.testing.assert_array_equal(shown, view.read(range(14)))
    # Nothing before the keyframe that the first frame needs is copied.
    assert part.n_frames <= 14 + 12 + b_frames


def test_the_part_of_a_whole_file_is_the_file(tmp_path: Path) -> None:
    view = VideoView(write_video(tmp_path / "one.mp4", 20))
    part = cut_video(view, CODECS)
    assert isinstance(part, VideoPart)
    assert part.codec == "h264"
    assert part.places.tolist() == list(range(20))


def test_what_cannot_be_copied_says_why(tmp_path: Path) -> None:
    assert (
        cut_video(VideoView(write_video(tmp_path / "a.mp4", 5, codec="mpeg4")), CODECS)
        == "its codec is mpeg4"
    )
    turned = VideoView(write_video(tmp_path / "b.mp4", 5, rotation=90))
    assert cut_video(turned, CODECS) == "its frames are stored rotated"
    uncounted = VideoView(write_video(tmp_path / "c.avi", 12, b_frames=2))
    assert cut_video(uncounted, CODECS) == "its file keeps no times of frames"
