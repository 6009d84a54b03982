"""A clip for a slide: which part it shows, its formats and its size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from stepscore.errors import OptionError, UnknownNameError, VideoError
from stepscore.report import plot
from stepscore.report.episode_data import EpisodeData
from stepscore.report.video import gif
from stepscore.report.video.clip import draw_clip_panel
from stepscore.report.video.gif import write_gif
from stepscore.report.video.spans import clip_span
from stepscore.runs import Run
from tests.report.plots.test_plots_episode import FPS, episode, rollouts, run  # noqa: F401


def curved(one: EpisodeData, values: list[float]) -> EpisodeData:
    """Give the episode's first judgement this curve, evenly over the episode."""
    times = np.linspace(0.0, one.duration_s, len(values))
    first = one.judgements[0]._replace(times=times, progress=np.array(values))
    return replace(one, judgements=(first,))


def test_a_drop_is_shown_from_the_best_before_it_with_a_margin(episode: EpisodeData) -> None:  # noqa: F811
    long = replace(curved(episode, [0.0] * 11), duration_s=20.0)
    falling = curved(long, [0.0, 0.2, 0.4, 0.6, 0.8, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3])
    assert clip_span(falling, "drop") == (7.0, 11.0)
    with pytest.raises(OptionError, match="never falls 10 points"):
        clip_span(curved(long, [0.0, 0.5, 1.0]), "drop")


def test_a_stall_is_shown_from_its_start_to_its_end(episode: EpisodeData) -> None:  # noqa: F811
    long = replace(episode, duration_s=20.0)
    assert clip_span(curved(long, [0.0, 0.2, 0.2, 0.2, 0.2, 0.6, 0.8, 1.0, 1.0, 1.0, 1.0]), "stall") == (
        1.0,
        9.0,
    )


@pytest.mark.parametrize("around", ["3-1", "2-2", "1-999", "soon", "1:2", "-1-2"])
def test_a_part_outside_of_the_episode_is_refused(episode: EpisodeData, around: str) -> None:  # noqa: F811
    with pytest.raises(OptionError, match="START"):
        clip_span(episode, around)


def test_without_a_part_it_is_the_whole_episode(episode: EpisodeData) -> None:  # noqa: F811
    assert clip_span(episode, None) == (0.0, episode.duration_s)
    assert clip_span(episode, "0.5-1.5") == (0.5, 1.5)


def test_the_clip_is_landscape_and_has_the_frames_of_its_part(run: Run, tmp_path: Path) -> None:  # noqa: F811
    paths = plot([run], tmp_path, kinds=["clip"], episode="a/b", around="1-2", formats=["mp4", "gif"]).paths
    assert [path.name for path in paths] == ["clip_a_b.mp4", "clip_a_b.gif"]
    with av.open(str(paths[0])) as container:
        stream = container.streams.video[0]
        assert (stream.width, stream.height) == (1280, 720)
        assert [float(f.time) for f in container.decode(stream)] == pytest.approx(np.arange(FPS + 1) / FPS)
    with Image.open(paths[1]) as image:
        assert image.size == (800, 450)
        assert getattr(image, "n_frames", 1) > 1
    assert paths[1].stat().st_size < 5_000_000


def test_a_clip_without_a_format_of_its_own_is_mp4(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (path,) = plot([run], tmp_path, kinds=["clip"], episode="a/b", around="0-1").paths
    assert path.suffix == ".mp4"


def test_formats_and_parts_that_change_nothing_are_refused(run: Run, tmp_path: Path) -> None:  # noqa: F811
    with pytest.raises(OptionError, match="trace is drawn as svg or png, not gif"):
        plot([run], tmp_path, kinds=["trace", "clip"], episode="a/b", formats=["gif"])
    with pytest.raises(OptionError, match="Add --kind clip"):
        plot([run], tmp_path, kinds=["trace"], episode="a/b", around="drop")
    with pytest.raises(UnknownNameError, match="webm"):
        plot([run], tmp_path, kinds=["clip"], episode="a/b", formats=["webm"])


def test_policy_task_and_verdict_are_in_the_frame_and_not_under_the_cursor(episode: EpisodeData) -> None:  # noqa: F811
    panel = draw_clip_panel(episode, (0.0, 2.0), "object lost")
    top, bottom = panel.rows
    written = np.flatnonzero((panel.after[:top] < 128).any(axis=(1, 2)))
    assert len(written) > 40
    assert panel.readout[0] < top < bottom <= len(panel.after)


def test_a_gif_that_is_too_large_becomes_smaller_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gif, "WIDTHS", (48, 24))
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 255, (6, 36, 64, 3)).astype(np.uint8)
    times = np.arange(6) / 10.0
    path = write_gif(tmp_path / "a.gif", lambda at: (noise[i] for i in at), np.arange(6), times, most=8_000)
    assert path.stat().st_size < 8_000
    with pytest.raises(VideoError, match="at the smallest size"):
        write_gif(tmp_path / "b.gif", lambda at: (noise[i] for i in at), np.arange(6), times, most=1_000)
    assert not (tmp_path / "b.gif").exists()
