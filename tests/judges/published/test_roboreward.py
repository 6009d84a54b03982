"""RoboReward is asked as published: a video at a frame a second, then the rubric; (level - 1) / 4."""

from __future__ import annotations

import math

import pytest

from stepscore.judges.published.profiles import VideoRule
from stepscore.judges.published.roboreward import RoboReward, video_indices
from stepscore.models import Generate
from stepscore.models.mock import MockModel
from tests.fakes import FakeView, episode
from tests.judges.published.asking import ask_judge, asked, shown

MODEL = MockModel("RoboReward-4B")
RULE = VideoRule(fps=1, least=4, most=768, multiple=2)


@pytest.mark.parametrize(
    ("last", "fps", "expected"),
    [
        (99, 10.0, (0, 11, 22, 33, 44, 55, 66, 77, 88, 99)),  # 10 s: ten frames
        (119, 10.0, tuple(round(i * 119 / 11) for i in range(12))),
        (109, 10.0, tuple(round(i * 109 / 9) for i in range(10))),  # 11 s: an even number
        (9, 10.0, (0, 3, 6, 9)),  # 1 s: at least four
        (2, 10.0, (0, 2)),  # three frames: two of them
        (0, 10.0, (0, 0)),  # one frame, twice
    ],
)
def test_the_frames_of_a_video_are_counted_as_published(
    last: int, fps: float, expected: tuple[int, ...]
) -> None:
    assert video_indices(last, fps, RULE) == expected


def test_every_question_is_one_video_and_then_the_words() -> None:
    one = episode(views={"top": FakeView(101, 10.0)})
    requests = asked(RoboReward(MODEL, points=2, prompt="own"), one)
    assert [shown(request) for request in requests] == [
        [f"top {'-'.join(map(str, video_indices(50, 10.0, RULE)))}"],
        [f"top {'-'.join(map(str, video_indices(100, 10.0, RULE)))}"],
    ]
    (request, *_) = requests
    assert (request.temperature, request.top_k) == (0.0, None)
    (turn,) = request.prompt.turns
    assert not isinstance(turn.parts[0], str)
    assert isinstance(turn.parts[1], str)


def test_levels_become_quarters() -> None:
    def said(request: Generate) -> str:
        last = int(shown(request)[0].rpartition("-")[2])
        return {10: "ANSWER: 1", 20: "answer: 3", 30: "I would say 4", 40: "ANSWER: 5"}[last]

    one = episode(views={"top": FakeView(41, 10.0)})
    judged, _ = ask_judge(RoboReward(MODEL, points=4, prompt="own"), one, said)
    assert judged.curve is not None
    assert judged.curve.progress == pytest.approx([0.0, 0.5, math.nan, 1.0], nan_ok=True)
    assert judged.curve.channels["level"] == pytest.approx([1, 3, math.nan, 5], nan_ok=True)
    assert (judged.success_score, judged.facts["unread"]) == (1.0, 1.0)


def test_the_whole_video_alone() -> None:
    one = episode(views={"top": FakeView(41, 10.0)})
    judged, requests = ask_judge(RoboReward(MODEL, points=1, prompt="own"), one, lambda request: "ANSWER: 4")
    assert len(requests) == 1
    assert judged.curve is not None
    assert list(judged.curve.progress) == [0.75]
    assert judged.success_score == 0.0
