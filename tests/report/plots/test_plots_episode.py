"""Trace, contact sheet and overlay video show the right frames at the right times."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

import stepscore
from stepscore.analysis import measure_episodes
from stepscore.episodes import Episode
from stepscore.errors import EpisodeError, UnknownNameError
from stepscore.judges.base import Ask
from stepscore.models import Model
from stepscore.report import plot
from stepscore.report.episode_data import EpisodeData, episode_data, source_episode
from stepscore.report.plots.contact_sheet import draw_sheet, sheet_frames
from stepscore.report.plots.style import RED, group_style, paper_style
from stepscore.report.plots.trace import draw_trace
from stepscore.report.video import h264
from stepscore.report.video import overlay as overlay_video
from stepscore.report.video.h264 import stream_frames, write_h264
from stepscore.report.video.overlay import draw_panel, overlay_frames, panel_at, value_at
from stepscore.runs import Run
from stepscore.types import Curve, Frames, Judgement, Verdict
from tests.fakes import FakeView
from tests.media import number_of, numbers_of, write_video

N, FPS = 40, 10
TIMES = np.array([0.5, 1.5, 2.5, 3.5])
PROGRESS = np.array([0.1, 0.6, np.nan, 0.9])


@dataclass
class FixedJudge:
    """Gives every episode the same judgement."""

    name: str = "fixed"
    version: int = 1
    models: tuple[Model, ...] = ()

    def options(self) -> dict[str, object]:
        return {}

    async def judge(self, episode: Episode, ask: Ask) -> Judgement:
        verdicts = (
            Verdict("reach", "yes", when_s=1.5),
            Verdict("grasp", "yes"),
            Verdict("lift", "no"),
            Verdict("place", "unknown"),
        )
        return Judgement(Curve(TIMES, PROGRESS), verdicts, success_score=0.2)


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One video of numbered frames, with stages and subgoals."""
    folder = tmp_path_factory.mktemp("rollouts")
    write_video(folder / "a" / "b.mp4", N, fps=FPS)
    line = {
        "id": "a/b",
        "video": "a/b.mp4",
        "instruction": "put the $cup$ down",
        "policy": "pi",
        "success": True,
        "subgoals": ["reach", "grasp", "lift", "place"],
        "stages": [
            {"name": "go", "start_second": 0.0, "end_second": 2.0},
            {"name": "come", "start_second": 2.0, "end_second": 4.0},
        ],
    }
    (folder / "manifest.jsonl").write_text(json.dumps(line) + "\n")
    return folder


