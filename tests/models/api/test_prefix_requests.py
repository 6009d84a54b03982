from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError
from stepscore.models import (
    DecodedMedia,
    PrefixScores,
    Prompt,
    ScorePrefixes,
    Scores,
    Template,
    Turn,
    VideoFrames,
    VideoPrefix,
)
from stepscore.models.api.prefix_requests import (
    chat_prompt,
    is_single,
    of_scores,
    score_one_by_one,
    single_requests,
)

CLAIM = "The video shows: open the drawer Decide whether the above statement is True or not."
CUE = " The answer is:"
OPEN = CLAIM + CUE
VIDEO = DecodedMedia(Clip(np.zeros((2, 4, 4, 3), np.uint8), np.arange(2) / 2, np.arange(2)), video=True)


def single(*candidates: str, prompt: Prompt, video: Any = VIDEO) -> ScorePrefixes:
    return ScorePrefixes(video, (2,), (prompt,), candidates)


def asked(text: str, prefill: str = "", template: Template = "open", *before: Turn) -> Prompt:
    return Prompt((*before, Turn("user", (VideoPrefix(), text))), prefill, template)


@pytest.mark.parametrize("template", ["open", "none"])
def test_a_turn_left_open_is_prefilled_where_the_server_can(template: Template) -> None:
    request = single(" True", " False", prompt=asked(CLAIM, CUE, template))
    prompt, words = chat_prompt(request, prefill=True)
    assert prompt == Prompt((Turn("user", (VIDEO, CLAIM)),), "The answer is:")
    assert words == (" True", " False")


def test_elsewhere_the_answer_begins_a_turn_and_loses_its_space() -> None:
    prompt, words = chat_prompt(single(" True", " False", prompt=asked(CLAIM, CUE)), prefill=False)
    assert prompt == Prompt((Turn("user", (VIDEO, OPEN)),))
    assert words == ("True", "False")


@pytest.mark.parametrize("prefill", [True, False])
def test_a_whole_chat_is_asked_as_it_is(prefill: bool) -> None:
    system = Turn("system", ("Be honest.",))
    prompt, words = chat_prompt(single("True", prompt=asked(OPEN, "", "chat", system)), prefill=prefill)
    assert prompt == Prompt((system, Turn("user", (VIDEO, OPEN))))
    assert words == ("True",)


def test_an_answer_already_begun_goes_on_or_returns_to_the_user() -> None:
    request = single(" True", prompt=asked(CLAIM, "It is", "chat"))
    prompt, words = chat_prompt(request, prefill=True)
    assert prompt == Prompt((Turn("user", (VIDEO, CLAIM)),), "It is")
    assert words == (" True",)
    prompt, words = chat_prompt(request, prefill=False)
    assert prompt == Prompt((Turn("user", (VIDEO, f"{CLAIM}\nIt is")),))
    assert words == ("True",)


@pytest.mark.parametrize("text", ["The task is: open the", "Now. Open the", "Only one sentence:", ""])
@pytest.mark.parametrize("template", ["open", "none"])
@pytest.mark.parametrize("prefill", [True, False])
def test_the_users_own_words_cannot_be_scored(text: str, template: Template, prefill: bool) -> None:
    with pytest.raises(CapabilityError, match="within the user's turn"):
        chat_prompt(single(" drawer", prompt=asked(text, "", template)), prefill=prefill)


def test_tokens_that_no_turn_is_made_of_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"<\|vision_start\|>"):
        chat_prompt(single(" True", prompt=asked(f"<|vision_start|>{CLAIM}", CUE)), prefill=True)


def many(lengths: tuple[int, ...], *texts: str) -> ScorePrefixes:
    prompts = tuple(asked(text, template="none") for text in texts)
    return ScorePrefixes(VideoFrames("top", (0, 3, 6, 9), 64), lengths, prompts, (" True", " False"))


def text_of(request: ScorePrefixes) -> str:
    (prompt,) = request.prompts
    return str(prompt.turns[0].parts[1])


def test_a_server_is_asked_each_prefix_once_and_shorter_ones_first() -> None:
    requests = single_requests(many((4, 1, 4, 2), "a", "b", "a"))
    assert [(one.lengths[0], text_of(one)) for one in requests] == [
        (1, "a"), (1, "b"), (2, "a"), (2, "b"), (4, "a"), (4, "b"),
    ]  # fmt: skip
    assert all(is_single(one) for one in requests)
    assert [one.video.indices for one in requests][::2] == [(0,), (0, 3), (0, 3, 6, 9)]  # type: ignore[union-attr]


def test_decoded_frames_are_cut_as_named_ones_are() -> None:
    cut = single_requests(ScorePrefixes(VIDEO, (1, 2), (asked("a"),), ("x",)))
    assert [len(one.video.clip) for one in cut] == [1, 2]  # type: ignore[union-attr]
    assert all(one.video.video for one in cut)  # type: ignore[union-attr]


def test_answers_find_their_place_and_longer_prefixes_wait_for_shorter() -> None:
    under_way: set[int] = set()

    async def ask(one: ScorePrefixes) -> PrefixScores:
        (length,), text = one.lengths, text_of(one)
        under_way.add(length)
        await asyncio.sleep(0.001)
        assert under_way == {length}, "two lengths were under way at a time"
        await asyncio.sleep(0.001)
        under_way.discard(length)
        return PrefixScores(np.array([[[length, ord(text)]]], dtype=float), tokens_in=10)

    scores = asyncio.run(score_one_by_one(many((4, 1, 4), "b", "a"), ask))
    assert scores.logprobs[..., 0].tolist() == [[4, 1, 4], [4, 1, 4]]
    assert scores.logprobs[:, 0, 1].tolist() == [ord("b"), ord("a")]
    assert scores.tokens_in == 40


def test_a_censored_prefix_score_is_unknown() -> None:
    found = of_scores(Scores((-1.0, -5.0), (False, True), 7))
    assert found.logprobs.shape == (1, 1, 2)
    assert found.logprobs[0, 0, 0] == -1.0
    assert np.isnan(found.logprobs[0, 0, 1])
