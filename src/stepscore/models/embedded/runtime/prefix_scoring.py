"""Exact scoring of growing prefixes of a video in NumPy, by the plan of ``models/qwen3vl/prefix_plan.py``.

Every block is encoded once, the video is read once into the KV cache, and the texts after its prefixes are read
together, a segment each; a stem that several texts share is read once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.episodes import Clip
from stepscore.errors import OptionError
from stepscore.models.chatml import RenderedPrefixes
from stepscore.models.embedded.runtime.language_model import KVCache, Segment
from stepscore.models.embedded.runtime.layers import Array
from stepscore.models.embedded.runtime.network import NumpyNetwork
from stepscore.models.qwen3vl.inputs import appended_times, block_time
from stepscore.models.qwen3vl.prefix_batches import Parts, PassCost, chunks
from stepscore.models.qwen3vl.prefix_plan import (
    PrefixPlan,
    PromptLayout,
    TokenSpan,
    check_length,
    concat_spans,
    plan_shared_prefixes,
    target_ids,
)
from stepscore.models.responses import PrefixScores
from stepscore.types import FloatArray, Frames, IntArray

ROWS_PER_PASS = 1024
"""Tokens of one pass over texts, which bounds its memory."""

VIDEOS_KEPT = 4
"""Videos whose KV caches are kept, some megabytes each."""

Block = tuple[int, ...]


class Features:
    """Features of blocks of frames, each block encoded once.

    Args:
        network: The model.
        frames: All frames, at the network's size.
        blocks: Frames of each block, by their numbers in the plan.
        first: Number of the first frame in the plan.
    """

    def __init__(
        self, network: NumpyNetwork, frames: Frames, blocks: Sequence[Block], first: int = 0
    ) -> None:
        self._index: Mapping[Block, int] = {block: number for number, block in enumerate(blocks)}
        local = [tuple(frame - first for frame in block) for block in blocks]
        self._layers = network.vision.encode(frames, local) if blocks else []

    def select(self, blocks: Sequence[Block]) -> list[Array] | None:
        """Return embeddings and deepstack features of these blocks, a row per token; ``None`` without blocks."""
        if not blocks:
            return None
        chosen = [self._index[block] for block in blocks]
        return [layer[chosen].reshape(-1, layer.shape[-1]) for layer in self._layers]


@dataclass(frozen=True, eq=False)
class ReadVideo:
    """A video that was read: its frames, its blocks' features and the KV cache of the plan's base."""

    frames: Frames
    plan: PrefixPlan
    features: Features
    cache: KVCache

    def serves(self, frames: Frames, plan: PrefixPlan) -> bool:
        """Return whether another question about a video can go on from it: the same tokens before the text."""
        mine, base = self.plan.base, plan.base
        return (
            plan.encoded_blocks == self.plan.encoded_blocks
            and plan.blocks == self.plan.blocks
            and np.array_equal(base.ids, mine.ids)
            and np.array_equal(base.positions, mine.positions)
            and np.array_equal(frames, self.frames)
        )


class PrefixScorer:
    """Scores prefixes of videos. The last few are kept: another question about one of them reads only its own text.

    More than one, since a run has several episodes in flight, which may change places.
    """

    def __init__(self, network: NumpyNetwork) -> None:
        self._network = network
        self._kept: list[ReadVideo] = []

    def score(self, request: RenderedPrefixes) -> PrefixScores:
        """Return log-probabilities (S, K, C) of a request, and how many tokens were not read again for it."""
        network, clip = self._network, request.clip
        frames, layout = _fit(network, clip, request.head)
        plan = plan_shared_prefixes(
            layout, clip.timestamps, request.lengths, request.tails, request.candidates
        )
        check_length(plan.branches[-1], network.max_positions)
        known = next((video for video in self._kept if video.serves(frames, plan)), None)
        others = [video for video in self._kept if video is not known]
        self._kept = others  # drop this video first, so that a failure does not keep it
        video = known or _read(network, frames, plan)
        logprobs = score_branches(network, video.cache, plan, video.features)
        self._kept = [*others, video][-VIDEOS_KEPT:]
        reused = 0 if known is None else len(plan.base)
        return PrefixScores(logprobs[:, list(plan.which)], plan.tokens, tokens_reused=reused)


def _read(network: NumpyNetwork, frames: Frames, plan: PrefixPlan) -> ReadVideo:
    """Encode the blocks of a video, and read it into a KV cache."""
    features = Features(network, frames, plan.encoded_blocks)
    cache = network.text.kv_cache()
    network.text.prefill(plan.base, network.image_rows(plan.base.ids), features.select(plan.blocks), cache)
    return ReadVideo(frames, plan, features, cache)


def score_branches(network: NumpyNetwork, cache: KVCache, plan: PrefixPlan, features: Features) -> FloatArray:
    """Return log-probabilities (S, branches, C) on top of the KV cache of the plan's base, which is not changed."""
    tails, candidates = plan.targets.shape
    logprobs = np.full((tails, len(plan.branches), candidates), np.nan)
    for parts in chunks(plan, PassCost(1, 0, ROWS_PER_PASS), ROWS_PER_PASS):
        _score_pass(network, cache, plan, parts, features, logprobs)
    return logprobs


