"""A video is a regular file of a known format, and never another file in its place."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from stepscore.episodes.video.video_view import FileSpan, VideoView
from stepscore.errors import OptionError, StepScoreError, VideoError
from tests.episodes import bombs
from tests.media import write_video

PLAYLISTS = {
    "HLS": "#EXTM3U\n#EXTINF:1.0,\nfile://{other}\n#EXT-X-ENDLIST\n",
    "HLS over HTTP": "#EXTM3U\n#EXTINF:1.0,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n",
    "concat": "ffconcat version 1.0\nfile {other}\n",
    "SDP": "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n",
    "image list": "<smil><video src='{other}'/></smil>",
}


def test_a_pipe_a_device_and_a_folder_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.mp4")
    (tmp_path / "device.mp4").symlink_to("/dev/zero")
    (tmp_path / "folder.mp4").mkdir()
    (tmp_path / "loop.mp4").symlink_to("loop.mp4")
    for name in ("pipe.mp4", "device.mp4", "folder.mp4", "loop.mp4", "a\0b.mp4", "x" * 5000):
        for use in (VideoView.info, VideoView.digest, lambda view: view.read([0])):
            with pytest.raises(VideoError):
                use(VideoView(tmp_path / name))


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is used")
def test_a_file_that_the_system_does_not_read_is_no_video(tmp_path: Path) -> None:
    # As one that this user may not read, for root, too: reading it is an OSError.
    (tmp_path / "x.mp4").symlink_to("/proc/self/mem")
    with pytest.raises(VideoError, match=r"x\.mp4 is not a video that can be read"):
        VideoView(tmp_path / "x.mp4").info()


@pytest.mark.parametrize("text", PLAYLISTS.values(), ids=PLAYLISTS)
def test_a_playlist_opens_no_other_file(tmp_path: Path, text: str) -> None:
    other = write_video(tmp_path / "other.mp4", 5)
    (tmp_path / "x.mp4").write_text(text.format(other=other))
    with pytest.raises(VideoError, match="not a video that can be read"):
        VideoView(tmp_path / "x.mp4").info()


def test_a_name_is_never_taken_for_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_video(tmp_path / "concat:x.mp4", 5)
    monkeypatch.chdir(tmp_path)
    assert VideoView(Path("concat:x.mp4")).info().n_frames == 5


@pytest.mark.parametrize(
    "content",
    [
        bombs.gif(16_000, 16_000),
        bombs.gif(65_535, 65_535),
        bombs.png(8_000, 8_000, frames=3),
        bombs.png(13_000, 13_000),
    ],
    ids=["GIF of 16,000", "GIF of 65,535", "APNG", "PNG"],
)
def test_a_video_of_too_many_pixels_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.gif").write_bytes(content)
    with pytest.raises(VideoError, match=r"x\.gif"):
        VideoView(tmp_path / "x.gif").read([0], 64)


def test_a_4k_video_is_read_in_the_size_that_is_asked_for(tmp_path: Path) -> None:
    image = np.zeros((2160, 3840, 3), np.uint8)
    path = write_video(tmp_path / "x.mp4", size=(3840, 2160), frames=[image] * 3)
    view = VideoView(path)
    assert view.read([0, 1, 2], 224).shape == (3, 126, 224, 3)
    assert view.read([0, 2]).shape == (2, 2160, 3840, 3)


def test_a_read_of_more_memory_than_there_may_be_is_refused_with_the_way_out(tmp_path: Path) -> None:
    view = VideoView(write_video(tmp_path / "x.mp4", 5))
    with pytest.raises(OptionError, match="Ask for fewer frames, or for smaller ones: size="):
        view.read([0] * 300_000)
    with pytest.raises(OptionError, match="would have more than"):
        view.read([0], 10**9)


@pytest.mark.parametrize(
    "span",
    [
        FileSpan(None, 10**15, 30.0), FileSpan(None, -1, 30.0), FileSpan(None, 5, 0.0),
        FileSpan(None, 5, float("nan")), FileSpan(1e300, 5, 30.0), FileSpan(float("nan"), 5, 30.0),
        FileSpan(None, 5, 1e-300),
    ],
)  # fmt: skip
def test_a_span_that_cannot_be_is_refused(tmp_path: Path, span: FileSpan) -> None:
    with pytest.raises(StepScoreError):
        VideoView(write_video(tmp_path / "x.mp4", 5), span).read([0])
