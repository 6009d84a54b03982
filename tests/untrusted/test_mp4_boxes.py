"""What an mp4 claims is held against its size before libav builds tables by it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from stepscore._untrusted.mp4_boxes import MAX_ENTRIES, read_mp4_header
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import VideoError
from tests.episodes.bombs import mp4_claiming
from tests.media import write_video


def box(kind: bytes, content: bytes = b"") -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def track(handler: bytes, sample_size: int, samples: int, duration: int) -> bytes:
    """A track as far as its tables are counted."""
    tables = box(b"stts", struct.pack(">IIII", 0, 1, samples, duration))
    tables += box(b"stsz", struct.pack(">III", 0, sample_size, samples))
    head = box(b"hdlr", struct.pack(">II4s12x", 0, 0, handler))
    return box(b"trak", box(b"mdia", head + box(b"minf", box(b"stbl", tables))))


def test_frames_of_all_tracks_are_counted(tmp_path: Path) -> None:
    assert read_mp4_header(write_video(tmp_path / "x.mp4", 30)).frames == 30
    assert read_mp4_header(write_video(tmp_path / "y.mp4", 30, audio=True)).frames > 30


def test_frames_of_a_fragmented_file_are_counted(tmp_path: Path) -> None:
    options = {"movflags": "frag_keyframe+empty_moov"}
    path = write_video(tmp_path / "x.mp4", 30, container_options=options)
    assert read_mp4_header(path).frames == 30
    content = bytearray(path.read_bytes())
    struct.pack_into(">I", content, content.index(b"trun") + 8, 2**31)
    path.write_bytes(content)
    with pytest.raises(VideoError, match="claims 2147483"):
        VideoView(path).info()


@pytest.mark.parametrize("frames", [100_000_000, 2**32 - 1])
def test_more_frames_than_bytes_are_refused(tmp_path: Path, frames: int) -> None:
    path = mp4_claiming(tmp_path / "x.mp4", frames, 100_000)
    with pytest.raises(VideoError, match=f"claims {frames} frames, and has only 100000 bytes"):
        VideoView(path).info()


def test_a_sparse_file_cannot_claim_its_size_in_frames(tmp_path: Path) -> None:
    path = mp4_claiming(tmp_path / "x.mp4", 80_000_000, 100_000_000)
    with pytest.raises(VideoError, match=f"states 80000000 frames; at most {MAX_ENTRIES} are read"):
        VideoView(path).info()


def test_hours_of_sound_that_is_not_compressed_are_no_claim(tmp_path: Path) -> None:
    samples = 2 * 3600 * 48_000
    for handler, counted in ((b"soun", 0), (b"vide", samples)):
        path = tmp_path / "x.mov"
        path.write_bytes(box(b"moov", track(handler, 4, samples, 1) + track(b"vide", 0, 216_000, 512)))
        with path.open("r+b") as file:
            file.truncate(4 * samples)
        if counted:
            with pytest.raises(VideoError, match="at most"):
                read_mp4_header(path)
        else:
            assert read_mp4_header(path).frames == 216_000


@pytest.mark.parametrize(
    "kind", [b"stsz", b"stco", b"stts", b"ctts", b"stsc", b"stss", b"trun", b"moov", b"mdat"]
)
@pytest.mark.parametrize("value", [0, 1, 2**31 - 1, 2**32 - 1])
def test_any_number_in_any_table_ends_in_frames_or_an_error(tmp_path: Path, kind: bytes, value: int) -> None:
    content = bytearray(write_video(tmp_path / "x.mp4", 12, b_frames=2).read_bytes())
    at = content.find(kind)
    for offset in (-4, 8, 12) if at > 0 else ():
        damaged = bytearray(content)
        struct.pack_into(">I", damaged, at + offset, value)
        (tmp_path / "x.mp4").write_bytes(damaged)
        says = "x.mp4"
        try:
            assert VideoView(tmp_path / "x.mp4").read([0], 32).shape[0] == 1
        except VideoError as error:
            says = str(error)
        assert "x.mp4" in says


def test_boxes_nested_without_end_are_given_up(tmp_path: Path) -> None:
    content = b""
    for _ in range(3000):
        content = box(b"moov", content)
    (tmp_path / "x.mp4").write_bytes(content * 30)
    assert read_mp4_header(tmp_path / "x.mp4").frames == 0


def test_a_compressed_header_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "x.mp4").write_bytes(box(b"moov") + box(b"cmov"))
    with pytest.raises(VideoError, match="ffmpeg -i IN -c copy OUT"):
        read_mp4_header(tmp_path / "x.mp4")
