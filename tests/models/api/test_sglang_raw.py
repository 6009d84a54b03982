"""Prefixes on SGLang's native endpoint, token by token as in process where frames are read as they are."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stepscore.episodes import Clip
from stepscore.errors import ModelError, OptionError, RefusedError
from stepscore.models import DecodedMedia, Prompt, ScorePrefixes, Turn, VideoPrefix
from stepscore.models.api.sglang import SglangModel
from stepscore.models.blocking import run_blocking
from stepscore.models.calls import PrefixCacheCounts
from tests.models.api.generate_server import GenerateServer
from tests.models.api.template_server import WRAPPED, Listening, naive_ids, scores

TEXT, CUE = "It shows the task. Is it True or not?", " The answer is:"
WORDS = (" True", " False")
HEIGHT, WIDTH = 224, 448
FRAMES = np.random.default_rng(0).integers(0, 256, (5, HEIGHT, WIDTH, 3), dtype=np.uint8)
TIMES = np.array([0.0, 0.5, 1.1, 1.6, 2.6])
BLOCKS = {2: ["0.2"], 3: ["0.2", "1.1"], 5: ["0.2", "1.4", "2.6"]}


@contextmanager
def listening(**spec: Any) -> Iterator[GenerateServer]:
    state = GenerateServer(**spec)
    running = Listening(state)
    try:
        yield state
    finally:
        running.stop()


@pytest.fixture
def server() -> Iterator[GenerateServer]:
    with listening() as running:
        yield running


def model_on(server: GenerateServer, **options: Any) -> SglangModel:
    return SglangModel("tiny", base_url=server.url, **({"question": "raw"} | options))


def asked(*lengths: int, frames: Any = FRAMES) -> ScorePrefixes:
    video = DecodedMedia(Clip(frames, TIMES, np.arange(len(frames))), video=True)
    prompt = Prompt((Turn("user", (VideoPrefix(), TEXT)),), prefill=CUE, template="open")
    return ScorePrefixes(video, lengths, (prompt,), WORDS)


def naive(length: int) -> tuple[float, float]:
    """The score of a prefix, with its tokens and pixels written out."""
    shown = [*range(length), *([length - 1] if length % 2 else [])]
    videos = [FRAMES[shown[i : i + 2]] for i in range(0, len(shown), 2)]
    pads = HEIGHT // 32 * (WIDTH // 32)
    return scores(naive_ids("<|im_start|>user\n", BLOCKS[length], pads, TEXT + CUE), videos)


def test_every_prefix_is_scored_on_the_tokens_and_pixels_of_the_question(server: GenerateServer) -> None:
    model = model_on(server)
    assert model.describe()["question"] == {"prefixes": "raw", "frames": "ffv1 pairs, qwen-vl 1"}
    found = model.score_prefixes(asked(5, 2, 3))
    assert [tuple(row) for row in found.logprobs[0]] == [naive(n) for n in (5, 2, 3)]
    lengths = [len(body["video_data"]) for body in server.bodies]
    assert lengths == sorted(lengths), "shorter prefixes come first"


def test_what_its_cache_saved_is_read_from_its_counters(server: GenerateServer) -> None:
    model = model_on(server)
    model.score_prefixes(asked(2, 5))
    assert run_blocking(model.prefix_cache()) == PrefixCacheCounts(server.looked_up, server.found)
    assert server.found >= 100, "the longer prefix begins with the shorter one"


@pytest.mark.parametrize("size", [(160, 224), (480, 640), (96, 352), (336, 448)])
def test_frames_that_the_server_would_resize_are_refused_before_anything_is_sent(
    size: tuple[int, int], server: GenerateServer
) -> None:
    with pytest.raises(ModelError, match=r"multiples of 224 .*-M question=frames"):
        model_on(server).score_prefixes(asked(2, frames=np.zeros((5, *size, 3), dtype=np.uint8)))
    assert not server.bodies


def test_frames_resampled_twice_may_have_the_right_tokens_which_is_why_they_are_refused() -> None:
    """448x640 is resized to 448x644 and back: the same tokens, other pixels."""
    frames = np.random.default_rng(0).integers(0, 256, (2, 448, 640, 3), dtype=np.uint8)
    read = GenerateServer().resized(frames)
    assert read.shape == frames.shape
    assert not np.array_equal(read, frames)


def test_small_frames_are_read_as_they_are_where_the_server_is_told_so() -> None:
    small = np.ascontiguousarray(FRAMES[:, :, :224])
    with listening() as server, pytest.raises(ModelError, match="--mm-process-config"):
        answer_twice(model_on(server), asked(2, frames=small))
    with listening(least=1024) as server:
        found = model_on(server).score_prefixes(asked(2, frames=small))
        assert tuple(found.logprobs[0, 0]) == scores(
            naive_ids("<|im_start|>user\n", ["0.2"], 49, TEXT + CUE), [small[:2]]
        )


def answer_twice(model: SglangModel, request: ScorePrefixes) -> Any:
    """Ask again where the model asks for it, as the ledger does."""
    try:
        return model.score_prefixes(request)
    except RefusedError:
        return model.score_prefixes(request)


def test_a_server_of_older_transformers_is_asked_in_its_way() -> None:
    with listening(place=WRAPPED) as server:
        model = model_on(server)
        assert tuple(answer_twice(model, asked(3)).logprobs[0, 0]) == naive(3)
        assert tuple(model.score_prefixes(asked(5)).logprobs[0, 0]) == naive(5)


@pytest.mark.parametrize("change", [{"late": 0.1}, {"least": 400_000}])
def test_an_answer_to_other_tokens_is_never_a_score(change: dict[str, Any], server: GenerateServer) -> None:
    model = model_on(server)
    model.score_prefixes(asked(2))
    for name, value in change.items():
        setattr(server, name, value)
    with pytest.raises(ModelError, match="other tokens than the question has"):
        model.score_prefixes(asked(3))


def test_a_server_that_does_not_return_what_it_read_is_refused() -> None:
    with listening(returns_ids=False) as server, pytest.raises(ModelError, match="return_prompt_token_ids"):
        model_on(server).score_prefixes(asked(2))


def test_frame_by_frame_is_said_unless_it_is_meant(server: GenerateServer) -> None:
    small = replace(asked(1), video=DecodedMedia(Clip(FRAMES[:1], TIMES[:1], np.arange(1)), video=True))
    model = model_on(server, question="auto")
    assert model.describe()["question"] == {"prefixes": "frames"}
    with pytest.warns(UserWarning, match="another question than hf/ asks.*question=raw"):
        model.score_prefixes(small)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score_prefixes(small)
        model_on(server, question="frames").score_prefixes(small)


def test_other_values_of_the_option_are_refused() -> None:
    with pytest.raises(OptionError, match="question must be auto, raw or frames, got 'chat'"):
        SglangModel("tiny", question="chat")  # type: ignore[arg-type]
