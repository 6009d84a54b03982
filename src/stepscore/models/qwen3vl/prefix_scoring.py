"""Scoring the prefixes of a video three ways that give the same numbers.

``naive`` reads every prompt from its first token: K * S full passes of the model as transformers has it. It
is slow, needs no assumption, and is what the others are held against. ``incremental`` reads the video once,
stops after each prefix to read the text, and forgets the text again: K * S short passes. ``shared_kv_cache`` reads
the video once and then all texts of all prefixes at once, each seeing only its own prefix.

Reading the video once costs N tokens, K suffixes of s tokens cost K * s, against the sum of all prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers.cache_utils import Cache

from stepscore.episodes import Clip, resize_frames
from stepscore.errors import ModelError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.qwen3vl.inputs import fitted_size
from stepscore.models.qwen3vl.network import Block, BlockFeatures, Qwen3VLNetwork, shared_kv_cache
from stepscore.models.qwen3vl.prefix_batches import Parts, Suffixes, chunks, suffixes_of
from stepscore.models.qwen3vl.prefix_plan import (
    Branch,
    PrefixPlan,
    PromptLayout,
    TokenSpan,
    concat_spans,
    plan_shared_prefixes,
)
from stepscore.types import FloatArray, Frames

MEMORY_LIMIT_BYTES = 1 << 30
"""Bytes for temporary values, where nothing else is said."""


@dataclass(frozen=True, eq=False)
class PreparedVideo:
    """A video ready to be scored: its frames at their fitted size, and the plan."""

    frames: Frames
    plan: PrefixPlan


def prepare_video(network: Qwen3VLNetwork, request: RenderedPrefixes) -> PreparedVideo:
    """Return the frames of a request at their fitted size, and its plan."""
    clip = request.clip
    frames, layout = fit_frames(network, clip, request.head)
    plan = plan_shared_prefixes(layout, clip.timestamps, request.lengths, request.tails, request.candidates)
    check_length(network, plan.branches[-1])
    return PreparedVideo(frames, plan)


def fit_frames(network: Qwen3VLNetwork, clip: Clip, head: str) -> tuple[Frames, PromptLayout]:
    """A video's frames at the size the network takes, and how its prompts are put together."""
    geometry = network.geometry
    height, width = clip.frames.shape[1:3]
    size = fitted_size(height, width, geometry.unit, geometry.video_pixels)
    layout = PromptLayout(network.encode, network.tokens, geometry.grid(size), geometry.temporal, head)
    return resize_frames(clip.frames, size), layout


def check_length(network: Qwen3VLNetwork, branch: Branch) -> None:
    """Refuse a prompt that is longer than the model was made for.

    Raises:
        ModelError: It reaches a position that the model does not know.
    """
    last = max(int(span.positions.max(initial=0)) for span in (branch.stem, *branch.tails))
    if last >= network.longest:
        raise ModelError(
            f"The prompt is {last + 1} positions long, and the model was made for {network.longest}. "
            "Show fewer frames, or smaller ones."
        )


