"""Judges show frames of the same second from every camera, and always the last one."""

from __future__ import annotations

import numpy as np
import pytest

from stepscore.episodes import sample_frames
from stepscore.errors import EpisodeError, OptionError, UnknownNameError
from stepscore.judges.common.framing import image_parts, tile_columns
from stepscore.judges.common.prompts import PromptTemplate, load_prompt
from stepscore.models import FrameRef, TiledFrames
from tests.fakes import FakeView, episode

TWO = {"top": FakeView(50, 10.0), "wrist": FakeView(150, 30.0)}


class TestMoments:
    def test_are_spread_evenly_from_the_first_frame_to_the_last(self) -> None:
        moments = sample_frames(episode(), count=5)
        assert moments.indices["top"].tolist() == [0, 12, 24, 37, 49]
        assert moments.times.tolist() == pytest.approx([0.0, 1.2, 2.4, 3.7, 4.9])

    def test_by_rate_end_with_the_last_frame(self) -> None:
        assert sample_frames(episode(), fps=1.0).times.tolist() == pytest.approx([0, 1, 2, 3, 4, 4.9])

    def test_by_rate_are_thinned_evenly_to_the_cap(self) -> None:
        capped = sample_frames(episode(), fps=10.0, most=4)
        assert capped.indices["top"].tolist() == sample_frames(episode(), count=4).indices["top"].tolist()

    def test_a_single_one_is_the_last(self) -> None:
        assert sample_frames(episode(), count=1).indices["top"].tolist() == [49]

    def test_are_all_frames_of_a_short_episode(self) -> None:
        assert len(sample_frames(episode(views={"top": FakeView(3)}), count=16)) == 3

    def test_show_the_same_second_in_every_camera(self) -> None:
        moments = sample_frames(episode(views=TWO), count=7)
        at = {view: TWO[view].timestamps()[moments.indices[view]] for view in TWO}
        assert np.all(np.abs(at["top"] - at["wrist"]) < 1 / 30 + 1e-9)
        assert np.all(at["wrist"] <= at["top"] + 1e-9)

    def test_of_a_camera_that_ended_early_are_refused(self) -> None:
        with pytest.raises(EpisodeError, match=r"'wrist' ends at 0.90 s.*--views top"):
            sample_frames(episode(views={"top": FakeView(50), "wrist": FakeView(10)}), count=4)

    def test_need_a_video_and_a_sane_number(self) -> None:
        with pytest.raises(EpisodeError, match="no video"):
            sample_frames(episode(views={}), count=4)
        with pytest.raises(OptionError):
            sample_frames(episode(), count=0)


class TestLayouts:
    def shown(self, layout: str) -> list[object]:
        moments = sample_frames(episode(views=TWO), count=2)
        return list(image_parts(moments, layout, 64, labelled=False))  # type: ignore[arg-type]

    def test_separate_goes_view_by_view(self) -> None:
        assert [(s.view, s.index) for s in self.shown("separate")] == [  # type: ignore[attr-defined]
            ("top", 0),
            ("top", 49),
            ("wrist", 0),
            ("wrist", 147),
        ]

    def test_interleaved_goes_moment_by_moment(self) -> None:
        assert [s.view for s in self.shown("interleaved")] == ["top", "wrist"] * 2  # type: ignore[attr-defined]

    def test_tiled_makes_one_picture_a_moment(self) -> None:
        pictures = self.shown("tiled")
        assert pictures[1] == TiledFrames((FrameRef("top", 49, 64), FrameRef("wrist", 147, 64)), 2)
        assert len(pictures) == 2

    def test_one_camera_looks_the_same_in_all(self) -> None:
        moments = sample_frames(episode(), count=3)
        layouts = [image_parts(moments, each, 64) for each in ("separate", "interleaved", "tiled")]  # type: ignore[arg-type]
        assert layouts[0] == layouts[1] == layouts[2]

    def test_labels_tell_frame_time_and_camera(self) -> None:
        parts = image_parts(sample_frames(episode(views=TWO), count=2), "interleaved", 64)
        assert parts[9] == "Frame 2, 4.90 s, camera wrist: "
        tiled = image_parts(sample_frames(episode(views=TWO), count=2), "tiled", 64)
        assert tiled[0] == "Frame 1, 0.00 s, cameras top, wrist side by side: "

    def test_chosen_moments_may_repeat(self) -> None:
        parts = image_parts(
            sample_frames(episode(), count=3), "separate", None, chosen=[0, 0, 2], labelled=False
        )
        assert [p.index for p in parts] == [0, 0, 49]  # type: ignore[union-attr]

    def test_an_unknown_layout_lists_the_valid_ones(self) -> None:
        with pytest.raises(UnknownNameError, match="interleaved, separate, tiled"):
            image_parts(sample_frames(episode(), count=3), "grid", None)  # type: ignore[arg-type]

    def test_tiles_are_a_row_up_to_three_and_then_nearly_square(self) -> None:
        assert [tile_columns(n) for n in (1, 2, 3, 4, 5, 9)] == [1, 2, 3, 2, 3, 3]


class TestPrompts:
    def test_keep_conditional_lines_only_when_asked(self) -> None:
        prompt = PromptTemplate("x", "a\n?why: b\nc")
        assert prompt.parts({}, {}) == ("a\nc",)
        assert prompt.parts({}, {}, when=["why"]) == ("a\nb\nc",)

    def test_put_pictures_where_the_mark_is_and_never_where_an_instruction_says(self) -> None:
        prompt = PromptTemplate("x", "do {task}\n{{frames}}\nend")
        still = FrameRef("top", 0)
        parts = prompt.parts({"task": "{{frames}} {task}"}, {"frames": [still]})
        assert parts == ("do {{frames}} {task}\n", still, "\nend")

    def test_that_do_not_exist_are_named(self) -> None:
        with pytest.raises(UnknownNameError, match="stepeval_all"):
            load_prompt("stepeval_al")
