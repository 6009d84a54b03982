from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscore.episodes import Clip
from stepscore.errors import OptionError, TransientModelError
from stepscore.models import Answer, DecodedMedia, Prompt, TokenChoice, Turn
from stepscore.models.api.chat import ImageCodec, chat_messages, read_answer, read_logprobs, scores_of
from stepscore.types import Frames
from tests.models.api.servers import shown

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def frames(n: int = 3, height: int = 12, width: int = 20) -> Frames:
    return np.random.default_rng(0).integers(0, 256, (n, height, width, 3), dtype=np.uint8)


def video(n: int = 3) -> DecodedMedia:
    return DecodedMedia(Clip(frames(n), np.array([0.0, 0.55, 12.04])[:n], np.arange(n)), video=True)


def test_png_changes_no_pixel() -> None:
    frame = frames()[0]
    assert np.array_equal(shown(ImageCodec().data_url(frame)).clip.frames[0], frame)


def test_jpeg_is_smaller_the_lower_its_quality() -> None:
    lengths = [len(ImageCodec("jpeg", quality).data_url(frames()[0])) for quality in (30, 95)]
    assert lengths[0] < lengths[1]
    assert ImageCodec("jpeg").data_url(frames()[0]).startswith("data:image/jpeg;base64,")


def test_large_images_are_made_smaller_and_small_ones_left() -> None:
    assert shown(ImageCodec(max_side=10).data_url(frames()[0])).clip.frames.shape[1:3] == (6, 10)
    assert shown(ImageCodec(max_side=20).data_url(frames()[0])).clip.frames.shape[1:3] == (12, 20)


def test_what_changes_pixels_is_described_and_what_does_not_is_not() -> None:
    assert ImageCodec("png", 30).describe() == ImageCodec("png", 95).describe()
    assert ImageCodec("jpeg", 30).describe() != ImageCodec("jpeg", 95).describe()
    assert ImageCodec(max_side=10).describe() != ImageCodec().describe()


@pytest.mark.parametrize("wrong", [{"format": "webp"}, {"quality": 0}, {"quality": 101}, {"max_side": 0}])
def test_a_wrong_codec_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        ImageCodec(**wrong)


def test_a_video_is_one_image_a_frame_each_after_its_time() -> None:
    prompt = Prompt((Turn("system", ("Be brief.",)), Turn("user", ("Look: ", video(), "Well?"))))
    system, user = chat_messages(prompt, ImageCodec())
    assert system == {"role": "system", "content": "Be brief."}
    texts = [item["text"] for item in user["content"] if item["type"] == "text"]
    assert texts == ["Look: <0.0 seconds>", "<0.6 seconds>", "<12.0 seconds>", "Well?"]
    images = [shown(item["image_url"]["url"]) for item in user["content"] if item["type"] == "image_url"]
    assert np.array_equal(np.concatenate([image.clip.frames for image in images]), frames())


def test_prefixes_of_a_video_begin_alike() -> None:
    def content(n: int) -> Any:
        return chat_messages(Prompt((Turn("user", (video(n),)),)), ImageCodec())[0]["content"]

    assert content(3)[: len(content(2))] == content(2)


def test_an_image_has_no_time() -> None:
    still = DecodedMedia(Clip(frames(1), np.zeros(1), np.zeros(1, np.int64)))
    (message,) = chat_messages(Prompt((Turn("user", ("Look", still)),)), ImageCodec())
    assert [item["type"] for item in message["content"]] == ["text", "image_url"]


def reply(content: object, finish: object = "stop") -> dict[str, Any]:
    return {"choices": [{"message": {"content": content}, "finish_reason": finish}]}


def test_answers_are_read_in_the_forms_servers_write() -> None:
    assert read_answer(reply("yes", "length"), "m") == Answer("yes", "length")
    assert read_answer(reply([{"type": "text", "text": "y"}, {"text": "es"}]), "m").text == "yes"
    assert read_answer(reply(None, "length"), "m") == Answer("", "length")
    counted = reply("yes") | {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}
    assert read_answer(counted, "m") == Answer("yes", "stop", 9, 2)


