"""Prefixes on a vLLM server, token by token as in process; whatever the server does otherwise is never a score."""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stamina

import stepscore
from stepscore.episodes import Clip
from stepscore.errors import ModelError, OptionError, RefusedError
from stepscore.models import DecodedMedia, Prompt, ScorePrefixes, Template, Turn, VideoPrefix
from stepscore.models.api.raw_turn import template_with_raw_turn
from stepscore.models.api.vllm import VllmModel
from stepscore.models.checkpoints.chat_template import CHATML
from stepscore.runs import CallOptions, Run, dry_run
from tests.fakes import FakeView, episode
from tests.models.api.template_server import (
    OWN,
    WRAPPED,
    Listening,
    TemplateServer,
    naive_ids,
    rendered,
    scores,
    template_server,
)

RAW = template_with_raw_turn(OWN)
CLAIM, CUE = "It shows the task. Is it True or not?", " The answer is:"
WORDS = (" True", " False")
HEADS: dict[Template, str] = {"open": "<|im_start|>user\n", "none": ""}
FRAMES = np.random.default_rng(0).integers(0, 256, (7, 64, 96, 3), dtype=np.uint8)
TIMES = np.array([0.0, 0.5, 1.1, 1.6, 2.6, 3.0, 4.4])
BLOCKS = {2: ["0.2"], 3: ["0.2", "1.1"], 4: ["0.2", "1.4"], 7: ["0.2", "1.4", "2.8", "4.4"]}


@pytest.fixture
def server() -> Iterator[TemplateServer]:
    with template_server(template=RAW) as running:
        yield running


def model_on(server: TemplateServer, **options: Any) -> VllmModel:
    return VllmModel("tiny", base_url=server.url, **options)


def asked(*lengths: int, template: Template = "open", text: str = CLAIM) -> ScorePrefixes:
    video = DecodedMedia(Clip(FRAMES, TIMES, np.arange(len(FRAMES))), video=True)
    prompt = Prompt((Turn("user", (VideoPrefix(), text)),), prefill=CUE, template=template)
    return ScorePrefixes(video, lengths, (prompt,), WORDS)


def naive(length: int, template: Template = "open", text: str = CLAIM) -> tuple[float, float]:
    """The score of a prefix, with its tokens and pixels written out."""
    shown = [*range(length), *([length - 1] if length % 2 else [])]
    videos = [FRAMES[shown[i : i + 2]] for i in range(0, len(shown), 2)]
    return scores(naive_ids(HEADS[template], BLOCKS[length], 6, text + CUE), videos)


@pytest.mark.parametrize("template", ["open", "none"])
def test_every_prefix_is_scored_on_the_tokens_and_pixels_of_the_question(
    template: Template, server: TemplateServer
) -> None:
    found = model_on(server).score_prefixes(asked(7, 2, 4, 3, template=template))
    assert [tuple(row) for row in found.logprobs[0]] == [naive(n, template) for n in (7, 2, 4, 3)]
    lengths = [
        sum(part["type"] == "video_url" for part in body["messages"][0]["content"]) for body in server.bodies
    ]
    assert lengths == sorted(lengths), "shorter prefixes come first"


def test_one_probe_decides_and_spends_no_call(server: TemplateServer) -> None:
    model = model_on(server)
    assert model.describe()["question"] == {"prefixes": "raw", "frames": "ffv1 pairs, qwen-vl 1"}
    model.score_prefixes(asked(2, 4))
    assert server.tokenized == 1
    assert len(server.bodies) == 2


def test_a_longer_prefix_sends_only_what_is_new(server: TemplateServer) -> None:
    model_on(server).score_prefixes(asked(2, 4, 7))
    sent = [
        [part["video_url"] is not None for part in body["messages"][0]["content"] if "uuid" in part]
        for body in server.bodies
    ]
    assert sent == [[True], [False, True], [False, False, True, True]]


def test_two_runs_give_the_same_frames_other_names(server: TemplateServer) -> None:
    for _ in range(2):
        model_on(server).score_prefixes(asked(2))
    first, second = (body["messages"][0]["content"][1]["uuid"] for body in server.bodies)
    assert first != second