@pytest.fixture(scope="module")
def run(rollouts: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return stepscore.score(
        stepscore.open_episodes(rollouts), FixedJudge(), tmp_path_factory.mktemp("r") / "fixed"
    )


@pytest.fixture(scope="module")
def episode(run: Run) -> EpisodeData:
    return episode_data([run], measure_episodes(run), "a/b")


class TestTrace:
    @pytest.fixture(scope="class")
    @classmethod
    def figure(cls, episode: EpisodeData) -> Any:
        with paper_style():
            return draw_trace(episode, sheet_frames(episode, source_episode(episode)))

    @staticmethod
    def curve(figure: Any) -> Any:
        return next(axes for axes in figure.axes if axes.get_ylabel().startswith("progress"))

    def test_each_frame_is_above_its_timestamp(self, figure: Any) -> None:
        figure.canvas.draw()
        frames = [axes for axes in figure.axes if axes.images]
        shown = [number_of(np.asarray(axes.images[0].get_array())) for axes in frames]
        middles = (np.arange(len(frames)) + 0.5) / len(frames) * N / FPS
        assert shown == [int(t * FPS) for t in middles]
        centres = [axes.get_window_extent().x0 + axes.get_window_extent().width / 2 for axes in frames]
        at = self.curve(figure).transData.transform([(t, 0) for t in middles])[:, 0]
        np.testing.assert_allclose(centres, at, atol=0.5)

    def test_the_curves_are_the_judges_and_the_labelled_one(self, figure: Any, episode: EpisodeData) -> None:
        lines = {line.get_label(): line for line in self.curve(figure).lines}
        np.testing.assert_array_equal(lines["fixed"].get_xdata(), TIMES)
        np.testing.assert_array_equal(lines["fixed"].get_ydata(), 100 * PROGRESS)
        truth = lines["progress by labelled stages"]
        times = np.asarray(truth.get_xdata())
        np.testing.assert_array_equal(truth.get_ydata(), 100 * episode.row["truth"].at(times))
        assert np.nanmax(truth.get_ydata()) == pytest.approx(100, abs=1)

    def test_the_stages_stand_behind_the_curve_with_their_names(self, figure: Any) -> None:
        spans = [
            patch.get_extents().transformed(self.curve(figure).transData.inverted())
            for patch in self.curve(figure).patches
        ]
        assert [(round(span.x0, 6), round(span.x1, 6)) for span in spans] == [(0, 2), (2, 4)]
        texts = [text.get_text() for axes in figure.axes for text in axes.texts]
        assert [text for text in texts if text in ("go", "come")] == ["go", "come"]

    def test_a_success_has_no_mark_and_a_failure_says_where_it_goes_wrong(
        self, figure: Any, episode: EpisodeData
    ) -> None:
        assert not self.curve(figure).texts
        failed = replace(
            episode,
            success=0.0,
            judgements=(episode.judgements[0]._replace(progress=np.array([0.1, 0.8, np.nan, 0.3])),),
        )
        with paper_style():
            drawn = draw_trace(failed, sheet_frames(failed, source_episode(failed)), 7.0)
        axes = self.curve(drawn)
        assert [text.get_text() for text in axes.texts] == ["undone at 3.5 s"]
        assert 3.5 in [
            float(np.atleast_1d(line.get_xdata())[0]) for line in axes.lines if line.get_color() == RED
        ]

    def test_the_command_writes_it(self, run: Run, tmp_path: Path) -> None:
        drawn = plot([run], tmp_path, kinds=["trace"], formats=["svg"], episode="a/b")
        assert [path.name for path in drawn.paths] == ["trace_a_b.svg"]


class TestSheet:
    def test_each_frame_is_above_its_timestamp(self, episode: EpisodeData) -> None:
        clip = sheet_frames(episode, source_episode(episode))
        middles = (np.arange(len(clip)) + 0.5) / len(clip) * N / FPS
        assert numbers_of(clip.frames) == [int(t * FPS) for t in middles]
        with paper_style():
            figure = draw_sheet(episode, clip)
            figure.canvas.draw()
        frames = [axes for axes in figure.axes if axes.images]
        curve = next(axes for axes in figure.axes if axes.get_ylabel().startswith("progress"))
        assert [number_of(np.asarray(axes.images[0].get_array())) for axes in frames] == clip.indices.tolist()
        centres = [axes.get_window_extent().x0 + axes.get_window_extent().width / 2 for axes in frames]
        np.testing.assert_allclose(
            centres, curve.transData.transform([(t, 0) for t in middles])[:, 0], atol=0.5
        )

    def test_the_curve_is_the_judges_with_its_gap(self, episode: EpisodeData) -> None:
        with paper_style():
            figure = draw_sheet(episode, sheet_frames(episode, source_episode(episode)))
        curve = next(axes for axes in figure.axes if axes.get_ylabel().startswith("progress"))
        np.testing.assert_array_equal(curve.lines[0].get_xdata(), TIMES)
        np.testing.assert_array_equal(curve.lines[0].get_ydata(), 100 * PROGRESS)
        assert curve.get_xlim() == (0, N / FPS)

    def test_lanes_begin_when_the_judge_says_and_the_marks_are_its_answers(
        self, episode: EpisodeData
    ) -> None:
        with paper_style():
            figure = draw_sheet(episode, sheet_frames(episode, source_episode(episode)))
        words = [text.get_text() for text in figure.texts]
        assert [words.count(mark) for mark in "✓✗?"] == [2, 1, 1]
        assert "1 go · 2 come" in words
        assert "put the $cup$ down" in words
        assert "a/b: pi, success by label, failure by judge (fixed)" in words
        bars = [
            line for axes in figure.axes for line in axes.lines if line.get_color() == group_style(0).colour
        ]
        assert [np.asarray(line.get_xdata())[0] for line in bars[1:]] == [1.5, 0]

    def test_two_judges_have_a_line_each(self, run: Run, rollouts: Path, tmp_path: Path) -> None:
        clock = stepscore.score(
            stepscore.open_episodes(rollouts), stepscore.get_judge("linear-time"), tmp_path / "clock"
        )
        both = episode_data([run, clock], measure_episodes([run, clock]), "a/b")
        assert [judgement.judge for judgement in both.judgements] == ["fixed", "linear-time"]
        with paper_style():
            figure = draw_sheet(both, sheet_frames(both, source_episode(both)))
        assert {"fixed", "linear-time"} <= {text.get_text() for text in figure.texts}


class TestOverlay:
    def test_it_has_the_episodes_frames_at_the_episodes_times(self, run: Run, tmp_path: Path) -> None:
        (path,) = plot([run], tmp_path, kinds=["overlay"], episode="a/b").paths
        assert path.name == "overlay_a_b.mp4"
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            assert (stream.codec_context.name, stream.codec_context.pix_fmt) == ("h264", "yuv420p")
            assert container.duration == pytest.approx(1e6 * N / FPS)
            decoded = [
                (float(f.time), np.asarray(f.to_ndarray(format="rgb24"), np.uint8))
                for f in container.decode(stream)
            ]
        assert [time for time, _ in decoded] == pytest.approx(np.arange(N) / FPS)
        # The frames are 3:2, so 640 wide is 427 high; what comes below is the drawing.
        assert numbers_of(frame[:427] for _, frame in decoded) == list(range(N))

    def test_it_gives_the_same_bytes_again(self, run: Run, tmp_path: Path) -> None:
        one, two = (
            plot([run], tmp_path / name, kinds=["overlay"], episode="a/b").paths[0].read_bytes()
            for name in "ab"
        )
        assert one == two

    def test_the_drawing_shows_what_has_happened_and_nothing_after(self, episode: EpisodeData) -> None:
        panel = draw_panel(episode)
        assert np.any(panel.before != panel.after)
        for time in (0.0, 1.3, 3.9):
            x = round(panel.start_x + time * panel.second_x)
            shown = panel_at(panel, time, done=False)
            np.testing.assert_array_equal(shown[:, x + 1 :], panel.before[:, x + 1 :])
            np.testing.assert_array_equal(shown[:, : x - 1], panel.after[:, : x - 1])
        done = panel_at(panel, 3.9, done=True)
        np.testing.assert_array_equal(done[:, x + 1 :], panel.after[:, x + 1 :])

    def test_the_value_is_that_of_the_drawn_line(self) -> None:
        values = [value_at(TIMES, PROGRESS, t) for t in (0.4, 0.5, 1.5, 2.4, 2.5, 3.9)]
        np.testing.assert_array_equal(values[:2], [np.nan, 0.1])
        np.testing.assert_array_equal(values[3:], [np.nan, np.nan, 0.9])
        times, falling = np.array([1.0, 2.0]), np.array([0.88, 0.04])
        assert value_at(times, falling, 1.5) == pytest.approx(0.46)

    def test_no_text_is_under_the_cursor(self, episode: EpisodeData) -> None:
        panel = draw_panel(episode)
        top, bottom = panel.rows
        assert 0 < top < bottom < len(panel.after)
        before, after = (panel_at(panel, t, done=True) for t in (1.0, 2.0))
        changed = np.flatnonzero(np.any(before != after, axis=(1, 2)))
        assert top <= changed.min()
        assert changed.max() < bottom

    def test_the_drawing_is_made_twice_however_many_frames_there_are(
        self, episode: EpisodeData, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drawn: list[Frames] = []
        render = overlay_video.render

        def counted(canvas: Any) -> Frames:
            drawn.append(render(canvas))
            return drawn[-1]

        monkeypatch.setattr(overlay_video, "render", counted)
        for n in (2, 30):
            assert len(list(overlay_frames(episode, FakeView(n=n)))) == n
        assert len(drawn) == 4

    def test_memory_does_not_grow_with_the_video(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[int] = []

        class Counting(FakeView):
            def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
                asked.append(len(indices))
                return super().read(indices, size)

        monkeypatch.setattr(h264, "MAX_DECODED_BYTES", 10 * 8 * 6 * 3)
        frames = [int(frame[0, 0, 0]) for frame in stream_frames(Counting(n=95), 8)]
        assert frames == list(range(95))
        assert max(asked) == 10

    def test_uneven_times_are_kept(self, tmp_path: Path) -> None:
        times = np.array([0.0, 0.1, 0.5, 0.55])
        frames = [np.full((16, 16, 3), 60 * k, np.uint8) for k in range(4)]
        path = write_h264(tmp_path / "v.mp4", frames, times, duration_s=1.0, fps=10.0)
        with av.open(str(path)) as container:
            assert container.duration == pytest.approx(1e6)
            assert [float(f.time) for f in container.decode(video=0)] == pytest.approx(times.tolist())


class TestSource:
    def test_a_video_that_changed_since_is_refused(self, tmp_path: Path) -> None:
        write_video(tmp_path / "v" / "x.mp4", 10)
        run = stepscore.score(stepscore.open_episodes(tmp_path / "v"), FixedJudge(), tmp_path / "r")
        write_video(tmp_path / "v" / "x.mp4", 12)
        with pytest.raises(EpisodeError, match="changed since it was judged"):
            plot([run], tmp_path, kinds=["sheet"], episode="x")

    def test_a_wrong_camera_lists_the_valid_ones(self, run: Run, tmp_path: Path) -> None:
        with pytest.raises(UnknownNameError, match="Unknown view 'wrist'"):
            plot([run], tmp_path, kinds=["sheet"], episode="a/b", view="wrist")

    def test_an_episode_without_video_says_so(self, tmp_path: Path) -> None:
        (tmp_path / "c.csv").write_text("episode_id,time_s,progress\ne,0.5,0.2\ne,1.0,0.4\n")
        run = stepscore.score(
            stepscore.open_episodes(tmp_path / "c.csv"), stepscore.get_judge("recorded"), tmp_path / "r"
        )
        with pytest.raises(EpisodeError, match="no video"):
            plot([run], tmp_path, kinds=["sheet"], episode="e")