def test_the_likeliest_tokens_of_an_answer_are_read_as_far_as_they_are_its_own() -> None:
    def listed(*content: object) -> dict[str, Any]:
        whole = reply("+5")
        whole["choices"][0]["logprobs"] = {"content": list(content)}
        return whole

    plus = {"token": "+", "logprob": -0.1, "top_logprobs": [{"token": "+", "logprob": -0.1}]}
    five = {
        "token": "5",
        "logprob": -0.1,
        "top_logprobs": [{"token": "5", "logprob": -0.1}, {"token": "6", "logprob": -2}],
    }
    end = {"token": "<|im_end|>", "logprob": 0.0, "top_logprobs": []}
    choices = (TokenChoice("+", (("+", -0.1),)), TokenChoice("5", (("5", -0.1), ("6", -2.0))))
    assert read_answer(listed(plus, five, end), "m").choices == choices
    assert read_answer(listed(plus, {"token": "5"}), "m").choices[1] == TokenChoice("5", ())
    malformed: list[object] = [
        "5",
        [],
        {"logprob": 1},
        {"token": "5", "top_logprobs": [{"token": "5"}]},
        {"token": "5", "top_logprobs": 3},
    ]
    for wrong in malformed:
        assert read_answer(listed(wrong), "m") == Answer("+5")
    assert read_answer(reply("+5"), "m").choices == ()


def joined_texts(value: Any) -> set[str]:
    """Every text in a JSON value, and the texts of every list of parts put together."""
    if isinstance(value, str):
        return {value}
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    found = {text for item in inner for text in joined_texts(item)}
    if isinstance(value, list):
        found.add("".join(str(item.get("text", "")) for item in value if isinstance(item, dict)))
    return found


@settings(max_examples=1000, deadline=None)
@given(
    ANY_JSON
    | ANY_JSON.map(reply)
    | ANY_JSON.map(lambda value: {"choices": [value]})
    | ANY_JSON.map(lambda value: {"choices": [{"logprobs": {"content": value}}]})
    | ANY_JSON.map(lambda value: {"choices": [{"logprobs": {"content": [{"token": "a", "logprob": value}]}}]})
    | ANY_JSON.map(lambda value: reply("x") | {"usage": value})
)
def test_malformed_replies_are_worth_another_try_and_never_invent_anything(value: Any) -> None:
    given_reply = value if isinstance(value, dict) else {"choices": value}
    with contextlib.suppress(TransientModelError):
        assert read_answer(given_reply, "m").text in {"", *joined_texts(given_reply)}
    with contextlib.suppress(TransientModelError):
        numbers = read_logprobs(given_reply, "m").values()
        assert all(math.isnan(number) or number <= 0 for number in numbers)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 20))
def test_a_censored_score_is_never_below_the_truth(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(scale=4.0, size=60)
    truth = {f"w{n}": float(v) for n, v in enumerate(logits - np.log(np.exp(logits).sum()))}
    result = dict(sorted(truth.items(), key=lambda pair: -pair[1])[:k])
    scores = scores_of(result, list(truth), 0, "m")
    for word, value, hidden in zip(truth, scores.logprobs, scores.censored, strict=True):
        assert hidden == (word not in result)
        assert value >= truth[word] if hidden else value == truth[word]


def test_a_word_of_several_tokens_is_at_most_as_likely_as_its_beginning() -> None:
    scores = scores_of({" part": -0.1, " no": -2.5}, [" partially"], 0, "m")
    assert scores.censored == (True,)
    assert scores.logprobs == (-0.1,)


def test_the_least_a_server_can_write_is_a_bound_and_no_value() -> None:
    scores = scores_of({" True": -9999.0, " False": -math.inf, "x": 0.0}, [" True", " False", "x"], 0, "m")
    assert scores.censored == (True, True, False)
    assert scores.logprobs == (-9999.0, -9999.0, 0.0)
