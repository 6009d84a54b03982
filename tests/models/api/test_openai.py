from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
import stamina

from stepscore.episodes import Clip
from stepscore.errors import CapabilityError, ModelError, OptionError, TransientModelError, UnknownNameError
from stepscore.models import (
    DecodedMedia,
    Generate,
    Prompt,
    Score,
    ScorePrefixes,
    Scores,
    Turn,
    VideoPrefix,
    get_model,
)
from stepscore.models.api.openai import OpenAIModel
from stepscore.models.api.vllm import VllmModel
from tests.models.api.servers import WORDS, Digest, Running, serving

KEY = "sk-very-secret-0123456789"
QUICK: dict[str, Any] = {"attempts": 100, "cap": True}


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving() as running:
        yield running


def ask(server: Running, **options: Any) -> OpenAIModel:
    return OpenAIModel("tiny", base_url=server.url, **options)


def clip(n: int = 3) -> Clip:
    frames = np.random.default_rng(1).integers(0, 256, (n, 12, 20, 3), dtype=np.uint8)
    return Clip(frames, np.arange(n) / 2, np.arange(n))


def stills(n: int = 3) -> list[DecodedMedia]:
    whole = clip(n)
    return [DecodedMedia(Clip(whole.frames[i : i + 1], np.zeros(1), np.zeros(1, np.int64))) for i in range(n)]


def user(*parts: Any) -> Prompt:
    return Prompt((Turn("user", parts),))


def test_the_model_sees_every_letter_and_every_pixel(server: Running) -> None:
    prompt = Prompt(
        (Turn("system", ("Be brief.",)), Turn("user", ("Look", DecodedMedia(clip(), video=True), "!")))
    )
    first, second, third = stills()
    seen = Prompt(
        (
            Turn("system", ("Be brief.",)),
            Turn("user", ("Look<0.0 seconds>", first, "<0.5 seconds>", second, "<1.0 seconds>", third, "!")),
        )
    )
    assert ask(server).generate(Generate(prompt)) == Digest().generate(Generate(seen))


def test_the_request_says_what_was_asked_and_nothing_else(server: Running) -> None:
    model = ask(server)
    model.generate(Generate(user("a"), max_tokens=9, temperature=0.5, top_p=0.9, seed=3, json=True))
    body = server.stats()["last"]["body"]
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "a"}],
        "max_tokens": 9,
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 3,
        "response_format": {"type": "json_object"},
    }
    plain = ask(server, json_mode=False, limit_field="max_completion_tokens")
    plain.generate(Generate(user("a"), max_tokens=9, json=True))
    assert server.stats()["last"]["body"].keys() == {
        "model",
        "messages",
        "max_completion_tokens",
        "temperature",
    }


def test_told_words_have_their_score_and_others_a_bound(server: Running) -> None:
    prompt = user("True or False?", stills()[0])
    truth = Digest().score(prompt, WORDS).logprobs
    result = ask(server, top_logprobs=5).score(prompt, WORDS)
    ranks = np.argsort(np.argsort(-np.array(truth)))
    for word, true, value, hidden, rank in zip(
        WORDS, truth, result.logprobs, result.censored, ranks, strict=True
    ):
        assert hidden == (rank >= 5), word
        assert value >= true if hidden else value == true
    assert result.tokens_in == 100


def test_prefixes_are_one_request_each_and_unknown_where_censored(server: Running) -> None:
    text, cue = "It shows the task. Is it True or not?", " The answer is:"
    prompt = Prompt((Turn("user", (VideoPrefix(), text)),), prefill=cue, template="open")
    request = ScorePrefixes(DecodedMedia(clip(4), video=True), (1, 2, 4), (prompt,), (" True", " False"))
    before = server.stats()["total"]
    found = ask(server).score_prefixes(request).logprobs[0]
    assert server.stats()["total"] - before == 3
    for row, length in zip(found, request.lengths, strict=True):
        times = [f"<{i / 2:.1f} seconds>" for i in range(length)]
        parts = [part for pair in zip(times, stills(4)[:length], strict=True) for part in pair]
        exact = ask(server).score(user(*parts, text + cue), ("True", "False"))
        assert [None if np.isnan(v) else v for v in row] == [
            None if hidden else v for v, hidden in zip(exact.logprobs, exact.censored, strict=True)
        ]


def test_what_a_server_lacks_is_refused_by_name() -> None:
    mute = OpenAIModel("tiny", base_url="http://127.0.0.1:9/v1", top_logprobs=0)
    assert mute.capabilities.scores == "none"
    with pytest.raises(CapabilityError, match="hf/, vllm/ and sglang/"):
        mute.score(user("a"), ("x",))
    with pytest.raises(CapabilityError, match="cannot continue an unfinished answer"):
        mute.generate(Generate(Prompt((Turn("user", ("a",)),), prefill="b")))