@torch.inference_mode()
def score_shared(
    network: Qwen3VLNetwork, videos: Sequence[PreparedVideo], limit: int = MEMORY_LIMIT_BYTES
) -> list[FloatArray]:
    """Log-probabilities (S, K, C) of each video: the vision encoder once a block, one prefill, then all suffixes.

    Args:
        network: Who reads.
        videos: Read side by side; shorter ones are filled up, which changes no number.
        limit: Bytes for the temporary values of one pass over suffixes, and of one call of the vision encoder.
    """
    seen = [network.see(video.frames, video.plan.seen, limit) for video in videos]
    cache = network.cache()
    bases = [video.plan.base for video in videos]
    if any(len(base) for base in bases):
        blocks = [(f, video.plan.blocks) for f, video in zip(seen, videos, strict=True)]
        network.read(bases, _gathered(blocks), cache=cache)
    cut = [chunks(video.plan, network.cost, limit // len(videos)) for video in videos]
    told = [_unknown(video.plan) for video in videos]
    for turn in range(max(map(len, cut))):
        who = [index for index, parts in enumerate(cut) if turn < len(parts)]
        plans, parts = [videos[i].plan for i in who], [cut[i][turn] for i in who]
        answers = score_suffixes(network, cache, who, plans, parts, [seen[i] for i in who])
        for index, answer in zip(who, answers, strict=True):
            for (branch, tail), values in answer.items():
                told[index][tail, branch] = values
    return [values[:, list(video.plan.which)] for values, video in zip(told, videos, strict=True)]


def score_suffixes(
    network: Qwen3VLNetwork,
    cache: Cache,
    who: Sequence[int],
    plans: Sequence[PrefixPlan],
    parts: Sequence[Parts],
    seen: Sequence[BlockFeatures],
) -> list[dict[tuple[int, int], FloatArray]]:
    """One pass over parts of some videos' plans, on top of what the cache holds of these videos.

    Args:
        network: Who reads.
        cache: The videos' bases, read before; it stays as it is.
        who: Number of each video in the cache.
        plans: Its plan.
        parts: Which branches and tails of it.
        seen: What the vision encoder saw in its blocks.

    Returns:
        For each video, the log-probabilities by branch and tail, each of shape (C,).
    """
    suffixes = [suffixes_of(plan, part) for plan, part in zip(plans, parts, strict=True)]
    reach = max(s.reach for s in suffixes)
    past = shared_kv_cache(cache, who, reach) if reach else None
    hidden = network.read(
        [s.span for s in suffixes],
        _gathered([(f, s.blocks) for f, s in zip(seen, suffixes, strict=True)]),
        mask=network.mask(_visible(suffixes, reach)),
        cache=past,
    )
    reads = [(video, *read) for video, s in enumerate(suffixes) for read in s.reads]
    picked = hidden[[video for video, *_ in reads], [row for *_, row in reads]]
    values = network.logprobs(picked, np.stack([plans[video].targets[tail] for video, _, tail, _ in reads]))
    answers: list[dict[tuple[int, int], FloatArray]] = [{} for _ in plans]
    for (video, branch, tail, _), value in zip(reads, values, strict=True):
        answers[video][branch, tail] = value
    return answers


@torch.inference_mode()
def score_incremental(
    network: Qwen3VLNetwork, video: PreparedVideo, limit: int = MEMORY_LIMIT_BYTES
) -> FloatArray:
    """Log-probabilities (S, K, C): the video read on from prefix to prefix, each text read and forgotten."""
    plan = video.plan
    seen = network.see(video.frames, plan.seen, limit)
    cache, told, end, blocks = network.cache(), _unknown(plan), 0, 0
    for number, branch in enumerate(plan.branches):
        for tail, rest in enumerate(branch.tails):
            span = concat_spans([_between(plan.base, end, branch.end), branch.stem, rest])
            new = [*plan.blocks[blocks : branch.blocks], *([branch.block] if branch.block else [])]
            hidden = network.read([span], _gathered([(seen, new)]), cache=cache)
            told[tail, number] = network.logprobs(hidden[0, -1:], plan.targets[tail : tail + 1])[0]
            cache.crop(-(len(branch.stem) + len(rest)))  # negative: how many to forget, in every release
            end, blocks = branch.end, branch.blocks
    return told[:, list(plan.which)]


def _between(span: TokenSpan, start: int, stop: int) -> TokenSpan:
    return TokenSpan(span.ids[start:stop], span.positions[:, start:stop])


def _gathered(wanted: Sequence[tuple[BlockFeatures, Sequence[Block]]]) -> tuple[Tensor, ...] | None:
    """Embeddings and deepstack of blocks of several videos, video after video; ``None`` if there are none."""
    found = [features.of(blocks) for features, blocks in wanted if blocks]
    return tuple(torch.cat(layer) for layer in zip(*found, strict=True)) if found else None


def _visible(suffixes: Sequence[Suffixes], reach: int) -> NDArray[np.bool_]:
    """What each token sees, video by video; a token that only fills up sees itself, as none may see nothing."""
    longest = max(len(s.span) for s in suffixes)
    seen = np.zeros((len(suffixes), longest, reach + longest), dtype=np.bool_)
    seen[:, np.arange(longest), reach + np.arange(longest)] = True
    for video, s in zip(seen, suffixes, strict=True):
        rows = len(s.span)
        video[:rows, : reach + rows] = s.visible(reach)
    return seen


def _unknown(plan: PrefixPlan) -> FloatArray:
    tails, candidates = plan.targets.shape
    return np.full((tails, len(plan.branches), candidates), np.nan)
