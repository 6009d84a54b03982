from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import OptionError, RefusedError, TransientModelError, UnknownNameError
from stepscore.models import (
    DecodedMedia,
    Generate,
    Prompt,
    ScorePrefixes,
    Turn,
    VideoPrefix,
    get_model,
)
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.api.vllm import VllmModel
from stepscore.types import Frames
from tests.models.api.servers import WORDS, Digest, Running, serving
from tests.models.api.test_openai import clip, stills, user

CLAIM = "It shows the task. Is it True or not?"
STATEMENT = Prompt((Turn("user", (VideoPrefix(), CLAIM)),), prefill=" The answer is:", template="open")
FEW = WORDS[:16]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def ask(server: Running, **options: Any) -> VllmModel:
    return VllmModel("tiny", base_url=server.url, **options)


def test_any_token_has_its_exact_score(server: Running) -> None:
    model, prompt = ask(server), user("True or False?", stills()[0])
    assert model.capabilities.scores == "exact"
    found = model.score(prompt, FEW)
    assert found.censored == (False,) * len(FEW)
    assert found.logprobs == Digest().score(prompt, FEW).logprobs
    assert min(found.logprobs) < sorted(Digest().score(prompt, WORDS).logprobs)[-20], "none was unlikely"


def test_no_call_is_spent_on_finding_out() -> None:
    for spec in ({}, {"openapi": False}):
        with serving(**spec) as server:
            model = ask(server)
            assert model.describe()["scores"] == "exact"
            assert server.stats()["total"] == 0
            model.score(user("a"), ("yes", "no"))
            assert server.stats()["total"] == 1


def test_a_server_that_says_it_lacks_the_field_is_asked_for_the_likeliest() -> None:
    with serving(ids="ignored") as server:
        model = ask(server, top_logprobs=5)
        assert model.capabilities.scores == "top"
        assert model.describe()["scores"] == "top"
        check_top(model, user("a"))
        assert "logprob_token_ids" not in server.stats()["last"]["body"]


def test_a_server_that_ignores_the_field_in_silence_shows_it_by_its_answer() -> None:
    with serving(ids="ignored", openapi=False) as server:
        model = ask(server, top_logprobs=5)
        check_top(model, user("a"))
        assert model.capabilities.scores == "top"
        check_top(model, user("b"))
        assert server.stats()["total"] == 2


def check_top(model: VllmModel, prompt: Prompt) -> None:
    truth, found = Digest().score(prompt, FEW).logprobs, model.score(prompt, FEW)
    likely = sorted(Digest().score(prompt, WORDS).logprobs)[-5]
    assert found.censored == tuple(true < likely for true in truth)
    for true, value, hidden in zip(truth, found.logprobs, found.censored, strict=True):
        assert value >= true if hidden else value == true


@pytest.mark.parametrize("spec", [{"ids": "refused", "openapi": False}, {"tokenize": False}])
def test_a_server_that_refuses_is_asked_otherwise_at_the_next_try(spec: dict[str, Any]) -> None:
    with serving(**spec) as server:
        model = ask(server)
        with pytest.raises(RefusedError, match="most likely tokens instead") as caught:
            model.score(user("a"), ("yes",))
        assert caught.value.retry_after == 0.0
        assert model.score(user("a"), ("yes",)).logprobs
        assert model.capabilities.scores == "top"


def test_a_few_tokens_that_were_not_asked_for_bound_nothing() -> None:
    with (
        serving(ids="ignored", openapi=False, tells=3) as server,
        pytest.raises(TransientModelError, match=r"other tokens than requested \(3 in all\)"),
    ):
        ask(server).score(user("a"), FEW)


def test_a_word_of_several_tokens_is_refused(server: Running) -> None:
    with pytest.raises(OptionError, match="' Partially' is 10 tokens"):
        ask(server).score(user("a"), (" Partially",))


def test_an_unfinished_answer_goes_on(server: Running) -> None:
    prompt = Prompt((Turn("user", ("a",)),), prefill="The answer is:")
    assert ask(server).generate(Generate(prompt)) == Digest().generate(Generate(prompt))
    body = server.stats()["last"]["body"]
    assert body["continue_final_message"] is True
    assert body["add_generation_prompt"] is False


def test_prefixes_are_scored_after_the_cue_in_the_assistants_turn(server: Running) -> None:
    video = DecodedMedia(clip(4), video=True)
    request = ScorePrefixes(video, (4, 1, 3), (STATEMENT,), (" True", " False"))
    before = server.stats()["total"]
    found = ask(server).score_prefixes(request)
    assert server.stats()["total"] - before == 3
    for row, length in zip(found.logprobs[0], request.lengths, strict=True):
        times = [f"<{i / 2:.1f} seconds>" for i in range(length)]
        parts = [part for pair in zip(times, stills(4)[:length], strict=True) for part in pair]
        prompt = Prompt((Turn("user", (*parts, CLAIM)),), prefill="The answer is:")
        assert tuple(row) == Digest().score(prompt, (" True", " False")).logprobs


def test_the_server_is_found_where_it_usually_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_BASE_URL", raising=False)
    model = get_model("vllm/Qwen/Qwen3-VL-8B-Instruct")
    assert isinstance(model, VllmModel)
    assert model.served_name == "Qwen/Qwen3-VL-8B-Instruct"
    assert model.server.base_url == "http://localhost:8000/v1"
    assert model.server.key_name == "VLLM_API_KEY"
    monkeypatch.setenv("VLLM_BASE_URL", "http://gpu:8000/v1")
    assert VllmModel("m").server.base_url == "http://gpu:8000/v1"


def test_a_model_that_is_not_served_lists_those_that_are(server: Running) -> None:
    with pytest.raises(UnknownNameError, match="Valid: tiny"):
        VllmModel("tinny", base_url=server.url).describe()


def spelled(frames: Frames) -> Iterator[str | DecodedMedia]:
    for number, frame in enumerate(frames):
        yield f"<{number / 2:.1f} seconds>"
        yield DecodedMedia(Clip(frame[None], np.zeros(1), np.zeros(1, np.int64)))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the 'local' extra")
def test_a_network_behind_a_server_scores_as_it_does_in_this_process(shared_data: Path) -> None:
    name = f"hf/{shared_data / 'prototype_judge'}"
    frames = np.random.default_rng(2).integers(0, 256, (3, 96, 96, 3), dtype=np.uint8)
    video = DecodedMedia(Clip(frames, np.arange(3) / 2, np.arange(3)), video=True)
    request = ScorePrefixes(video, (1, 2, 3), (STATEMENT,), (" True", " False"))
    local = get_model(name)
    with serving(model=name) as server:
        found = ask(server).score_prefixes(request).logprobs[0]
        written = ask(server).generate(Generate(user(video, "Well?"), max_tokens=4))
        result = OpenAIModel("tiny", base_url=server.url).score(user(video, "Well?"), (" True", " zebra"))
    for row, length in zip(found, request.lengths, strict=True):
        prompt = Prompt((Turn("user", (*spelled(frames[:length]), CLAIM)),), prefill="The answer is:")
        exact = local.score(prompt, (" True", " False"))
        assert row == pytest.approx(exact.logprobs, abs=1e-4)
    assert np.ptp(found[:, 0]) > 1e-3, "the frames change the score"
    asked = user(*spelled(frames), "Well?")
    assert written.text == local.generate(Generate(asked, max_tokens=4)).text
    exact = local.score(asked, (" True",))
    assert result.logprobs[0] == pytest.approx(exact.logprobs[0], abs=1e-4) or result.censored[0]
    assert result.censored[1]
