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
from stepscore.models.calls.prices import Price, price_of
from stepscore.models.requests import MAX_TOKENS_PER_IMAGE

VIDEO = VideoFrames("top", (0, 3, 6, 9))


def user(*parts: object) -> Prompt:
    return Prompt((Turn("user", parts),))  # type: ignore[arg-type]


def test_the_users_price_comes_first() -> None:
    assert price_of("openai-api/gpt-4o", 1.0, 2.0) == Price(1.0, 2.0, "given by the user")
    assert price_of("vllm/anything", 0.0, 0.0) == Price(0.0, 0.0, "given by the user")


@pytest.mark.parametrize(
    ("model", "tokens_in", "tokens_out"),
    [
        ("gpt-4o", 2.50, 10.00),
        ("openai/gpt-4o", 2.50, 10.00),
        ("gpt-4o-mini", 0.15, 0.60),
        ("gpt-4.1", 2.00, 8.00),
        ("gpt-4.1-mini", 0.40, 1.60),
        ("google/gemini-2.5-pro", 1.25, 10.00),
        ("google/gemini-2.5-flash", 0.30, 2.50),
    ],
)
def test_a_hosted_model_has_its_list_price(model: str, tokens_in: float, tokens_out: float) -> None:
    """Prices of these released models as their vendors listed them in 2025-08; new ones go into a new model."""
    price = price_of(f"openai-api/{model}")
    assert price is not None
    assert (price.tokens_in, price.tokens_out) == (tokens_in, tokens_out)


def test_a_list_price_states_its_source_and_date() -> None:
    price = price_of("openai-api/gpt-4o")
    assert price is not None
    stated = r"list price of OpenAI on \d{4}-\d{2}-\d{2}, genai-prices \d+\.\d+\.\d+"
    assert re.fullmatch(stated, price.source)


def test_a_long_prompt_costs_what_the_provider_asks_for_long_prompts() -> None:
    price = price_of("openai-api/google/gemini-2.5-pro")
    assert price is not None
    assert price.cost(200_000, 1000) == pytest.approx((200_000 * 1.25 + 1000 * 10) / 1e6)
    assert price.cost(200_001, 1000) == pytest.approx((200_001 * 2.50 + 1000 * 15) / 1e6)


@pytest.mark.parametrize(
    "model",
    [
        "vllm/Qwen/Qwen3-VL-8B-Instruct",
        "vllm/openai/gpt-4o",  # self-hosted: no provider bills it
        "openai-api/gateway/gpt-4o",  # a gateway has prices of its own
        "openai-api/my-gpt-4o",
    ],
)
def test_a_price_that_nobody_knows_is_unknown(model: str) -> None:
    assert price_of(model) is None


@pytest.mark.parametrize("model", ["embedded", "hf/google/gemini-2.5-pro", "sarm/out"])
def test_a_model_in_this_process_costs_nothing(model: str) -> None:
    price = price_of(model)
    assert price is not None
    assert price.free
    assert price.cost(10**9, 10**9) == 0
    assert "this process" in price.source


def test_what_has_a_price_is_not_free() -> None:
    assert not Price(0.0, 8.0, "").free
    assert not Price(0.0, 0.0, "", ((1000, 1.0, 1.0),)).free


def test_a_price_is_per_million_tokens() -> None:
    assert Price(2.0, 8.0, "").cost(500_000, 250_000) == pytest.approx(3.0)


def test_the_most_a_call_reads_is_bounded_by_bytes_and_images() -> None:
    text = "Wie weit? 走"
    tokens_in, tokens_out = Generate(user(text, FrameRef("top", 1)), max_tokens=40).token_bound()
    assert tokens_in >= len(text.encode()) + MAX_TOKENS_PER_IMAGE
    assert tokens_out == 40
    assert Score(user(text), ("yes", "no")).token_bound()[1] == 1


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
    assert Generate(user(part)).token_bound()[0] == images * MAX_TOKENS_PER_IMAGE


def test_prefixes_cost_at_most_what_they_cost_one_by_one() -> None:
    prompts = [Prompt((Turn("user", (VideoPrefix(), text)),), template="open") for text in ("a", "bb")]
    request = ScorePrefixes(VIDEO, (1, 2, 4), tuple(prompts), (" True",))
    alone = [one.token_bound() for one in single_requests(request)]
    assert request.token_bound() == (
        sum(read for read, _ in alone),
        sum(written for _, written in alone),
    )
    assert request.token_bound()[0] >= 2 * (1 + 2 + 4) * MAX_TOKENS_PER_IMAGE


def test_the_most_a_call_costs_is_never_less_than_what_it_costs() -> None:
    call = Call("e", "k", Generate(user("How far?", FrameRef("top", 1)), max_tokens=50))
    assert Price(3.0, 15.0, "").max_cost(call) >= Price(3.0, 15.0, "").cost(1_200, 50)
