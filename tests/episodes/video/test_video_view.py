"""Frames of video files: the right ones, whatever the container, codec, order or damage."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscore.episodes.episode import file_digest
from stepscore.episodes.video import packets
from stepscore.episodes.video import video_view as video
from stepscore.episodes.video.packets import index_video, packet_index
from stepscore.episodes.video.video_view import FileSpan, VideoView, plan_ranges
from stepscore.errors import OptionError, VideoError
from tests.media import (
    copy_packets,
    cut,
    decode_all,
    number_of,
    numbered,
    numbers_of,
    repeat,
    write_video,
)

FORMATS: dict[str, dict[str, Any]] = {
    "h264.mp4": {"codec": "h264"},
    "b_frames.mp4": {"codec": "h264", "b_frames": 3},
    "short_gop.mp4": {"codec": "h264", "b_frames": 3, "gop": 3, "options": {"x264-params": "b-adapt=0"}},
    "open_gop.mp4": {
        "codec": "h264",
        "b_frames": 3,
        "options": {"x264-params": "open-gop=1:b-adapt=0:scenecut=0"},
    },
    "open_gop.mkv": {
        "codec": "h264",
        "b_frames": 3,
        "options": {"x264-params": "open-gop=1:b-adapt=0:scenecut=0"},
    },
    "av1.mp4": {"codec": "av1", "gop": 2},
    "vp9.webm": {"codec": "vp9"},
    "b_frames.mkv": {"codec": "h264", "b_frames": 2},
    "vp8.webm": {"codec": "vp8"},
    "mpeg4.avi": {"codec": "mpeg4"},
    "b_frames.avi": {"codec": "h264", "b_frames": 2},
    "mpeg4_b_frames.avi": {"codec": "mpeg4", "b_frames": 2},
    "animation.gif": {"codec": "gif", "fps": 10},
    "odd_size.mp4": {"codec": "h264", "size": (65, 47), "pix_fmt": "yuv444p"},
    "sound.mp4": {"codec": "h264", "audio": True},
    "no_times.h264": {"codec": "h264", "b_frames": 2},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("videos")


@pytest.fixture(scope="module")
def any_format(request: pytest.FixtureRequest, folder: Path) -> Path:
    path = folder / request.param
    return path if path.exists() else write_video(path, 40, **FORMATS[request.param])


@pytest.mark.parametrize("any_format", FORMATS, indirect=True)
def test_every_frame_asked_for_alone_is_the_one_of_a_full_decode(any_format: Path) -> None:
    view, oracle = VideoView(any_format), decode_all(any_format)
    assert view.info().n_frames == len(oracle) == 40
    for number, image in enumerate(oracle):
        frame = view.read([number])[0]
        assert number_of(frame) == number
        np.testing.assert_array_equal(frame, image)


@pytest.mark.parametrize("any_format", FORMATS, indirect=True)
def test_frames_come_in_the_order_asked_for_and_may_repeat(any_format: Path) -> None:
    asked = [31, 2, 2, 39, 0, 17, 31]
    assert numbers_of(VideoView(any_format).read(asked)) == asked


@pytest.mark.parametrize("any_format", FORMATS, indirect=True)
def test_times_are_seconds_from_the_first_frame(any_format: Path) -> None:
    view = VideoView(any_format)
    info, times = view.info(), view.timestamps()
    fps = FORMATS[any_format.name].get("fps", 30) if any_format.suffix != ".h264" else info.fps
    np.testing.assert_allclose(times, np.arange(40) / fps, atol=6e-4)  # Matroska counts milliseconds
    assert info.fps == fps
    assert info.duration_s == pytest.approx(40 / fps, abs=1e-3)
    assert info.first_frame == 0


def test_keyframes_that_are_no_whole_images_are_not_started_from(folder: Path) -> None:
    path = write_video(folder / "gradual.mp4", 60, options={"x264-params": "intra-refresh=1"})
    view, oracle = VideoView(path), decode_all(path)
    assert len(packet_index(path).key_packet) > 1
    for number in range(60):
        np.testing.assert_array_equal(view.read([number])[0], oracle[number])


def test_images_that_lead_up_to_a_keyframe_are_decoded_from_the_one_before(folder: Path) -> None:
    options = {"x264-params": "open-gop=1:b-adapt=0:scenecut=0"}
    index = packet_index(write_video(folder / "leading.mp4", 40, b_frames=3, options=options))
    key = 1
    leading = [
        number
        for number in range(40)
        if index.packet[number] > index.key_packet[key] and index.pts[number] < index.key_pts[key]
    ]
    assert leading
    assert [run.key for run in plan_ranges(index, leading)] == [key - 1]


@pytest.fixture(scope="module")
def two_gops(folder: Path) -> Path:
    return write_video(folder / "two_gops.mp4", 50, b_frames=2, gop=10)


@given(st.lists(st.integers(0, 49), max_size=12))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_choice_of_frames_is_what_was_asked_for(two_gops: Path, asked: list[int]) -> None:
    assert numbers_of(VideoView(two_gops).read(asked)) == asked


def test_no_frames_asked_for_gives_none(two_gops: Path) -> None:
    assert VideoView(two_gops).read([]).shape == (0, 64, 96, 3)


def test_only_gops_that_hold_wanted_frames_are_decoded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(folder / "gop10.mp4", 100, gop=10, options={"x264-params": "scenecut=0"})
    index = packet_index(path)
    assert [(run.first, run.last) for run in plan_ranges(index, [3, 4, 57, 90])] == [
        (0, 4),
        (50, 57),
        (90, 90),
    ]
    # A keyframe that follows at once needs no seek.
    assert [(run.first, run.last) for run in plan_ranges(index, [29, 30, 31])] == [(20, 31)]
    decoded = count_decoded(monkeypatch)
    assert numbers_of(VideoView(path).read([3, 4, 57, 90])) == [3, 4, 57, 90]
    assert len(decoded) == 5 + 8 + 1


def count_decoded(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """The times of the frames that the decoder puts out from now on."""
    decoded: list[int | None] = []
    plain = video.Decoder.decode

    def counted(decoder: video.Decoder, part: video.PacketRange) -> Iterator[av.VideoFrame]:
        for frame in plain(decoder, part):
            decoded.append(frame.pts)
            yield frame

    monkeypatch.setattr(video.Decoder, "decode", counted)
    return decoded


def test_images_that_nothing_refers_to_are_passed_over(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_video(folder / "passed.mp4", 61, gop=61, b_frames=3, options={"x264-params": "b-adapt=0"})
    oracle = decode_all(path)
    decoded = count_decoded(monkeypatch)
    np.testing.assert_array_equal(VideoView(path).read([58])[0], oracle[58])
    assert len(decoded) < 40


def test_sixteen_frames_of_an_episode_in_a_shared_file_decode_a_fifteenth_of_it(folder: Path) -> None:
    # Four episodes of 480 frames in one AV1 file with a keyframe every second frame.
    once = write_video(folder / "episode.mp4", 480, codec="av1", gop=2, size=(64, 48))
    index = packet_index(repeat(once, folder / "shared.mp4", 4))
    assert len(index) == 4 * 480
    wanted = 480 + np.round(np.linspace(0, 479, 16)).astype(int)
    decoded = sum(run.last - run.first + 1 for run in plan_ranges(index, wanted.tolist()))
    assert decoded <= 32


def test_many_readers_of_one_file_index_it_once(two_gops: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexed: list[Path] = []

    def slowly(path: Path, *, parse: bool = True) -> packets.PacketIndex:
        indexed.append(path)
        return index_video(path, parse=parse)

    monkeypatch.setattr(packets, "index_video", slowly)
    cache = packets._Indexes(1000)
    threads = [threading.Thread(target=cache.get, args=(two_gops,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert indexed == [two_gops]


def test_indexes_kept_are_bounded_and_a_changed_file_is_indexed_again(folder: Path) -> None:
    paths = [write_video(folder / f"small_{i}.mp4", 10) for i in range(4)]
    cache = packets._Indexes(25)
    for path in paths:
        cache.get(path)
    assert len(cache._indexes) == 2
    assert cache._packets == 20
    before = cache.get(paths[3])
    assert cache.get(paths[3]) is before
    write_video(paths[3], 12)
    assert len(cache.get(paths[3])) == 12


def test_variable_frame_rate_keeps_each_frames_own_time(folder: Path) -> None:
    ticks = [3000 + 10 * i * i for i in range(20)]  # the file's clock starts at 3 s
    for suffix in ("mp4", "mkv"):
        path = write_video(folder / f"vfr.{suffix}", 20, ticks=ticks, time_base=Fraction(1, 1000))
        view = VideoView(path)
        np.testing.assert_allclose(view.timestamps(), [0.01 * i * i for i in range(20)], atol=1e-9)
        assert view.info().fps == pytest.approx(19 / 3.61)
        assert numbers_of(view.read(range(20))) == list(range(20))


def test_frames_that_share_a_time_are_one_frame(folder: Path) -> None:
    # Matroska keeps milliseconds: two frames 0.3 ms apart get the same one.
    ticks = [0, 330, 333, 660, 1000]
    path = write_video(folder / "twice.mkv", 5, ticks=ticks, time_base=Fraction(1, 10000))
    view = VideoView(path)
    assert np.all(np.diff(view.timestamps()) > 0)
    assert numbers_of(view.read(range(view.info().n_frames))) == [0, 1, 3, 4]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
@pytest.mark.parametrize(("rotation", "quarters"), [(90, 1), (-90, -1), (180, 2), (0, 0)])
@pytest.mark.parametrize("mirror", [False, True])
def test_turned_videos_come_out_upright(
    folder: Path, suffix: str, rotation: int, quarters: int, mirror: bool
) -> None:
    # Stored so that the turn which the file asks for makes it upright again.
    upright = [numbered(i) for i in range(3)]
    stored = [np.ascontiguousarray(np.rot90(p[:, ::-1] if mirror else p, -quarters)) for p in upright]
    path = write_video(
        folder / f"turned_{rotation}_{mirror}.{suffix}",
        size=(stored[0].shape[1], stored[0].shape[0]),
        rotation=rotation,
        mirror=mirror,
        frames=stored,
    )
    view = VideoView(path)
    assert (view.info().width, view.info().height) == (96, 64)
    assert numbers_of(view.read([2, 0, 1])) == [2, 0, 1]
    assert view.read([1], size=48).shape == (1, 32, 48, 3)
    assert number_of(view.read([1], size=48)[0]) == 1


def test_a_slanted_display_is_an_error(folder: Path) -> None:
    path = write_video(folder / "slanted.mp4", 3, rotation=30)
    with pytest.raises(VideoError, match=r"slanted.mp4.*rotation of .*30 degrees"):
        VideoView(path).info()


@pytest.mark.parametrize(
    ("stored", "size", "expected"),
    [((96, 64), 48, (48, 32)), ((64, 96), 48, (32, 48)), ((96, 64), 200, (200, 133)), ((96, 2), 10, (10, 1))],
)
def test_resizing_keeps_the_aspect_ratio(
    folder: Path, stored: tuple[int, int], size: int, expected: tuple[int, int]
) -> None:
    path = write_video(folder / f"size_{stored[0]}_{stored[1]}.mp4", 5, size=stored)
    frames = VideoView(path).read([4, 1], size=size)
    assert frames.shape == (2, expected[1], expected[0], 3)
    if stored[1] > 2:
        assert numbers_of(frames) == [4, 1]


@pytest.mark.parametrize("suffix", ["mp4", "mkv"])
def test_frames_before_the_first_keyframe_are_not_counted(folder: Path, suffix: str) -> None:
    whole = write_video(folder / "whole.mp4", 40, gop=12, b_frames=2)
    view = VideoView(copy_packets(whole, folder / f"headless.{suffix}", first=5))
    assert numbers_of(view.read(range(view.info().n_frames))) == list(range(12, 40))
    assert view.timestamps()[0] == 0


def test_frames_that_an_edit_list_cuts_away_are_not_counted(folder: Path) -> None:
    whole = write_video(folder / "whole3.mp4", 40, gop=12)
    path = folder / "edited.mp4"
    with (
        av.open(str(whole)) as given_,
        av.open(str(path), "w", options={"avoid_negative_ts": "disabled"}) as taken,
    ):
        stream = given_.streams.video[0]
        copy = taken.add_stream_from_template(stream, opaque=True)
        for packet in given_.demux(stream):
            if packet.size:
                assert packet.pts is not None
                assert packet.dts is not None
                packet.pts, packet.dts = packet.pts - 5 * 512, packet.dts - 5 * 512
                packet.stream = copy
                taken.mux(packet)
    view = VideoView(path)
    assert numbers_of(view.read(range(view.info().n_frames))) == list(range(5, 40))


def test_frames_that_are_never_shown_are_not_counted(folder: Path) -> None:
    whole = write_video(folder / "whole.webm", 20, codec="vp8")
    path = folder / "hidden.webm"
    with av.open(str(whole)) as given_, av.open(str(path), "w") as taken:
        stream = given_.streams.video[0]
        copy = taken.add_stream_from_template(stream, opaque=True)
        for number, packet in enumerate(p for p in given_.demux(stream) if p.size):
            content = bytearray(bytes(packet))
            if number == 7:
                content[0] &= ~0x10  # VP8's show_frame
            changed = av.Packet(bytes(content))
            changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
            changed.is_keyframe, changed.stream = packet.is_keyframe, copy
            taken.mux(changed)
    view = VideoView(path)
    shown = [number for number in range(20) if number != 7]
    assert numbers_of(view.read(range(view.info().n_frames))) == shown
    assert len(decode_all(path)) == 19


def test_a_video_of_no_keyframes_has_no_frames(folder: Path) -> None:
    whole = write_video(folder / "whole2.mp4", 20, gop=12)
    path = copy_packets(whole, folder / "keyless.mkv", first=3, last=10)
    with pytest.raises(VideoError, match=r"keyless.mkv has no frames"):
        VideoView(path).info()


CUTS: dict[str, dict[str, Any]] = {
    "cut.mp4": {"container_options": {"movflags": "faststart"}, "b_frames": 2},
    "cut_av1.mp4": {"codec": "av1", "gop": 2, "container_options": {"movflags": "faststart"}},
    "cut.mkv": {"b_frames": 2},
    "cut.webm": {"codec": "vp9"},
    "cut.avi": {"codec": "mpeg4"},
    "cut.gif": {"codec": "gif", "fps": 10},
}


@pytest.mark.parametrize("name", CUTS)
def test_of_a_file_that_is_cut_off_the_whole_frames_are_used(folder: Path, name: str) -> None:
    whole = write_video(folder / f"whole_{name}", 60, **CUTS[name])
    view = VideoView(cut(whole, folder / name, 0.6))
    n = view.info().n_frames
    assert 5 < n < 60
    found = numbers_of(view.read(range(n)))
    assert found == sorted(found)
    assert found[0] == 0
    np.testing.assert_allclose(view.timestamps() * VideoView(whole).info().fps, found, atol=0.02)
    oracle = decode_all(whole)
    for frame, number in zip(view.read(range(n)), found, strict=True):
        np.testing.assert_array_equal(frame, oracle[number])


def test_a_frame_that_cannot_be_decoded_is_an_error_and_not_another_frame(folder: Path) -> None:
    path = write_video(folder / "damaged.mp4", 40, gop=10, container_options={"movflags": "faststart"})
    with av.open(str(path)) as container:
        found = [(p.pos, p.size, p.is_keyframe) for p in container.demux(video=0) if p.size]
    content = bytearray(path.read_bytes())
    position, size, is_key = found[20]
    assert is_key
    assert position is not None
    content[position : position + size] = bytes(size)
    path.write_bytes(content)
    view = VideoView(path)
    assert numbers_of(view.read([3, 19, 35])) == [3, 19, 35]
    with pytest.raises(VideoError, match=r"damaged.mp4: frame 22 of 40 \(0.733 s\) cannot be decoded"):
        view.read([3, 22])


def test_files_that_are_no_videos_say_so(folder: Path) -> None:
    (folder / "text.mp4").write_text("hello", encoding="utf-8")
    (folder / "empty.mp4").write_bytes(b"")
    whole = write_video(folder / "plain.mp4", 20)
    cut(whole, folder / "no_header.mp4", 0.5)
    for name in ("text.mp4", "empty.mp4", "no_header.mp4"):
        with pytest.raises(VideoError, match=rf"{name} is not a video that can be read .*mp4, mov, webm"):
            VideoView(folder / name).info()
    with pytest.raises(VideoError, match=r"No video at .*absent.mp4"):
        VideoView(folder / "absent.mp4").read([0])
    with pytest.raises(VideoError, match=r"absent.mp4"):
        VideoView(folder / "absent.mp4").digest()


def test_a_video_without_frames_says_so(folder: Path) -> None:
    path = folder / "no_frames.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=30)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuv420p"
        container.start_encoding()
    with pytest.raises(VideoError, match=r"no_frames.mkv"):
        VideoView(path).info()


def test_a_file_with_sound_alone_has_no_video(folder: Path) -> None:
    path = folder / "sound.m4a"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=16000)
        samples = av.AudioFrame.from_ndarray(np.zeros((1, 4096), np.float32), format="fltp", layout="mono")
        samples.sample_rate = 16000
        container.mux(stream.encode(samples))
        container.mux(stream.encode(None))
    with pytest.raises(VideoError, match=r"sound.m4a has no video stream"):
        VideoView(path).info()


def test_wrong_indices_and_sizes_are_named(two_gops: Path) -> None:
    view = VideoView(two_gops)
    with pytest.raises(OptionError, match=r"frames 0..49; index 50"):
        view.read([50])
    with pytest.raises(OptionError, match=r"index -1"):
        view.read([-1])
    with pytest.raises(OptionError, match=r"size is 0"):
        view.read([0], size=0)


def test_a_span_is_a_video_of_its_own(two_gops: Path) -> None:
    view = VideoView(two_gops, FileSpan(start_s=0.5, n_frames=20, fps=30.0))
    assert view.info() == (20, 30.0, 96, 64, 20 / 30, 15)
    assert numbers_of(view.read([19, 0])) == [34, 15]
    np.testing.assert_array_equal(view.timestamps(), np.arange(20) / 30.0)
    assert view.location() == f"{two_gops} [0.50..1.17 s]"
    # Start times that others summed up from rounded durations still meet their frame.
    rounded = VideoView(two_gops, FileSpan(start_s=0.507, n_frames=20, fps=30.0))
    assert rounded.info().first_frame == 15


def test_spans_of_copied_episodes_with_b_frames_are_bit_identical_to_a_full_decode(folder: Path) -> None:
    episode = write_video(folder / "copied.mp4", 15, b_frames=3)
    shared = repeat(episode, folder / "copies.mp4", 3)
    oracle = decode_all(shared)
    for k in range(3):
        view = VideoView(shared, FileSpan(k * 0.5, 15, 30.0))
        assert view.info().first_frame == 15 * k
        for i in range(15):
            np.testing.assert_array_equal(view.read([i])[0], oracle[15 * k + i])


def test_a_span_beyond_the_file_says_how_much_is_there(two_gops: Path) -> None:
    view = VideoView(two_gops, FileSpan(start_s=1.0, n_frames=30, fps=30.0))
    with pytest.raises(VideoError, match=r"30 frames at 30 fps, but only 20 are in the file.* 1.633 s"):
        view.info()
    with pytest.raises(VideoError, match=r"only 25"):
        VideoView(two_gops, FileSpan(start_s=0.0, n_frames=50, fps=60.0)).info()
    with pytest.raises(VideoError, match=r"no frames"):
        VideoView(two_gops, FileSpan(start_s=0.0, n_frames=0, fps=30.0)).info()


def test_views_travel_to_other_processes_and_tell_spans_apart(two_gops: Path) -> None:
    whole = VideoView(two_gops)
    part = VideoView(two_gops, FileSpan(0.5, 20, 30.0))
    assert pickle.loads(pickle.dumps(part)) == part
    assert pickle.loads(pickle.dumps(whole)).digest() == whole.digest()
    assert part.digest() != whole.digest() != VideoView(two_gops, FileSpan(0.0, 20, 30.0)).digest()


def test_digests_do_not_depend_on_the_names_of_classes(two_gops: Path) -> None:
    """Caches hold answers under these bytes: a renamed class or field must not change them."""

    def expected(span: str) -> bytes:
        return hashlib.sha256(file_digest(two_gops) + span.encode()).digest()

    assert VideoView(two_gops).digest() == expected("None")
    part = VideoView(two_gops, FileSpan(0.5, 20, 30.0))
    assert part.digest() == expected("Span(start_s=0.5, n_frames=20, fps=30.0)")
    first = VideoView(two_gops, FileSpan(None, 20, 30.0))
    assert first.digest() == expected("Span(start_s=None, n_frames=20, fps=30.0)")


def test_real_rollouts_are_read_as_a_full_decode_reads_them(shared_data: Path) -> None:
    smallest = sorted((shared_data / "rollouts").rglob("episode.mp4"), key=lambda p: p.stat().st_size)[:4]
    assert len(smallest) == 4
    for path in smallest:
        oracle = decode_all(path)
        view = VideoView(path)
        assert view.info().n_frames == len(oracle)
        asked = np.round(np.linspace(0, len(oracle) - 1, 8)).astype(int)
        np.testing.assert_array_equal(view.read(asked.tolist()), np.stack([oracle[i] for i in asked]))


MEMORY = """
import sys
from pathlib import Path
import numpy as np
from stepscore.episodes.video.video_view import VideoView

def memory_mb(field):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(field))

before = memory_mb("VmRSS")
view = VideoView(Path(sys.argv[1]))
frames = view.read(np.round(np.linspace(0, view.info().n_frames - 1, 16)).astype(int).tolist())
assert frames.shape == (16, 480, 640, 3), frames.shape
print(view.info().n_frames, memory_mb("VmHWM") - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the memory of a process from /proc")
def test_memory_does_not_grow_with_the_video(folder: Path) -> None:
    images = (numbered(i, 640, 480) for i in range(250))
    second = write_video(folder / "250.mp4", 250, size=(640, 480), gop=250, frames=images)
    long = repeat(second, folder / "6000.mp4", 24)
    added_mb = {}
    for path in (second, long):
        command = [sys.executable, "-c", MEMORY, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        n, megabytes = done.stdout.split()
        added_mb[int(n)] = float(megabytes)
    assert added_mb.keys() == {250, 6000}
    assert added_mb[250] > 14  # the 16 frames themselves: the measure does measure
    assert added_mb[6000] < 200
    assert added_mb[6000] < added_mb[250] + 20
