"""Scoring of the prefixes of a video, in three ways that give the same numbers.

``naive`` (``full_forward.py``) reads every prompt from its first token: K * S full passes of the unchanged model. It
is slow, needs no assumption, and is the reference for the others. ``incremental`` reads the video once into the KV
cache, stops after each prefix to read the text, and crops the text from the cache again: K * S short passes.
``shared`` reads the video once and then all texts of all prefixes together, each attending to its own prefix.

Reading the video once costs N tokens, K suffixes of s tokens cost K * s, against the sum of all prompts.
"""

from __future__ import annotations

import logging
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
from stepscore.models.qwen3vl.full_forward import PrefixInputs, score_naive
from stepscore.models.qwen3vl.inputs import fitted_size
from stepscore.models.qwen3vl.network import Block, BlockFeatures, Qwen3VLNetwork, shared_kv_cache
from stepscore.models.qwen3vl.prefix_batches import Parts, Suffixes, chunks, suffixes_of
from stepscore.models.qwen3vl.prefix_plan import (
    PrefixPlan,
    PromptLayout,
    TokenSpan,
    check_length,
    concat_spans,
    plan_shared_prefixes,
)
from stepscore.types import FloatArray, Frames

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-4, torch.float16: 0.25, torch.bfloat16: 0.5}
"""Nats by which sharing may differ from full passes. Half precision rounds each way of computing differently;
there the check finds a model that is built otherwise, and the difference is logged, not guaranteed."""
TAILS = ("Is the task done? The answer is:", "Is the gripper open? The answer is:")
TIMES = np.array([0.0, 0.7, 1.9, 2.4, 4.1])
LENGTHS = (2, 3, 5)
"""A prefix that ends before the video does, an odd one within it, an odd one at its end."""
log = logging.getLogger(__name__)

MEMORY_LIMIT_BYTES = 1 << 30
"""Default limit for the temporary values of one pass."""


@dataclass(frozen=True, eq=False)
class PreparedVideo:
    """A video ready to be scored: its frames, resized, and the plan."""

    frames: Frames
    plan: PrefixPlan


def prepare_video(network: Qwen3VLNetwork, request: RenderedPrefixes) -> PreparedVideo:
    """Resize the frames of a request, and plan its prefixes."""
    clip = request.clip
    frames, layout = fit_frames(network, clip, request.head)
    plan = plan_shared_prefixes(layout, clip.timestamps, request.lengths, request.tails, request.candidates)
    check_length(plan.branches[-1], network.max_positions)
    return PreparedVideo(frames, plan)


def fit_frames(network: Qwen3VLNetwork, clip: Clip, head: str) -> tuple[Frames, PromptLayout]:
    """Resize a video's frames to a size the network takes, and return them with the layout of its prompts."""
    geometry = network.geometry
    height, width = clip.frames.shape[1:3]
    size = fitted_size(height, width, geometry.unit, geometry.video_pixels)
    layout = PromptLayout(network.encode, network.tokens, geometry.grid(size), geometry.temporal, head)
    return resize_frames(clip.frames, size), layout


