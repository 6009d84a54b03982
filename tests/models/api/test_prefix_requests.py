from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError
from stepscore.models import DecodedMedia, PrefixScores, Prompt, ScorePrefixes, Scores, Turn, VideoFrames
from stepscore.models.api.prefix_requests import (
    conversation,
    is_single,
    of_scores,
    score_one_by_one,
    single_requests,
)

CLAIM = "The video shows: open the drawer Decide whether the above statement is True or not."
OPEN = f"{CLAIM} The answer is:"
FILM = DecodedMedia(Clip(np.zeros((2, 4, 4, 3), np.uint8), np.arange(2) / 2, np.arange(2)), video=True)


def single(head: str, tail: str, *candidates: str, film: Any = FILM) -> ScorePrefixes:
    return ScorePrefixes(film, (2,), head, (tail,), candidates)


def test_a_turn_left_open_is_prefilled_where_the_server_can() -> None:
    for head in ("<|im_start|>user\n", ""):
        prompt, words = conversation(single(head, OPEN, " True", " False"), prefill=True)
        turns = (Turn("user", (FILM, CLAIM)), Turn("assistant", ("The answer is:",)))
        assert prompt == Prompt(turns, continued=True)
        assert words == (" True", " False")


def test_elsewhere_the_answer_begins_a_turn_and_loses_its_space() -> None:
    prompt, words = conversation(single("<|im_start|>user\n", OPEN, " True", " False"), prefill=False)
    assert prompt == Prompt((Turn("user", (FILM, OPEN)),))
    assert words == ("True", "False")


@pytest.mark.parametrize("prefill", [True, False])
def test_a_whole_chat_is_asked_as_it_is(prefill: bool) -> None:
    head = "<|im_start|>system\nBe honest.<|im_end|>\n<|im_start|>user\n"
    tail = f"{OPEN}<|im_end|>\n<|im_start|>assistant\n"
    prompt, words = conversation(single(head, tail, "True"), prefill=prefill)
    assert prompt == Prompt((Turn("system", ("Be honest.",)), Turn("user", (FILM, OPEN))))
    assert words == ("True",)


def test_an_answer_already_begun_goes_on_or_returns_to_the_user() -> None:
    request = single("<|im_start|>user\n", f"{CLAIM}<|im_end|>\n<|im_start|>assistant\nIt is", " True")
    prompt, words = conversation(request, prefill=True)
    assert prompt == Prompt((Turn("user", (FILM, CLAIM)), Turn("assistant", ("It is",))), continued=True)
    assert words == (" True",)
    prompt, words = conversation(request, prefill=False)
    assert prompt == Prompt((Turn("user", (FILM, CLAIM, "\nIt is")),))
    assert words == ("True",)


@pytest.mark.parametrize("tail", ["The task is: open the", "Now. Open the", "Only one sentence:", ""])
@pytest.mark.parametrize("prefill", [True, False])
def test_the_users_own_words_cannot_be_scored(tail: str, prefill: bool) -> None:
    with pytest.raises(CapabilityError, match="amid the user's own words"):
        conversation(single("<|im_start|>user\n", tail, " drawer"), prefill=prefill)


def test_tokens_that_no_turn_is_made_of_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"<\|vision_start\|>"):
        conversation(single("<|im_start|>user\n<|vision_start|>", OPEN, " True"), prefill=True)


def many(lengths: tuple[int, ...], *tails: str) -> ScorePrefixes:
    return ScorePrefixes(VideoFrames("top", (0, 3, 6, 9), 64), lengths, "", tails, (" True", " False"))


def test_a_server_is_asked_each_prefix_once_and_shorter_ones_first() -> None:
    asked = single_requests(many((4, 1, 4, 2), "a", "b", "a"))
    assert [(one.lengths[0], one.tails[0]) for one in asked] == [
        (1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "a"), (4, "b"),
    ]  # fmt: skip
    assert all(is_single(one) for one in asked)
    assert [one.film.indices for one in asked][::2] == [(0,), (0, 3), (0, 3, 6, 9)]  # type: ignore[union-attr]


def test_pictures_in_hand_are_cut_as_named_ones_are() -> None:
    cut = single_requests(ScorePrefixes(FILM, (1, 2), "", ("a",), ("x",)))
    assert [len(one.film.clip) for one in cut] == [1, 2]  # type: ignore[union-attr]
    assert all(one.film.video for one in cut)  # type: ignore[union-attr]


def test_answers_find_their_place_and_longer_prefixes_wait_for_shorter() -> None:
    under_way: set[int] = set()

    async def ask(one: ScorePrefixes) -> PrefixScores:
        (length,), (tail,) = one.lengths, one.tails
        under_way.add(length)
        await asyncio.sleep(0.001)
        assert under_way == {length}, "two lengths were under way at a time"
        await asyncio.sleep(0.001)
        under_way.discard(length)
        return PrefixScores(np.array([[[length, ord(tail)]]], dtype=float), tokens_in=10)

    scores = asyncio.run(score_one_by_one(many((4, 1, 4), "b", "a"), ask))
    assert scores.logprobs[..., 0].tolist() == [[4, 1, 4], [4, 1, 4]]
    assert scores.logprobs[:, 0, 1].tolist() == [ord("b"), ord("a")]
    assert scores.tokens_in == 40


def test_a_censored_prefix_score_is_unknown() -> None:
    found = of_scores(Scores((-1.0, -5.0), (False, True), 7))
    assert found.logprobs.shape == (1, 1, 2)
    assert found.logprobs[0, 0, 0] == -1.0
    assert np.isnan(found.logprobs[0, 0, 1])
