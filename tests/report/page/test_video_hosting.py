"""Videos are referred to, or copied once and made playable."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest

from stepscore.episodes import open_episodes
from stepscore.episodes.video.video_view import VideoView
from stepscore.errors import VideoError
from stepscore.judges import get_judge
from stepscore.report.page import columns
from stepscore.report.page.episodes import index_episodes
from stepscore.report.page.packing import unpack
from stepscore.report.page.video_hosting import (
    CopiedVideos,
    LinkedVideos,
    ServedVideos,
    VideoHost,
    probe,
    relative_url,
)
from stepscore.report.page.videos import video_tables
from stepscore.report.run_sources import RunSources
from stepscore.report.video import write_h264
from stepscore.runs import Run, score
from tests.media import numbered, numbers_of, write_video


def judged(folder: Path, out: Path) -> Run:
    return score(open_episodes(folder), get_judge("linear-time"), out)


def tables(run: Run, host: VideoHost | None) -> tuple[list[columns.MediaFile], columns.VideoTable]:
    return video_tables(index_episodes(run.episodes().to_pylist()), host, RunSources([run]))


@pytest.mark.parametrize("codec", ["h264", "av1", "vp9"])
def test_what_browsers_play_is_left_as_it_is(codec: str, tmp_path: Path) -> None:
    path = write_video(tmp_path / f"a.{'webm' if codec == 'vp9' else 'mp4'}", 8, codec=codec)
    found = probe(path)
    assert (found.codec, found.plays) == (codec, True)
    hosted = CopiedVideos(tmp_path / "out").add_file(path, found)
    assert (tmp_path / "out" / hosted.src).read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "codec", "pix_fmt"),
    [("a.mp4", "mpeg4", None), ("a.avi", "h264", None), ("a.mp4", "h264", "yuv444p"), ("a.gif", "gif", None)],
)
def test_what_they_do_not_play_becomes_h264_with_every_frame_at_its_time(
    name: str, codec: str, pix_fmt: str | None, tmp_path: Path
) -> None:
    path = write_video(tmp_path / name, 20, codec=codec, fps=10, pix_fmt=pix_fmt)
    found = probe(path)
    assert not found.plays
    hosted = CopiedVideos(tmp_path / "out").add_file(path, found)
    copy = VideoView(tmp_path / "out" / hosted.src)
    assert probe(copy.path).plays
    assert numbers_of(copy.read(range(20))) == numbers_of(VideoView(path).read(range(20)))
    np.testing.assert_allclose(copy.timestamps(), VideoView(path).timestamps(), atol=1e-4)


def test_uneven_frame_times_and_odd_sides_survive(tmp_path: Path) -> None:
    ticks = [0, 3, 4, 9, 20, 21]
    path = write_video(
        tmp_path / "a.mp4",
        6,
        codec="h264",
        ticks=ticks,
        time_base=Fraction(1, 30),
        size=(97, 65),
        pix_fmt="yuv444p",
    )
    hosted = CopiedVideos(tmp_path).add_file(path, probe(path))
    copy = VideoView(tmp_path / hosted.src)
    np.testing.assert_allclose(copy.timestamps(), np.array(ticks) / 30, atol=1e-4)
    assert numbers_of(copy.read(range(len(ticks)))) == list(range(len(ticks)))
    assert copy.info().duration_s == pytest.approx(VideoView(path).info().duration_s)
    assert [path.name for path in copy.path.parent.iterdir()] == [copy.path.name]


def test_times_off_the_frame_rate_are_listed_frame_by_frame(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "even.mp4", 6)
    ticks = [0, 3, 4, 9, 20, 21]
    write_video(tmp_path / "in" / "uneven.mp4", 6, ticks=ticks, time_base=Fraction(1, 30))
    _, videos = tables(judged(tmp_path / "in", tmp_path / "run"), LinkedVideos(tmp_path))
    assert list(videos["times"]) == ["1"]
    np.testing.assert_allclose(unpack(videos["times"]["1"]), np.array(ticks) / 30)


def test_a_file_of_many_episodes_is_one_file(tiny_run: Run, tmp_path: Path) -> None:
    files, videos = tables(tiny_run, CopiedVideos(tmp_path))
    assert [file["src"] for file in files] == ["videos/00001-file-000.mp4", "videos/00002-file-000.mp4"]
    assert len(list((tmp_path / "videos").iterdir())) == 2
    assert len(videos["episode"]) == 2 * tiny_run.episodes().num_rows
    rows = tiny_run.episodes().to_pylist()
    for row, episode in enumerate(videos["episode"]):
        expected = rows[episode]
        assert videos["file"][row] == row % 2
        assert videos["start_s"][row] == pytest.approx(expected["first_frame"] / expected["fps"], abs=1e-6)
        assert (videos["n_frames"][row], videos["fps"][row]) == (expected["n_frames"], expected["fps"])


def test_a_page_refers_to_videos_by_a_quoted_relative_path(tmp_path: Path) -> None:
    name = "50% off #1?.mp4"
    write_video(tmp_path / "in put" / name, 4)
    files, _ = tables(
        judged(tmp_path / "in put", tmp_path / "run"), LinkedVideos(tmp_path / "out" / "report")
    )
    assert files[0]["src"] == "../../in%20put/50%25%20off%20%231%3F.mp4"
    assert (tmp_path / "out" / "report" / unquote(files[0]["src"])).resolve().is_file()


def test_a_name_with_a_colon_is_not_a_scheme(tmp_path: Path) -> None:
    assert relative_url(tmp_path / "javascript:a.mp4", str(tmp_path)) == "javascript%3Aa.mp4"


def test_image_files_become_a_video_where_videos_are_copied(tmp_path: Path) -> None:
    from PIL import Image

    from tests.media import numbered

    folder = tmp_path / "in" / "episode"
    folder.mkdir(parents=True)
    for number in range(5):
        Image.fromarray(numbered(number)).save(folder / f"{number:03d}.png")
    run = judged(tmp_path / "in", tmp_path / "run")
    files, videos = tables(run, CopiedVideos(tmp_path / "out"))
    assert numbers_of(VideoView(tmp_path / "out" / files[0]["src"]).read(range(5))) == list(range(5))
    for host in (LinkedVideos(tmp_path / "out"), ServedVideos()):
        files, videos = tables(run, host)
        assert (files, videos["file"]) == ([], [-1])
        assert "--copy-videos" in videos["unavailable"]["0"]


def test_a_missing_video_is_reported(tmp_path: Path) -> None:
    write_video(tmp_path / "in" / "a.mp4", 4)
    run = judged(tmp_path / "in", tmp_path / "run")
    (tmp_path / "in").rename(tmp_path / "elsewhere")
    files, videos = tables(run, LinkedVideos(tmp_path))
    assert (files, videos["file"]) == ([], [-1])
    assert "cannot be opened" in videos["unavailable"]["0"]


def test_without_a_host_there_are_no_videos(tiny_run: Run) -> None:
    files, videos = tables(tiny_run, None)
    assert files == []
    assert videos["episode"] == []


def test_a_served_file_keeps_its_number() -> None:
    host = ServedVideos()
    found = probe_of("video/mp4")
    first = host.add_file(Path("a.mp4"), found).src
    assert [host.add_file(Path(name), found).src for name in ("b.mp4", "a.mp4")] == ["media/1", first]


def probe_of(kind: str) -> Any:
    from stepscore.report.page.video_hosting import Probe

    return Probe("h264", kind, 0.0, plays=True)


@pytest.mark.parametrize("hours", [10, 500])
def test_a_video_with_frames_hours_apart_is_copied_as_others_are(hours: int, tmp_path: Path) -> None:
    source = tmp_path / "in"
    write_video(source / "a.mp4", 6)
    ticks = [0, *(range(100, 500, 100) if hours > 10 else ()), hours * 3_600_000]
    path = write_video(source / "b.mkv", len(ticks), ticks=ticks, time_base=Fraction(1, 1000))
    files, videos = tables(judged(source, tmp_path / "run"), CopiedVideos(tmp_path / "out"))
    copy = VideoView(tmp_path / "out" / unquote(files[videos["file"][1]]["src"]))
    assert numbers_of(copy.read(range(len(ticks)))) == list(range(len(ticks)))
    assert copy.timestamps().tolist() == VideoView(path).timestamps().tolist()
    assert not videos["unavailable"]


def test_frames_further_apart_than_mp4_holds_are_an_error_and_no_file(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match=r"1000 hours apart; H\.264 in mp4 holds at most 596"):
        write_h264(
            tmp_path / "a.mp4",
            [numbered(0), numbered(1)],
            np.array([0.0, 3.6e6]),
            duration_s=3.7e6,
            fps=1e-5,
        )
    assert not list(tmp_path.iterdir())


def test_a_video_that_cannot_be_encoded_is_its_row_and_the_others_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "in"
    for name in ("a.mp4", "b.mkv", "c.mp4"):
        write_video(source / name, 6)
    run = judged(source, tmp_path / "run")
    monkeypatch.setattr("stepscore.report.video.h264.MAX_TICKS", 1)
    files, videos = tables(run, CopiedVideos(tmp_path / "out"))
    assert len(files) == 2
    assert list(videos["unavailable"]) == ["1"]
    assert "hours apart" in videos["unavailable"]["1"]