def _score_pass(
    network: NumpyNetwork,
    cache: KVCache,
    plan: PrefixPlan,
    parts: Parts,
    features: Features,
    logprobs: FloatArray,
) -> None:
    """Score some branches and tails in one pass, into ``logprobs``."""
    spans: list[TokenSpan] = []
    segments: list[Segment] = []
    blocks: list[Block] = []
    reads: list[tuple[int, int, int]] = []
    rows = 0

    def put(span: TokenSpan, past: int, stem: slice) -> slice:
        nonlocal rows
        spans.append(span)
        segments.append(Segment(rows, rows + len(span), past, stem))
        rows += len(span)
        return slice(rows - len(span), rows)

    for index, tails in parts:
        branch = plan.branches[index]
        stem = put(branch.stem, branch.end, slice(0, 0))
        root = len(segments) - 1
        blocks += [branch.block] if branch.block is not None else []
        for tail in tails:
            if len(branch.tails[tail]):
                put(branch.tails[tail], branch.end, stem)
            reads.append((index, tail, len(segments) - 1 if len(branch.tails[tail]) else root))
    span = concat_spans(spans)
    images = network.image_rows(span.ids)
    read = [segment for *_, segment in reads]
    hidden = network.text.read(span, images, features.select(blocks), cache, segments, read)
    targets = np.stack([plan.targets[tail] for _, tail, _ in reads])
    values = logprobs_of(network.text.logits(hidden), targets)
    for (index, tail, _), value in zip(reads, values, strict=True):
        logprobs[tail, index] = value


def logprobs_of(logits: Array, targets: IntArray) -> FloatArray:
    """Return the log-probability of each row's targets, (n, vocabulary) to (n, C); NaN where it is not finite."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=-1, keepdims=True))
    chosen: FloatArray = np.take_along_axis(wide, targets, axis=-1)
    return np.where(np.isfinite(chosen), chosen, np.nan)


def _fit(network: NumpyNetwork, clip: Clip, head: str) -> tuple[Frames, PromptLayout]:
    frames, grid = network.fit(clip.frames, network.geometry.video_pixels)
    return frames, PromptLayout(network.encode, network.tokens, grid, network.geometry.temporal, head)


class NumpyPrefixStream:
    """A growing video, scored as it grows; the scores are those of the whole video for the prefix so far."""

    def __init__(self, network: NumpyNetwork, head: str) -> None:
        self._network, self._head = network, head
        self._cache = network.text.kv_cache()
        self._layout: PromptLayout | None = None
        self._size: tuple[int, ...] = ()
        self._times: FloatArray = np.zeros(0)
        self._waiting: Frames | None = None  # frames of a block that is not whole yet, resized
        self._next = 0

    def __len__(self) -> int:
        """Frames appended so far."""
        return len(self._times)

    def append(self, clip: Clip) -> None:
        """Append frames. All have the size of the first, and increasing timestamps."""
        if not len(clip):
            return
        times = appended_times(self._times, clip, self._size)
        frames, layout = _fit(self._network, clip, self._head)
        self._size, self._layout = clip.frames.shape[1:], layout
        if self._waiting is not None:
            frames = np.concatenate([self._waiting, frames])
        first = len(times) - len(frames)
        whole = len(frames) // layout.temporal * layout.temporal
        self._times, self._waiting = times, frames[whole:]
        if whole:
            self._read(layout, frames[:whole], first)

    def _read(self, layout: PromptLayout, frames: Frames, first: int) -> None:
        """Read whole blocks into the KV cache; ``first`` is the number of their first frame."""
        step = layout.temporal
        blocks = [tuple(range(i, i + step)) for i in range(first, first + len(frames), step)]
        spans: list[TokenSpan] = []
        for block in blocks:
            span, self._next = layout.block(block_time(self._times, block), self._next, first=block[0] == 0)
            spans.append(span)
        span = concat_spans(spans)
        features = Features(self._network, frames, blocks, first).select(blocks)
        self._network.text.prefill(span, self._network.image_rows(span.ids), features, self._cache)

    def score(self, tails: Sequence[str], candidates: Sequence[str]) -> FloatArray:
        """Return the log-probability of each candidate after each text, for the video so far; shape (S, C)."""
        layout = self._layout
        if layout is None or self._waiting is None:
            raise OptionError("There are no frames to score yet: append a frame first.")
        texts = [layout.encode(tail) for tail in tails]
        branch = layout.branch(self._times, len(self), texts, self._cache.length, self._next)
        check_length(branch, self._network.max_positions)
        targets = target_ids(layout.encode, tails, candidates)
        plan = PrefixPlan(layout.span([], 0)[0], (), (branch,), (0,), targets)
        blocks = [branch.block] if branch.block is not None else []
        features = Features(self._network, self._waiting, blocks, len(self) - len(self._waiting))
        return score_branches(self._network, self._cache, plan, features)[:, 0]
