"""Prefix scoring while the video is still being recorded: append frames, score, append.

Every appended frame is encoded once and every whole block is read once into the KV cache; a score reads only
the text (and the block of an odd last frame). The scores are those that the whole video gives for the prefix of the
frames so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from stepscore.episodes import Clip
from stepscore.errors import OptionError
from stepscore.models.qwen3vl.inputs import appended_times, block_time
from stepscore.models.qwen3vl.network import BlockFeatures, Qwen3VLNetwork
from stepscore.models.qwen3vl.prefix_batches import chunks
from stepscore.models.qwen3vl.prefix_plan import (
    PrefixPlan,
    PromptLayout,
    TokenSpan,
    check_length,
    concat_spans,
    target_ids,
)
from stepscore.models.qwen3vl.prefix_scoring import (
    MEMORY_LIMIT_BYTES,
    fit_frames,
    score_suffixes,
)
from stepscore.types import FloatArray, Frames


class PrefixStream:
    """A growing video, scored as it grows."""

    def __init__(self, network: Qwen3VLNetwork, head: str, limit: int = MEMORY_LIMIT_BYTES) -> None:
        self._network, self._head, self._limit = network, head, limit
        self._cache = network.kv_cache()
        self._layout: PromptLayout | None = None
        self._size: tuple[int, ...] = ()
        self._times: FloatArray = np.zeros(0)
        self._waiting: Frames | None = None  # frames of a block that is not whole yet, resized
        self._end = self._next = 0

    def __len__(self) -> int:
        """Frames appended so far."""
        return len(self._times)

    @torch.inference_mode()
    def append(self, clip: Clip) -> None:
        """Append frames. All have the size of the first, and increasing timestamps."""
        if not len(clip):
            return
        times = appended_times(self._times, clip, self._size)
        frames, layout = fit_frames(self._network, clip, self._head)
        self._size, self._layout = clip.frames.shape[1:], layout
        if self._waiting is not None:
            frames = np.concatenate([self._waiting, frames])
        first = len(times) - len(frames)
        whole = len(frames) // layout.temporal * layout.temporal
        self._times = times
        self._waiting = frames[whole:]
        if whole:
            self._read(layout, frames[:whole], first)

    def _read(self, layout: PromptLayout, frames: Frames, first: int) -> None:
        """Read whole blocks into the KV cache; ``first`` is the number of their first frame."""
        network, step = self._network, layout.temporal
        blocks = [tuple(range(i, i + step)) for i in range(0, len(frames), step)]
        spans: list[TokenSpan] = []
        for block in blocks:
            seconds = block_time(self._times[first:], block)
            span, self._next = layout.block(seconds, self._next, first=first + block[0] == 0)
            spans.append(span)
        features = network.encode_images(frames, blocks, self._limit)
        network.forward([concat_spans(spans)], features.select(blocks), cache=self._cache)
        self._end += sum(map(len, spans))

    @torch.inference_mode()
    def score(self, tails: Sequence[str], candidates: Sequence[str]) -> FloatArray:
        """Return the log-probability of each candidate after each text, for the video so far; shape (S, C).

        May be called any number of times, with different texts each time; none of them is kept.
        """
        layout = self._layout
        if layout is None or self._waiting is None:
            raise OptionError("There are no frames to score yet: append a frame first.")
        network = self._network
        texts = [layout.encode(tail) for tail in tails]
        branch = layout.branch(self._times, len(self), texts, self._end, self._next)
        check_length(branch, network.max_positions)
        targets = target_ids(layout.encode, tails, candidates)
        plan = PrefixPlan(layout.span([], 0)[0], (), (branch,), (0,), targets)
        logprobs = np.full(targets.shape, np.nan)
        features = self._encode_odd(branch.block)
        for parts in chunks(plan, network.cost, self._limit):
            (scored,) = score_suffixes(network, self._cache, [0], [plan], [parts], [features])
            for (_, tail), values in scored.items():
                logprobs[tail] = values
        return logprobs

    def _encode_odd(self, block: tuple[int, ...] | None) -> BlockFeatures:
        """Encode the block of an odd last frame, under its frame numbers in the plan."""
        if block is None or self._waiting is None:
            empty = torch.zeros(0, device=self._network.device)
            return BlockFeatures(empty, (), {})
        first = len(self) - len(self._waiting)
        local = tuple(frame - first for frame in block)
        features = self._network.encode_images(self._waiting, [local], self._limit)
        return BlockFeatures(features.embeddings, features.deepstack, {block: 0})
