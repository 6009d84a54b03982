"""SOLE-R1 is asked as published: a composite image a step, and its answer in the next question."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from stepscore.episodes import Episode, square_image, tile_images
from stepscore.errors import EpisodeError
from stepscore.judges.published.sole_r1 import SoleR1
from stepscore.models import Generate, TiledFrames, media_decoder
from stepscore.models.mock import MockModel
from tests.judges.asked import text_of
from tests.judges.published.asking import ask_judge, asked, shown, subject

MODEL = MockModel("SOLE-R1-8B")


def test_first_previous_and_current_stand_side_by_side_the_external_row_over_the_wrist_row() -> None:
    said = "<think>x</think><answer>10%</answer>"
    requests = asked(SoleR1(MODEL, points=2, prompt="own"), subject(views=2), lambda request: said)
    assert [shown(request) for request in requests] == [
        ["[top 0|top 0|top 2|left 0|left 0|left 2]"],
        ["[top 0|top 2|top 4|left 0|left 2|left 4]"],
    ]
    (request, *_) = requests
    (composite,) = request.refs()
    assert isinstance(composite, TiledFrames)
    assert (composite.columns, composite.cell, composite.gap, composite.stretch) == (3, 384, 5, False)
    assert (request.temperature, request.top_p, request.top_k, request.max_tokens) == (1.0, 0.9, 50, 200)
    assert [turn.role for turn in request.prompt.turns] == ["system", "user"]


def test_the_composite_is_drawn_as_published() -> None:
    one = subject(views=2)
    (request, *_) = asked(SoleR1(MODEL, points=1, prompt="own"), one)
    (composite,) = request.refs()
    image = media_decoder(one)(composite).clip.frames[0]
    assert image.shape == (2 * 384 + 5, 3 * 384 + 2 * 5, 3)
    assert not image[384:389].any()
    assert not image[:, 384:389].any()
    # A frame of 8 x 6 is 384 x 288 in its cell, black above and below; the current one has the value 4.
    assert (image[48 : 48 + 288, 778:] == 4).all()
    assert not image[:48].any()


@pytest.mark.parametrize(("single", "word"), [("external", "external camera"), ("wrist", "wrist")])
def test_one_camera_is_one_row(single: str, word: str) -> None:
    (request,) = asked(SoleR1(MODEL, points=1, prompt="own", single=single), subject())  # type: ignore[arg-type]
    assert shown(request) == ["[top 0|top 0|top 4]"]
    assert word in text_of(request)


def test_its_answer_goes_into_the_next_question_and_an_unknown_one_never_does() -> None:
    said = {
        1: "<answer>20%</answer>",
        2: "<answer>soon</answer>",
        3: "<answer>-5</answer>",
        4: "<answer>100%</answer>",
    }

    def answer(request: Generate) -> str:
        return said[int(re.findall(r"top (\d+)\]", shown(request)[0])[0])]

    judged, requests = ask_judge(SoleR1(MODEL, points=4, prompt="own"), subject(), answer)
    quoted = [re.findall(r"first frame and (\S+)% at the previous", text_of(request)) for request in requests]
    assert quoted == [["0"], ["20"], ["20"], ["-5"]]
    # After the unreadable answer the last known frame is shown as the previous one.
    assert [shown(request)[0] for request in requests] == [
        "[top 0|top 0|top 1]",
        "[top 0|top 1|top 2]",
        "[top 0|top 1|top 3]",
        "[top 0|top 3|top 4]",
    ]
    assert judged.curve is not None
    assert judged.curve.progress == pytest.approx([0.2, math.nan, math.nan, 1.0], nan_ok=True)
    assert judged.curve.channels["raw"] == pytest.approx([0.2, math.nan, -0.05, 1.0], nan_ok=True)
    assert (judged.success_score, judged.facts["unread"]) == (1.0, 1.0)


def test_three_cameras_are_too_many() -> None:
    def judge(one: Episode) -> None:
        asked(SoleR1(MODEL, prompt="own"), one)

    with pytest.raises(EpisodeError, match="--views top,left"):
        judge(subject(views=3))


def test_an_image_is_fitted_into_a_square_or_stretched() -> None:
    image = np.full((2, 4, 3), 9, np.uint8)
    fitted = square_image(image, 8)
    assert (fitted[2:6] == 9).all()
    assert not fitted[:2].any()
    assert not fitted[6:].any()
    assert (square_image(image, 8, stretch=True) == 9).all()
    sheet = tile_images([image] * 3, 2, gap=1)
    assert sheet.shape == (5, 9, 3)
    assert not sheet[2].any()
    assert not sheet[:, 4].any()