def test_what_the_server_lost_is_sent_again(server: TemplateServer) -> None:
    model = model_on(server)
    model.score_prefixes(asked(2))
    server.kept.clear()
    with pytest.raises(RefusedError, match="Sending the frames again") as caught:
        model.score_prefixes(asked(4))
    assert caught.value.retry_after == 0.0
    assert tuple(model.score_prefixes(asked(4)).logprobs[0, 0]) == naive(4)


def test_a_server_that_keeps_nothing_is_sent_everything() -> None:
    with template_server(template=RAW, keeps=False) as server:
        model, refused = model_on(server), 0
        for _ in range(12):
            try:
                assert tuple(model.score_prefixes(asked(4)).logprobs[0, 0]) == naive(4)
            except RefusedError:
                refused += 1
        assert refused == 3


SETUPS: dict[str, tuple[dict[str, Any], str]] = {
    "the model's own template": ({"template": OWN}, "other tokens"),
    "marks around a video that stay there": (
        {"template": RAW.replace("'<|video_pad|>' -", f"'{WRAPPED}' -")},
        "other tokens",
    ),
    "other timestamps": ({"template": RAW, "late": 0.1}, "other tokens"),
}


@pytest.mark.parametrize(("spec", "why"), SETUPS.values(), ids=SETUPS)
def test_a_server_that_reads_otherwise_is_asked_in_its_template_and_that_is_said(
    spec: dict[str, Any], why: str
) -> None:
    with template_server(**spec) as server:
        model = model_on(server)
        assert model.describe()["question"] == {"prefixes": "chat"}
        assert not server.bodies, "no call is spent on finding out"
        with pytest.warns(UserWarning, match=rf"another question than hf/ asks.*{why}.*chat-template"):
            model.score_prefixes(asked(2, 4))
        assert all("chat_template_kwargs" not in body for body in server.bodies)
        with pytest.raises(ModelError, match=r"cannot be asked token by token.*chat-template"):
            model_on(server, question="raw").describe()


def test_the_chat_question_is_asked_without_a_word_where_it_is_meant(server: TemplateServer) -> None:
    model = model_on(server, question="chat")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score_prefixes(asked(2))
    assert model.describe()["question"] == {"prefixes": "chat"}
    assert server.tokenized == 0
    assert "continue_final_message" in server.bodies[0]


@pytest.mark.parametrize("template", [OWN, RAW], ids=["own", "raw"])
@pytest.mark.parametrize("place", [WRAPPED, "<|video_pad|>"], ids=["before 5.10", "since 5.10"])
def test_either_kind_of_placeholder_is_found_out(template: str, place: str) -> None:
    with template_server(template=template, place=place, trusts=template == OWN) as server:
        model = model_on(server)
        assert tuple(model.score_prefixes(asked(7)).logprobs[0, 0]) == naive(7)
        assert ("chat_template" in server.bodies[0]) == (template == OWN)


@pytest.mark.parametrize("change", [{"late": 0.1}, {"returns_ids": False}, {"template": OWN}])
def test_an_answer_to_other_tokens_is_never_a_score(change: dict[str, Any], server: TemplateServer) -> None:
    model = model_on(server)
    model.score_prefixes(asked(2))
    for name, value in change.items():
        setattr(server, name, value)
    with pytest.raises(ModelError, match="other tokens than the question has"):
        model.score_prefixes(asked(4))


def test_a_word_of_several_tokens_is_refused(server: TemplateServer) -> None:
    request = ScorePrefixes(asked(2).video, (2,), asked(2).prompts, (" True", " not at all"))
    with pytest.raises(ModelError, match="' not at all' is not exactly one token after"):
        model_on(server).score_prefixes(request)
    assert not server.bodies


def test_the_users_own_words_can_be_scored(server: TemplateServer) -> None:
    video = asked(2).video
    prompt = Prompt((Turn("user", (VideoPrefix(), "The task is: open the")),), template="open")
    found = model_on(server).score_prefixes(ScorePrefixes(video, (2,), (prompt,), (" drawer", " door")))
    expected = naive_ids(HEADS["open"], BLOCKS[2], 6, "The task is: open the")
    assert tuple(found.logprobs[0, 0]) == scores(expected, [FRAMES[:2]])


def test_other_values_of_the_option_are_refused() -> None:
    with pytest.raises(OptionError, match="question must be auto, raw or chat, got 'open'"):
        VllmModel("tiny", question="open")  # type: ignore[arg-type]


TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "Is it  open?\n"}]},
    {"role": "assistant", "content": "  Yes.\n"},
    {"role": "user", "content": [{"type": "video"}, {"type": "text", "text": "Now?"}]},
]


@pytest.mark.parametrize(
    "own",
    [
        OWN,
        CHATML,
        OWN + "\n",
        OWN + "\n\n",
        "\n  " + OWN + "  \n",
        "  {% if true %}\n  " + OWN + "\n  {% endif %}",
        OWN + "tail",
        "{# first #}\n" + OWN + "{{ '\n' }}",
    ],
)
@pytest.mark.parametrize("open_answer", [True, False])
def test_other_requests_get_the_models_own_template_unchanged(own: str, open_answer: bool) -> None:
    options = {"add_generation_prompt": open_answer}
    assert rendered(template_with_raw_turn(own), TALK, **options) == rendered(own, TALK, **options)


def judged(folder: Path, server: TemplateServer, **options: Any) -> Run:
    episodes = [episode(name, views={"top": FakeView(mark=name)}) for name in ("one", "two", "three")]
    judge = stepscore.get_judge("topreward", model=model_on(server), prefixes=4, size=64)
    call_options = CallOptions(cache_path=folder / "cache.sqlite", **options)
    with stamina.set_testing(True, attempts=100, cap=True):
        return stepscore.score(episodes, judge, out=folder / "run", call_options=call_options)


def test_a_run_says_which_question_was_asked(tmp_path: Path) -> None:
    questions = {}
    for name, template in (("raw", RAW), ("chat", OWN)):
        with template_server(template=template) as server, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run = judged(tmp_path / name, server)
        info = json.loads((run.path / "run.json").read_text())
        questions[name] = (info["protocol"]["model"]["question"]["prefixes"], run.protocol.hash)
    assert questions["raw"][0] == "raw"
    assert questions["chat"][0] == "chat"
    assert questions["raw"][1] != questions["chat"][1]


def test_a_run_keeps_what_the_prefix_cache_saved(server: TemplateServer, tmp_path: Path) -> None:
    model_on(server).score_prefixes(asked(2, 4, 7))  # of somebody else, before
    before = server.looked_up, server.found
    saved = judged(tmp_path, server, connections=1).info["prefix_cache"]
    assert saved == {"looked_up": server.looked_up - before[0], "found": server.found - before[1]}
    assert saved["found"] > 0.6 * saved["looked_up"]
    assert judged(tmp_path, server).info["prefix_cache"] == {"looked_up": 0, "found": 0}


def test_the_dry_run_counts_a_pair_of_frames_as_one_image(server: TemplateServer, tmp_path: Path) -> None:
    episodes = [episode("one", views={"top": FakeView(mark="one")})]
    judge = stepscore.get_judge("topreward", model=model_on(server), prefixes=4, size=None)
    counted = dry_run(episodes, judge, CallOptions(cache=False))
    assert not server.bodies
    judged(tmp_path, server, connections=1)
    real = [len(ids) for ids in server.prompts][: counted.calls]
    assert counted.tokens_in == pytest.approx(sum(real), rel=0.25)


def test_a_server_that_restarts_in_mid_run_fails_nothing_and_answers_nothing_twice(tmp_path: Path) -> None:
    """It goes away during the run, and comes back without the frames it had, to fail once more with a 500."""
    state = TemplateServer(template=RAW)
    said: list[str] = []
    listening = Listening(state)

    def stop_at_the_sixth(number: int) -> None:
        if number == 6:
            threading.Thread(target=listening.stop).start()

    def start_again(line: str) -> None:
        if not said:
            state.kept.clear()
            state.poisoned = 1
            listening.start()
        said.append(line)

    state.on_answer = stop_at_the_sixth
    try:
        run = judged(tmp_path, state, on_wait=start_again, connections=1, retries=6)
    finally:
        listening.stop()
    assert [row["error"] for row in run.judgements().to_pylist()] == [None] * 3
    assert run.curves().column("progress").null_count == 0
    assert "next attempt in 8 s" in said[0]
    assert "Waiting at most 600 s; change this with -E patience." in said[0]
    assert state.answered == sum(run.usage().column("calls").to_pylist()) == 12
