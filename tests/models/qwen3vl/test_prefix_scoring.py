"""Shared scoring gives the numbers of full passes, and every known way to get it wrong is noticed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from stepscore.errors import EpisodeError, ModelError, OptionError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl import prefix_plan, prefix_scoring
from stepscore.models.qwen3vl.full_forward import score_naive
from stepscore.models.qwen3vl.network import BlockFeatures, Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_batches import Suffixes, chunks
from stepscore.models.qwen3vl.prefix_plan import Branch, PrefixPlan, TokenSpan, plan_shared_prefixes
from stepscore.models.qwen3vl.prefix_scoring import (
    check_sharing,
    prepare_video,
    score_incremental,
    score_shared,
)
from stepscore.models.qwen3vl.prefix_stream import PrefixStream
from stepscore.models.qwen3vl.prompts import QwenInputs
from stepscore.types import FloatArray
from tests.models import tiny

EXACT = 1e-4
"""Nats within which shared and full passes agree in float32."""

NETWORK = tiny.network()
EAGER = tiny.network(attention="eager")
THREE = tiny.tails(*tiny.INSTRUCTIONS)


def prompts(network: Qwen3VLNetwork) -> QwenInputs:
    return QwenInputs(network.encode, network.tokens, network.geometry)


def full(request: RenderedPrefixes, network: Qwen3VLNetwork = NETWORK) -> FloatArray:
    return score_naive(network.model, prompts(network), request)[0]


def video(
    n: int, lengths: Sequence[int], *, tails: tuple[str, ...] = THREE[:1], head: str = tiny.HEAD, **clip: Any
) -> RenderedPrefixes:
    return RenderedPrefixes(tiny.clip(n, **clip), tuple(lengths), head, tails, tiny.CANDIDATES)


IRREGULAR = np.cumsum([0.0, 0.04, 1.3, 0.2, 0.2, 2.7, 0.033, 0.9, 0.1, 0.4])
CASES = {
    "even": video(16, range(2, 17, 2)),
    "odd": video(15, range(1, 16, 2)),
    "one frame": video(1, [1]),
    "one frame of many": video(6, [1]),
    "non-square": video(7, range(1, 8), height=64, width=160),
    "resized": video(5, (2, 5), height=50, width=75),
    "irregular times": video(10, range(1, 11), times=IRREGULAR),
    "no head": video(5, range(1, 6), head=""),
    "a head that shares a token with the time": video(5, range(1, 6), head="The robot <"),
    "chat": video(
        6,
        (1, 3, 6),
        head="<|im_start|>system\nYou judge.<|im_end|>\n<|im_start|>user\n",
        tails=tuple(f"{tail}<|im_end|>\n<|im_start|>assistant\n" for tail in THREE[:2]),
    ),
    "unsorted and repeated": video(9, (8, 1, 5, 8, 2)),
    "thirty-two prefixes": video(32, range(1, 33), height=32, width=32),
    "three instructions": video(9, (2, 3, 8, 9), tails=THREE),
    "a text that another begins with": video(
        4, (2, 3), tails=("The answer", "The answer is:", "The answer is")
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_shared_and_incremental_scores_are_those_of_full_passes(case: str) -> None:
    request = CASES[case]
    reference = full(request)
    ready = prepare_video(NETWORK, request)
    assert reference.shape == (len(request.tails), len(request.lengths), 2)
    assert np.max(np.abs(score_shared(NETWORK, [ready])[0] - reference)) < EXACT
    assert np.max(np.abs(score_incremental(NETWORK, ready) - reference)) < EXACT


def test_the_video_matters_to_the_small_model() -> None:
    """Otherwise the tests above would show nothing."""
    scores = full(CASES["even"])[0, :, 0]
    assert np.ptp(scores) > 0.05


@pytest.mark.parametrize("limit", [1, 100_000, 1_000_000])
def test_suffixes_in_chunks_give_the_same(limit: int) -> None:
    request = video(9, range(1, 10), tails=THREE)
    ready = prepare_video(NETWORK, request)
    passes = len(chunks(ready.plan, NETWORK.cost, limit))
    assert passes > 1
    assert np.max(np.abs(score_shared(NETWORK, [ready], limit)[0] - full(request))) < EXACT


@pytest.mark.parametrize("limit", [1 << 30, 300_000])
def test_videos_side_by_side_give_the_same(limit: int) -> None:
    requests = [CASES[case] for case in ("even", "non-square", "one frame", "three instructions", "chat")]
    answers = score_shared(NETWORK, [prepare_video(NETWORK, request) for request in requests], limit)
    for request, answer in zip(requests, answers, strict=True):
        assert np.max(np.abs(answer - full(request))) < EXACT


def test_eager_attention_gives_the_same() -> None:
    request = video(7, range(1, 8), tails=THREE)
    reference = full(request, EAGER)
    assert np.max(np.abs(score_shared(EAGER, [prepare_video(EAGER, request)])[0] - reference)) < EXACT
    assert np.max(np.abs(reference - full(request))) < EXACT


def test_half_precision_stays_near_and_is_checked_with_its_own_tolerance() -> None:
    network = dataclasses.replace(NETWORK, model=tiny.network().model.to(torch.float16))
    request = video(5, range(1, 6))
    assert np.max(np.abs(score_shared(network, [prepare_video(network, request)])[0] - full(request))) < 0.1
    assert check_sharing(network, prompts(network), "half") < 0.1


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_a_growing_video_scores_as_the_whole_one_would(step: int) -> None:
    request = video(10, range(step, 11, step), times=IRREGULAR, tails=THREE, height=64, width=96)
    reference = full(request)
    stream = PrefixStream(NETWORK, request.head)
    for k, length in enumerate(request.lengths):
        stream.append(tiny.part(request.clip, length - step, length))
        assert len(stream) == length
        result = stream.score(request.tails, request.candidates)
        assert np.max(np.abs(result - reference[:, k])) < EXACT
        assert np.array_equal(
            result, stream.score(request.tails, request.candidates)
        )  # asking leaves no trace


def test_a_growing_video_refuses_what_does_not_follow() -> None:
    stream = PrefixStream(NETWORK, "")
    with pytest.raises(OptionError, match="append a frame"):
        stream.score(THREE, tiny.CANDIDATES)
    clip = tiny.clip(4)
    stream.append(tiny.part(clip, 0, 0))
    stream.append(tiny.part(clip, 1, 3))
    with pytest.raises(EpisodeError, match="not later"):
        stream.append(tiny.part(clip, 2, 3))
    with pytest.raises(EpisodeError, match="appended to frames"):
        stream.append(tiny.clip(1, height=96))
    assert len(stream) == 2


def test_a_prompt_longer_than_the_model_is_refused() -> None:
    made = tiny.tokenizer()
    short = tiny.qwen3vl(made, max_position_embeddings=40)
    network = dataclasses.replace(NETWORK, model=short)
    with pytest.raises(ModelError, match="made for 40"):
        prepare_video(network, video(16, (16,)))


# Known mistakes. Each passes silently without a comparison with full passes.


def drop_deepstack(monkeypatch: pytest.MonkeyPatch) -> None:
    right = BlockFeatures.select
    monkeypatch.setattr(
        BlockFeatures,
        "select",
        lambda self, b: (right(self, b)[0], *(0 * deep for deep in right(self, b)[1:])),
    )


def plain_causal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    def visible(self: Suffixes, base: int) -> Any:
        rows = len(self.span)
        return np.concatenate([np.ones((rows, base), bool), np.tri(rows, dtype=bool)], axis=1)

    monkeypatch.setattr(Suffixes, "visible", visible)


def mask_of_zeros_and_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Qwen3VLNetwork, "mask", lambda self, visible: torch.from_numpy(visible)[:, None].to(self.dtype)
    )


def boolean_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Qwen3VLNetwork, "mask", lambda self, visible: torch.from_numpy(visible)[:, None])


def flat_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(ids: Any, pad: int, grid: tuple[int, int], start: int) -> tuple[Any, int]:
        return np.tile(np.arange(start, start + len(ids)), (3, 1)), start + len(ids)

    monkeypatch.setattr(prefix_plan, "positions", flat)


def replanned(monkeypatch: pytest.MonkeyPatch, change: Callable[..., PrefixPlan]) -> None:
    right = plan_shared_prefixes
    monkeypatch.setattr(prefix_scoring, "plan_shared_prefixes", lambda *given: change(right, *given))


def positions_after_the_whole_video(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(right: Callable[..., PrefixPlan], *given: Any) -> PrefixPlan:
        plan = right(*given)
        starts = [int(b.stem.positions[0, 0]) for b in plan.branches]

        def moved(span: TokenSpan, by: int) -> TokenSpan:
            return TokenSpan(span.ids, span.positions + by)

        branches = [
            Branch(b.blocks, b.end, b.block, moved(b.stem, by), tuple(moved(t, by) for t in b.tails))
            for b, by in zip(plan.branches, [max(starts) - start for start in starts], strict=True)
        ]
        return dataclasses.replace(plan, branches=tuple(branches))

    replanned(monkeypatch, change)


def odd_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(
        right: Callable[..., PrefixPlan], layout: Any, times: Any, lengths: Any, *rest: Any
    ) -> PrefixPlan:
        return right(layout, times, [min(n + n % 2, len(times)) for n in lengths], *rest)

    replanned(monkeypatch, change)


def odd_rounded_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(
        right: Callable[..., PrefixPlan], layout: Any, times: Any, lengths: Any, *rest: Any
    ) -> PrefixPlan:
        return right(layout, times, [max(1, n - n % 2) for n in lengths], *rest)

    replanned(monkeypatch, change)


def odd_block_with_the_time_of_the_whole_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def time(times: FloatArray, frames: tuple[int, ...]) -> float:
        return float(times[frames[0]] + times[min(frames[0] + 1, len(times) - 1)]) / 2

    monkeypatch.setattr(prefix_plan, "block_time", time)


MISTAKES: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Qwen3VLNetwork]] = {
    "deepstack dropped": (drop_deepstack, NETWORK),
    "plain causal mask": (plain_causal_mask, NETWORK),
    "0/1 mask with sdpa": (mask_of_zeros_and_ones, NETWORK),
    "boolean mask with eager attention": (boolean_mask, EAGER),
    "flat positions": (flat_positions, NETWORK),
    "positions after the whole video": (positions_after_the_whole_video, NETWORK),
    "odd rounded up": (odd_rounded_up, NETWORK),
    "odd rounded down": (odd_rounded_down, NETWORK),
    "odd block with the even time": (odd_block_with_the_time_of_the_whole_one, NETWORK),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_every_known_mistake_shows_and_is_refused(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, network = MISTAKES[mistake]
    request = video(
        8, range(1, 9), times=np.cumsum([0.0, 0.4, 1.3, 0.6, 2.7, 0.5, 0.9, 1.1]), height=64, width=96
    )
    reference = full(request, network)
    assert check_sharing(network, prompts(network), "tiny") < EXACT
    make(monkeypatch)
    wrong = score_shared(network, [prepare_video(network, request)])[0]
    assert np.max(np.abs(wrong - reference)) > 10 * EXACT, "the comparison would not notice"
    with pytest.raises(ModelError, match="scoring=naive"):
        check_sharing(network, prompts(network), "tiny")


def test_a_model_whose_text_looks_ahead_is_refused() -> None:
    network = tiny.network()
    network.model.config.text_config.is_causal = False
    for layer in network.model.model.language_model.layers:
        layer.self_attn.is_causal = False
    with pytest.raises(ModelError, match="not exact for this model"):
        check_sharing(network, prompts(network), "ahead")


@pytest.mark.parametrize("scoring", ["shared", "incremental"])
def test_a_model_whose_images_look_at_each_other_is_refused(
    scoring: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.models.qwen3_vl import modeling_qwen3_vl

    def one_sequence(grid: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, int]:
        total = int(grid.prod(-1).sum())
        return torch.tensor([0, total], dtype=torch.int32), total

    monkeypatch.setattr(modeling_qwen3_vl, "get_vision_attention_seqlens", one_sequence)
    with pytest.raises(ModelError, match="not exact for this model"):
        check_sharing(NETWORK, prompts(NETWORK), "together", scoring)


def test_the_mixture_of_experts_shares_exactly_too() -> None:
    network = tiny.moe_network()
    assert check_sharing(network, prompts(network), "moe") < EXACT
