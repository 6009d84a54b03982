"""How the frames of several cameras stand in a prompt."""

from __future__ import annotations

import pytest

from stepscore.episodes import sample_frames
from stepscore.errors import UnknownNameError
from stepscore.judges.common.framing import image_parts, tile_columns
from stepscore.judges.common.prompts import PromptTemplate, load_prompt
from stepscore.models import FrameRef, TiledFrames
from tests.fakes import FakeView, episode

TWO = {"top": FakeView(50, 10.0), "wrist": FakeView(150, 30.0)}


class TestLayouts:
    def shown(self, layout: str) -> list[object]:
        sampled = sample_frames(episode(views=TWO), count=2)
        return list(image_parts(sampled, layout, 64, labelled=False))  # type: ignore[arg-type]

    def test_separate_goes_view_by_view(self) -> None:
        assert [(s.view, s.index) for s in self.shown("separate")] == [  # type: ignore[attr-defined]
            ("top", 0),
            ("top", 49),
            ("wrist", 0),
            ("wrist", 147),
        ]

    def test_interleaved_goes_by_time(self) -> None:
        assert [s.view for s in self.shown("interleaved")] == ["top", "wrist"] * 2  # type: ignore[attr-defined]

    def test_tiled_makes_one_image_a_timestamp(self) -> None:
        images = self.shown("tiled")
        assert images[1] == TiledFrames((FrameRef("top", 49, 64), FrameRef("wrist", 147, 64)), 2)
        assert len(images) == 2

    def test_one_camera_looks_the_same_in_all(self) -> None:
        sampled = sample_frames(episode(), count=3)
        layouts = [image_parts(sampled, each, 64) for each in ("separate", "interleaved", "tiled")]
        assert layouts[0] == layouts[1] == layouts[2]

    def test_labels_tell_frame_time_and_camera(self) -> None:
        parts = image_parts(sample_frames(episode(views=TWO), count=2), "interleaved", 64)
        assert parts[9] == "Frame 2, 4.90 s, camera wrist: "
        tiled = image_parts(sample_frames(episode(views=TWO), count=2), "tiled", 64)
        assert tiled[0] == "Frame 1, 0.00 s, cameras top, wrist side by side: "

    def test_chosen_frames_may_repeat(self) -> None:
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

    def test_put_images_where_the_mark_is_and_never_where_an_instruction_says(self) -> None:
        prompt = PromptTemplate("x", "do {task}\n{{frames}}\nend")
        still = FrameRef("top", 0)
        parts = prompt.parts({"task": "{{frames}} {task}"}, {"frames": [still]})
        assert parts == ("do {{frames}} {task}\n", still, "\nend")

    def test_that_do_not_exist_are_named(self) -> None:
        with pytest.raises(UnknownNameError, match="stepeval_all"):
            load_prompt("stepeval_al")