def test_a_reply_without_logprobs_is_no_number() -> None:
    with serving(faults=["always-no-logprobs"]) as server:
        with pytest.raises(TransientModelError, match="no log-probabilities"):
            ask(server).score(user("a"), ("True",))
        assert ask(server).generate(Generate(user("b"))).text


def test_tokens_that_are_not_counted_are_none() -> None:
    with serving(usage=False) as server:
        answer = ask(server).generate(Generate(user("a")))
        assert (answer.tokens_in, answer.tokens_out) == (0, 0)


def test_the_description_is_the_model_and_not_the_place(server: Running) -> None:
    model = ask(server, image_format="jpeg", image_quality=80, timeout_s=9.0)
    described = dict(model.describe())
    assert described["name"] == "openai-api/tiny"
    assert described["revision"] == "r1"
    assert described["images"] == {"format": "jpeg", "quality": 80, "max_side": None}
    assert str(server.port) not in str(described)
    assert described == dict(ask(server, image_format="jpeg", image_quality=80).describe())
    assert described != dict(ask(server).describe())


def test_a_server_that_is_down_is_said_before_anything_is_asked() -> None:
    with stamina.set_testing(True, **QUICK), pytest.raises(ModelError, match="cannot be reached"):
        OpenAIModel("tiny", base_url="http://127.0.0.1:9/v1").describe()


@contextmanager
def listing(status: int) -> Iterator[str]:
    """The address of a server that has this status for its list of models."""

    class Listing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Listing) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/v1"
        http.shutdown()


@pytest.mark.parametrize("status", [404, 500])
def test_a_server_that_has_no_list_of_models_has_no_revision(status: int) -> None:
    with listing(status) as url, stamina.set_testing(True, **QUICK):
        assert OpenAIModel("tiny", base_url=url).describe()["revision"] is None


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_is_too_busy_to_list_its_models_is_said(status: int) -> None:
    said = pytest.raises(ModelError, match=f"answered {status}")
    with listing(status) as url, stamina.set_testing(True, **QUICK), said:
        OpenAIModel("tiny", base_url=url).describe()


def test_a_server_that_lists_all_its_models_must_not_fail_at_it() -> None:
    said = pytest.raises(ModelError, match="answered 500")
    with listing(500) as url, stamina.set_testing(True, **QUICK), said:
        VllmModel("tiny", base_url=url).describe()


def test_keys_come_from_the_environment_and_go_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(key=KEY) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        model = ask(server)
        assert model.generate(Generate(user("a"))).text
        for shown in (repr(model), str(dict(model.describe())), str(pickle.dumps(model))):
            assert KEY not in shown
        monkeypatch.setenv("OPENAI_API_KEY", KEY + "x")
        with pytest.raises(ModelError, match=r"answered 401: Incorrect key in 'Bearer \[key\]'") as caught:
            model.generate(Generate(user("a")))
        assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "asked", "url", "key"),
    [
        ("gpt-4o", "gpt-4o", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("openai/gpt-4o", "gpt-4o", "https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("my-gateway/Qwen/Qwen3-VL", "Qwen/Qwen3-VL", "http://gateway/v1", "MY_GATEWAY_API_KEY"),
    ],
)
def test_a_name_says_who_is_asked(
    name: str, asked: str, url: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("MY_GATEWAY_BASE_URL", "http://gateway/v1")
    model = OpenAIModel(name)
    assert (model.served_name, model.server.base_url, model.server.key_name) == (asked, url, key)


def test_the_base_url_comes_from_the_option_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://env/v1")
    assert OpenAIModel("m").server.base_url == "http://env/v1"
    assert OpenAIModel("m", base_url="http://option/v1").server.base_url == "http://option/v1"
    with pytest.raises(OptionError, match="SOMEONE_BASE_URL"):
        _ = OpenAIModel("someone/m").server


@pytest.mark.parametrize(
    "wrong",
    [
        {"top_logprobs": 21},
        {"image_format": "gif"},
        {"limit_field": "n"},
        {"timeout_s": 0},
        {"image_quality": 0},
    ],
)
def test_wrong_options_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        OpenAIModel("m", base_url="http://localhost/v1", **wrong)


def test_it_is_found_by_its_name_and_lists_its_options() -> None:
    assert get_model("openai-api/gpt-4o", image_format="jpeg").name == "openai-api/gpt-4o"
    with pytest.raises(UnknownNameError, match="'base_url'"):
        get_model("openai-api/gpt-4o", base_uri="x")


def test_it_is_a_value_that_travels(server: Running) -> None:
    model = ask(server)
    first = model.generate(Generate(user("a")))
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert again.generate(Generate(user("a"))) == first


def test_one_model_serves_several_loops_and_many_calls_at_a_time(server: Running) -> None:
    model = ask(server)

    async def many() -> list[Scores]:
        asked = [model.answer(Score(user(f"question {n}"), ("yes",))) for n in range(20)]
        return await asyncio.gather(*asked)  # type: ignore[return-value]

    assert asyncio.run(many()) == asyncio.run(many())
