from __future__ import annotations

import re

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.models import (
    DecodedMedia,
    FrameRef,
    Generate,
    GoalImage,
    Prompt,
    Score,
    ScorePrefixes,
    TiledFrames,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.api.prefix_requests import single_requests
from stepscore.models.calls.call import Call
from stepscore.models.calls.prices import LISTED, MOST_TOKENS_PER_IMAGE, TABLE, Price, most_tokens, price_of

VIDEO = VideoFrames("top", (0, 3, 6, 9))


def user(*parts: object) -> Prompt:
    return Prompt((Turn("user", parts),))  # type: ignore[arg-type]


def test_the_users_price_comes_first() -> None:
    assert price_of("openai-api/gpt-4o", 1.0, 2.0) == Price(1.0, 2.0, "given by the user")
    assert price_of("vllm/anything", 0.0, 0.0) == Price(0.0, 0.0, "given by the user")


def test_the_table_says_its_date() -> None:
    price = price_of("openai-api/gpt-4o")
    assert price is not None
    assert (price.tokens_in, price.tokens_out) == TABLE["gpt-4o"]
    assert LISTED in price.source
    assert re.fullmatch(r"\d{4}-\d{2}", LISTED)


def test_a_price_that_nobody_knows_is_unknown() -> None:
    assert price_of("vllm/Qwen/Qwen3-VL-8B-Instruct") is None


def test_a_price_is_per_million_tokens() -> None:
    assert Price(2.0, 8.0, "").of(500_000, 250_000) == pytest.approx(3.0)


def test_the_most_a_call_reads_is_bounded_by_bytes_and_images() -> None:
    text = "Wie weit? 走"
    tokens_in, tokens_out = most_tokens(Generate(user(text, FrameRef("top", 1)), max_tokens=40))
    assert tokens_in >= len(text.encode()) + MOST_TOKENS_PER_IMAGE
    assert tokens_out == 40
    assert most_tokens(Score(user(text), ("yes", "no")))[1] == 1


@pytest.mark.parametrize(
    ("part", "images"),
    [
        (FrameRef("top", 1), 1),
        (GoalImage("top"), 1),
        (TiledFrames((FrameRef("top", 1), FrameRef("top", 2)), 2), 1),
        (VIDEO, 4),
        (DecodedMedia(Clip(np.zeros((3, 2, 2, 3), np.uint8), np.arange(3.0), np.arange(3)), video=True), 3),
    ],
)
def test_every_image_counts(part: object, images: int) -> None:
    assert most_tokens(Generate(user(part)))[0] == images * MOST_TOKENS_PER_IMAGE


def test_prefixes_cost_at_most_what_they_cost_one_by_one() -> None:
    prompts = [Prompt((Turn("user", (VideoPrefix(), text)),), template="open") for text in ("a", "bb")]
    request = ScorePrefixes(VIDEO, (1, 2, 4), tuple(prompts), (" True",))
    alone = [most_tokens(one) for one in single_requests(request)]
    assert most_tokens(request) == (sum(read for read, _ in alone), sum(written for _, written in alone))
    assert most_tokens(request)[0] >= 2 * (1 + 2 + 4) * MOST_TOKENS_PER_IMAGE


def test_the_most_a_call_costs_is_never_less_than_what_it_costs() -> None:
    call = Call("e", "k", Generate(user("How far?", FrameRef("top", 1)), max_tokens=50))
    assert Price(3.0, 15.0, "").most(call) >= Price(3.0, 15.0, "").of(1_200, 50)
