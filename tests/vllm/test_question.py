"""A model on vLLM answers what the same model answers under ``hf/``: token by token, and to 1e-4 nats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import stepscore
from stepscore.episodes import Clip, Episode, View, ViewInfo, perturb
from stepscore.models import DecodedMedia, Model, Prompt, Score, Scores, Turn, get_model
from stepscore.models.api.raw_turn import ways
from stepscore.runs import CallOptions, Run
from stepscore.types import FloatArray, Frames
from tests.vllm.conftest import Embedded

NATS = 1e-4
SIZE = 128
"""Side of the frames that the embedded judge was trained on."""
WORDS = (" True", " False")


def on_vllm(embedded: Embedded, **options: Any) -> Model:
    return get_model(embedded.server.model, base_url=embedded.server.url, **options)


def in_process(embedded: Embedded) -> Model:
    return get_model(f"hf/{embedded.checkpoint}", dtype="float32", device="cpu")


def judged(model: Model, episodes: list[Episode], out: Path, **options: Any) -> Run:
    judge = stepscore.get_judge("topreward", model=model, size=SIZE, **options)
    run = stepscore.score(episodes, judge, out=out, call_options=CallOptions(cache=False))
    assert run.judgements().column("error").to_pylist() == [None] * len(episodes)
    return run


def logprobs(run: Run) -> Any:
    curves = run.curves()
    return np.stack([curves.column(name).to_numpy() for name in ("logp_true", "logp_false")])


def question(run: Run) -> Any:
    return json.loads((run.path / "run.json").read_text())["protocol"]["model"]["question"]


def test_prefixes_of_three_rollouts_score_as_in_process_and_most_of_each_is_in_the_cache(
    embedded: Embedded, rollouts: list[Episode], tmp_path: Path
) -> None:
    here = judged(in_process(embedded), rollouts, tmp_path / "here")
    before = embedded.server.computed()
    there = judged(on_vllm(embedded), rollouts, tmp_path / "there")
    computed = embedded.server.computed() - before

    assert question(there)["prefixes"] == "raw"
    apart = np.abs(logprobs(there) - logprobs(here))
    one_pass = sum(here.usage().column("tokens_in").to_pylist())
    saved = there.info["prefix_cache"]
    hits = saved["found"] / saved["looked_up"]
    print(
        f"\n{apart.shape[1]} prefixes, {apart.max():.1e} nats apart at most; tokens computed: {computed} by the "
        f"server, {one_pass} in one pass in process; prefix cache: {saved['found']} of {saved['looked_up']} "
        f"tokens ({100 * hits:.1f} %)"
    )
    assert apart.shape == (2, 48)
    assert apart.max() < NATS
    assert computed == saved["looked_up"] - saved["found"]
    assert computed <= 2 * one_pass
    assert hits > 0.6


def test_the_papers_own_form_scores_as_in_process(
    embedded: Embedded, rollouts: list[Episode], tmp_path: Path
) -> None:
    runs = [
        judged(model(embedded), rollouts[:1], tmp_path / model.__name__, prefixes=4, form="paper")
        for model in (in_process, on_vllm)
    ]
    assert np.abs(np.subtract(*map(logprobs, runs))).max() < NATS


@dataclass(frozen=True)
class UpperPart:
    """The upper three fifths of a view's frames, at the size they were recorded in."""

    view: View

    def info(self) -> ViewInfo:
        info = self.view.info()
        return info._replace(height=3 * info.height // 5)

    def timestamps(self) -> FloatArray:
        return self.view.timestamps()

    def read(self, indices: Sequence[int], size: int | None = None) -> Frames:
        frames = self.view.read(indices)
        return frames[:, : 3 * frames.shape[1] // 5]

    def digest(self) -> bytes:
        return b"upper part of " + self.view.digest()

    def location(self) -> str:
        return self.view.location()


def test_frames_that_are_not_square_and_of_another_size_score_as_in_process(
    embedded: Embedded, rollouts: list[Episode], tmp_path: Path
) -> None:
    """Resized in the client, so that whichever way the server resizes does not matter."""
    narrow = [
        replace(e, views={name: UpperPart(view) for name, view in e.views.items()}) for e in rollouts[:1]
    ]
    runs = []
    for model in (in_process(embedded), on_vllm(embedded)):
        judge = stepscore.get_judge("topreward", model=model, size=None, prefixes=3)
        folder = tmp_path / model.name.partition("/")[0]
        runs.append(stepscore.score(narrow, judge, out=folder, call_options=CallOptions(cache=False)))
    assert np.abs(np.subtract(*map(logprobs, runs))).max() < NATS


def test_other_frames_are_another_score(embedded: Embedded, rollouts: list[Episode], tmp_path: Path) -> None:
    """Else equality would mean nothing."""
    model = on_vllm(embedded)
    shown = judged(model, rollouts[:1], tmp_path / "shown", prefixes=1)
    reversed_ = judged(model, [perturb(rollouts[0], "reversed")], tmp_path / "reversed", prefixes=1)
    assert np.abs(logprobs(reversed_) - logprobs(shown)).max() > 100 * NATS


def test_within_the_chat_template_it_is_another_question(
    embedded: Embedded, rollouts: list[Episode], tmp_path: Path
) -> None:
    raw, chat = (
        judged(on_vllm(embedded, question=name), rollouts[:1], tmp_path / name, prefixes=3)
        for name in ("raw", "chat")
    )
    assert (question(raw)["prefixes"], question(chat)["prefixes"]) == ("raw", "chat")
    assert raw.protocol.hash != chat.protocol.hash
    apart = np.abs(logprobs(raw) - logprobs(chat)).max()
    print(f"\nwithin the chat template: {apart:.1f} nats apart")
    assert apart > 100 * NATS


def test_a_server_that_does_not_trust_a_requests_template_is_asked_in_its_own_and_that_is_said(
    embedded: Embedded, rollouts: list[Episode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a server without the template file: only the template that comes with a request is left to try."""
    monkeypatch.setattr("stepscore.models.api.vllm.ways", lambda: ways()[2:])
    with pytest.warns(UserWarning, match=r"another question than hf/ asks.*--trust-request-chat-template"):
        run = judged(on_vllm(embedded), rollouts[:1], tmp_path, prefixes=1)
    assert question(run) == {"prefixes": "chat"}


def conversation(frames: Any, prefill: str) -> Prompt:
    shown = [DecodedMedia(Clip(frame[None], np.zeros(1), np.zeros(1, dtype=np.int64))) for frame in frames]
    first = Turn("user", ("Before:", shown[0], "After:", shown[1], "Is the drawer open? True or False?"))
    return Prompt(
        (Turn("system", ("Be brief.",)), first, Turn("assistant", ("True",)), Turn("user", ("Sure?",))),
        prefill=prefill,
    )


@pytest.mark.parametrize("prefill", ["", "The answer is:"])
def test_a_conversation_with_images_of_their_own_size_scores_as_in_process(
    prefill: str, embedded: Embedded, rollouts: list[Episode]
) -> None:
    """Images of at least 65,536 pixels, which neither side resizes."""
    view = rollouts[0].views[rollouts[0].main_view]
    frames = view.read([0, 80], size=256)
    assert frames.shape[1:3] == (256, 256)
    request = Score(conversation(frames, prefill), WORDS)
    here, there = (model.score(request.prompt, WORDS) for model in (in_process(embedded), on_vllm(embedded)))
    assert isinstance(here, Scores)
    apart = np.abs(np.subtract(here.logprobs, there.logprobs)).max()
    print(f"\na conversation: {apart:.1e} nats apart")
    assert apart < NATS
    assert here.tokens_in == there.tokens_in