@torch.inference_mode()
def score_shared(
    network: Qwen3VLNetwork, videos: Sequence[PreparedVideo], limit: int = MEMORY_LIMIT_BYTES
) -> list[FloatArray]:
    """Return log-probabilities (S, K, C) of each video: encode each block once, prefill once, score all suffixes."""
    features = [network.encode_images(video.frames, video.plan.encoded_blocks, limit) for video in videos]
    cache = network.kv_cache()
    bases = [video.plan.base for video in videos]
    if any(len(base) for base in bases):
        blocks = [(f, video.plan.blocks) for f, video in zip(features, videos, strict=True)]
        network.forward(bases, _gathered(blocks), cache=cache)
    passes = [chunks(video.plan, network.cost, limit // len(videos)) for video in videos]
    logprobs = [_unknown(video.plan) for video in videos]
    for number in range(max(map(len, passes))):
        batch = [index for index, parts in enumerate(passes) if number < len(parts)]
        plans, parts = [videos[i].plan for i in batch], [passes[i][number] for i in batch]
        scored = score_suffixes(network, cache, batch, plans, parts, [features[i] for i in batch])
        for index, by_branch in zip(batch, scored, strict=True):
            for (branch, tail), values in by_branch.items():
                logprobs[index][tail, branch] = values
    return [values[:, list(video.plan.which)] for values, video in zip(logprobs, videos, strict=True)]


def score_suffixes(
    network: Qwen3VLNetwork,
    cache: Cache,
    batch: Sequence[int],
    plans: Sequence[PrefixPlan],
    parts: Sequence[Parts],
    features: Sequence[BlockFeatures],
) -> list[dict[tuple[int, int], FloatArray]]:
    """Score parts of some videos' plans in one pass, on top of the videos' KV cache.

    Args:
        network: The model.
        cache: KV cache of the videos' bases; it is not changed.
        batch: Number of each video in the cache.
        plans: The plan of each video.
        parts: Branches and tails of each plan to score.
        features: Features of each video's blocks.

    Returns:
        For each video, the log-probabilities by branch and tail, each of shape (C,).
    """
    suffixes = [suffixes_of(plan, part) for plan, part in zip(plans, parts, strict=True)]
    reach = max(s.reach for s in suffixes)
    past = shared_kv_cache(cache, batch, reach) if reach else None
    hidden = network.forward(
        [s.span for s in suffixes],
        _gathered([(f, s.blocks) for f, s in zip(features, suffixes, strict=True)]),
        mask=network.mask(_visible(suffixes, reach)),
        cache=past,
    )
    reads = [(video, *read) for video, s in enumerate(suffixes) for read in s.reads]
    chosen = hidden[[video for video, *_ in reads], [row for *_, row in reads]]
    values = network.logprobs(chosen, np.stack([plans[video].targets[tail] for video, _, tail, _ in reads]))
    answers: list[dict[tuple[int, int], FloatArray]] = [{} for _ in plans]
    for (video, branch, tail, _), value in zip(reads, values, strict=True):
        answers[video][branch, tail] = value
    return answers


@torch.inference_mode()
def score_incremental(
    network: Qwen3VLNetwork, video: PreparedVideo, limit: int = MEMORY_LIMIT_BYTES
) -> FloatArray:
    """Return log-probabilities (S, K, C), reading the video from prefix to prefix and cropping each text again."""
    plan = video.plan
    features = network.encode_images(video.frames, plan.encoded_blocks, limit)
    cache, logprobs, end, blocks = network.kv_cache(), _unknown(plan), 0, 0
    for number, branch in enumerate(plan.branches):
        for tail, rest in enumerate(branch.tails):
            span = concat_spans([_between(plan.base, end, branch.end), branch.stem, rest])
            new = [*plan.blocks[blocks : branch.blocks], *([branch.block] if branch.block else [])]
            hidden = network.forward([span], _gathered([(features, new)]), cache=cache)
            logprobs[tail, number] = network.logprobs(hidden[0, -1:], plan.targets[tail : tail + 1])[0]
            cache.crop(
                -(len(branch.stem) + len(rest))
            )  # negative: the number of tokens to drop, in every release
            end, blocks = branch.end, branch.blocks
    return logprobs[:, list(plan.which)]


def _between(span: TokenSpan, start: int, stop: int) -> TokenSpan:
    return TokenSpan(span.ids[start:stop], span.positions[:, start:stop])


def _gathered(wanted: Sequence[tuple[BlockFeatures, Sequence[Block]]]) -> tuple[Tensor, ...] | None:
    """Return embeddings and deepstack of blocks of several videos, video after video; ``None`` if there are none."""
    found = [features.select(blocks) for features, blocks in wanted if blocks]
    return tuple(torch.cat(layer) for layer in zip(*found, strict=True)) if found else None


def _visible(suffixes: Sequence[Suffixes], reach: int) -> NDArray[np.bool_]:
    """Return what each token attends to, by video; a padding token attends to itself, as it must to something."""
    longest = max(len(s.span) for s in suffixes)
    visible = np.zeros((len(suffixes), longest, reach + longest), dtype=np.bool_)
    visible[:, np.arange(longest), reach + np.arange(longest)] = True
    for video, s in zip(visible, suffixes, strict=True):
        rows = len(s.span)
        video[:rows, : reach + rows] = s.visible(reach)
    return visible


def _unknown(plan: PrefixPlan) -> FloatArray:
    tails, candidates = plan.targets.shape
    return np.full((tails, len(plan.branches), candidates), np.nan)


def check_sharing(
    network: Qwen3VLNetwork, prefix_inputs: PrefixInputs, name: str, scoring: str = "shared"
) -> float:
    """Return the largest difference in nats between sharing and full passes on a video of noise.

    Raises:
        ModelError: The difference is more than rounding explains. The model is refused.
    """
    unit = network.geometry.unit
    frames = np.random.default_rng(0).integers(0, 256, (len(TIMES), 2 * unit, 3 * unit, 3), dtype=np.uint8)
    clip = Clip(frames, TIMES, np.arange(len(TIMES)))
    request = RenderedPrefixes(clip, LENGTHS, "A robot:\n", TAILS, (_next_word(network),))
    reference, _ = score_naive(network.model, prefix_inputs, request)
    video = prepare_video(network, request)
    found = score_shared(network, [video])[0] if scoring == "shared" else score_incremental(network, video)
    difference = float(np.max(np.abs(found - reference)))
    allowed = TOLERANCE[network.dtype]
    if not difference <= allowed:
        raise ModelError(
            f"{name}: sharing work between prefixes is not exact for this model. On a video of noise its scores "
            f"differ from full passes by {difference:.2g} nats ({allowed:g} is allowed in {network.dtype}). "
            "Score it by full passes instead: -M scoring=naive"
        )
    log.info("%s: %s scoring agrees with full passes within %.2g nats", name, scoring, difference)
    return difference


def _next_word(network: Qwen3VLNetwork) -> str:
    """Return a candidate that is one token after the check's texts, whatever the vocabulary."""
    for word in (" True", " yes", " Yes", " no", "\n", " a", "a", "."):
        if all(network.encode(tail + word)[:-1] == network.encode(tail) for tail in TAILS):
            return word
    raise ModelError("The tokenizer joins every word tried to the text before it; no token can be scored.")
