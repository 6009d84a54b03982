from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stepscore.errors import OptionError, TransientModelError
from stepscore.models import (
    DecodedMedia,
    Generate,
    Prompt,
    ScorePrefixes,
    Turn,
    VideoPrefix,
    get_model,
)
from stepscore.models.api.sglang import SglangModel
from tests.models.api.servers import PLACE, WORDS, Digest, Running, serving
from tests.models.api.test_openai import clip, stills, user

FEW = WORDS[:16]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def ask(server: Running, **options: Any) -> SglangModel:
    return SglangModel("tiny", base_url=server.url, **options)


def as_it_is(*parts: Any) -> Prompt:
    """A prompt without any template, as the tests' server reads what its native endpoint is sent."""
    return Prompt((Turn("user", parts),), template="none")


def test_any_token_has_its_exact_score(server: Running) -> None:
    model, still = ask(server), stills()[0]
    assert model.capabilities.scores == "exact"
    found = model.score(user("True or False?", still), FEW)
    spelled = as_it_is("<|im_start|>user\nTrue or False?", still, "<|im_end|>\n<|im_start|>assistant\n")
    assert found.logprobs == Digest().score(spelled, FEW).logprobs
    assert not any(found.censored)


def test_the_native_request_is_the_documented_one(server: Running) -> None:
    ask(server).score(user(stills()[0], "?"), (" True", " False"))
    last = server.stats()["last"]
    assert last["path"] == "/generate"
    body = last["body"]
    assert len(body.pop("image_data")) == 1
    assert body == {
        "text": f"<|im_start|>user\n{PLACE}?<|im_end|>\n<|im_start|>assistant\n",
        "sampling_params": {"max_new_tokens": 1, "temperature": 0.0},
        "return_logprob": True,
        "token_ids_logprob": [0, 1],
    }


def test_prefixes_keep_their_tokens_as_they_are(server: Running) -> None:
    video = DecodedMedia(clip(4), video=True)
    texts = ("amid own words", "b:")
    prompts = tuple(Prompt((Turn("user", (VideoPrefix(), text)),), template="open") for text in texts)
    request = ScorePrefixes(video, (3, 1), prompts, (" True", "yes"))
    before = server.stats()["total"]
    found = ask(server, question="frames").score_prefixes(request)
    assert server.stats()["total"] - before == 4
    for tail, rows in zip(texts, found.logprobs, strict=True):
        for length, row in zip(request.lengths, rows, strict=True):
            times = [f"<{i / 2:.1f} seconds>" for i in range(length)]
            parts = [part for pair in zip(times, stills(4)[:length], strict=True) for part in pair]
            exact = Digest().score(as_it_is("<|im_start|>user\n", *parts, tail), (" True", "yes"))
            assert tuple(row) == exact.logprobs


def test_an_unfinished_answer_is_left_open(server: Running) -> None:
    prompt = Prompt((Turn("user", ("a",)),), prefill="So:")
    spelled = as_it_is("<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nSo:")
    assert ask(server).score(prompt, (" True",)).logprobs == Digest().score(spelled, (" True",)).logprobs
    assert ask(server).generate(Generate(prompt)) == Digest().generate(Generate(prompt))


def test_a_reply_without_logprobs_is_no_number() -> None:
    with (
        serving(faults=["always-no-logprobs"]) as server,
        pytest.raises(TransientModelError, match="no log-probabilities"),
    ):
        ask(server).score(user("a"), ("True",))


def test_a_word_of_several_tokens_is_refused(server: Running) -> None:
    with pytest.raises(OptionError, match="only a single token"):
        ask(server).score(user("a"), (" Partially",))


def test_the_server_is_found_with_and_without_v1(monkeypatch: pytest.MonkeyPatch, server: Running) -> None:
    monkeypatch.delenv("SGLANG_BASE_URL", raising=False)
    model = get_model("sglang/Qwen/Qwen3-VL-8B-Instruct")
    assert isinstance(model, SglangModel)
    assert model.server.base_url == "http://localhost:30000/v1"
    assert model.server.key_name == "SGLANG_API_KEY"
    without = SglangModel("tiny", base_url=server.url.removesuffix("/v1"))
    assert without.score(user("a"), ("yes",)) == ask(server).score(user("a"), ("yes",))
    assert without.generate(Generate(user("a"))) == ask(server).generate(Generate(user("a")))
