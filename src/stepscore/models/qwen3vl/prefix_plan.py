"""The plan of exact prefix scoring: its tokens, and what each attends to. No weights are needed for it.

K prefixes of one video, each followed by S texts, are K * S prompts that begin alike. In a causal model a token does
not depend on later ones, so the common part is read once: the *base* is the head and all whole blocks of frames.
Each prefix adds a *branch* that attends to the base up to where the prefix ends: its *stem* (the block of an odd
last frame, and the common beginning of all texts), then the rest of each text.

Three things make a branch exactly the prompt it stands for. Its positions continue from the end of its prefix, not
from the end of the video. An odd last frame is doubled into a block with its own timestamp, which is another block
than the one the next frame would complete. And it attends to nothing but its prefix, its stem and itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscore.errors import ModelError, OptionError
from stepscore.models.qwen3vl.inputs import (
    Encode,
    VisionTokens,
    block_frames,
    block_time,
    image_tokens,
    positions,
    time_text,
    token_ids,
)
from stepscore.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class TokenSpan:
    """Consecutive tokens: their ids, shape (n,), and their positions in time, row and column, shape (3, n)."""

    ids: IntArray
    positions: IntArray

    def __len__(self) -> int:
        return len(self.ids)


def concat_spans(spans: Sequence[TokenSpan]) -> TokenSpan:
    """Concatenate spans."""
    return TokenSpan(
        np.concatenate([span.ids for span in spans]),
        np.concatenate([span.positions for span in spans], axis=1),
    )


@dataclass(frozen=True, eq=False)
class Branch:
    """The tokens that one prefix adds to the base.

    Attributes:
        blocks: Number of base blocks in the prefix.
        end: Number of base tokens in the prefix.
        block: Frames of its own last block, where its length is odd.
        stem: That block, and the common beginning of all texts.
        tails: The rest of each text; empty where the stem holds all of it.
    """

    blocks: int
    end: int
    block: tuple[int, ...] | None
    stem: TokenSpan
    tails: tuple[TokenSpan, ...]


@dataclass(frozen=True, eq=False)
class PrefixPlan:
    """All tokens that are read for one video.

    Attributes:
        base: The head and all whole blocks.
        blocks: Frames of each whole block.
        branches: One for each requested length, shortest first.
        which: Branch of each prefix, in the order of the request.
        targets: Token id of each candidate after each text, shape (S, C).
    """

    base: TokenSpan
    blocks: tuple[tuple[int, ...], ...]
    branches: tuple[Branch, ...]
    which: tuple[int, ...]
    targets: IntArray

    @property
    def encoded_blocks(self) -> list[tuple[int, ...]]:
        """Frames of every block to encode: those of the base, then those of the branches."""
        return [*self.blocks, *(b.block for b in self.branches if b.block is not None)]

    @property
    def tokens(self) -> int:
        """Number of tokens read in all."""
        suffixes = sum(len(b.stem) + sum(map(len, b.tails)) for b in self.branches)
        return len(self.base) + suffixes


@dataclass(frozen=True)
class PromptLayout:
    """Writes the prompts of one video as tokens."""

    encode: Encode
    tokens: VisionTokens
    grid: tuple[int, int]
    temporal: int
    head: str

    def block(self, seconds: float, start: int, *, first: bool) -> tuple[TokenSpan, int]:
        """Return a block of frames after its timestamp, and the next position.

        The head is encoded together with the first block's timestamp: the two may share a token.
        """
        text = (self.head if first else "") + time_text(seconds)
        rows, columns = self.grid
        return self.span(
            token_ids([text, *image_tokens(self.tokens.video, rows * columns, self.tokens)], self.encode),
            start,
        )

    def span(self, ids: Sequence[int], start: int) -> tuple[TokenSpan, int]:
        """Return tokens with their positions from ``start`` on, and the next position."""
        array = np.asarray(ids, dtype=np.int64)
        places, following = positions(array, self.tokens.video, self.grid, start)
        return TokenSpan(array, places), following

    def branch(
        self, times: FloatArray, length: int, tails: Sequence[Sequence[int]], end: int, start: int
    ) -> Branch:
        """Return what a prefix of this length adds to a base whose whole blocks end at ``end``."""
        common = _common_beginning(tails)
        last = block_frames(length, self.temporal)[-1]
        odd = length % self.temporal != 0
        stem, at = self.span([], start)
        if odd:
            stem, at = self.block(block_time(times, last), start, first=length < self.temporal)
        shared, at = self.span(tails[0][:common], at)
        rests = tuple(self.span(tail[common:], at)[0] for tail in tails)
        return Branch(
            length // self.temporal, end, last if odd else None, concat_spans([stem, shared]), rests
        )


def plan_shared_prefixes(
    layout: PromptLayout,
    times: FloatArray,
    lengths: Sequence[int],
    tails: Sequence[str],
    candidates: Sequence[str],
) -> PrefixPlan:
    """Plan the prefixes of a video.

    Args:
        layout: Writes its prompts.
        times: Timestamps of its frames in seconds, regular or not.
        lengths: Number of frames in each prefix; in any order, repeated or not.
        tails: Texts after the video.
        candidates: Words to score as the next token.

    Raises:
        ModelError: A candidate is not exactly one token after a tail.
    """
    if not lengths or min(lengths) < 1 or max(lengths) > len(times):
        raise OptionError(
            f"Prefixes of {list(lengths)} frames: each must show 1 to {len(times)} of the video's."
        )
    texts = [layout.encode(tail) for tail in tails]
    targets = target_ids(layout.encode, tails, candidates)
    order = sorted(set(lengths))
    blocks = block_frames(order[-1] // layout.temporal * layout.temporal, layout.temporal)
    spans, ends, nexts = [layout.span([], 0)[0]], [0], [0]
    for number, frames in enumerate(blocks):
        block, following = layout.block(block_time(times, frames), nexts[-1], first=number == 0)
        spans.append(block)
        ends.append(ends[-1] + len(block))
        nexts.append(following)
    branches = []
    for length in order:
        whole = length // layout.temporal
        branches.append(layout.branch(times, length, texts, ends[whole], nexts[whole]))
    which = tuple(order.index(length) for length in lengths)
    return PrefixPlan(concat_spans(spans), tuple(blocks), tuple(branches), which, targets)


def check_length(branch: Branch, max_positions: int) -> None:
    """Check that a branch's prompts are within the model's positions; ModelError if one is longer."""
    last = max(int(span.positions.max(initial=0)) for span in (branch.stem, *branch.tails))
    if last >= max_positions:
        raise ModelError(
            f"The prompt is {last + 1} positions long, and the model was made for {max_positions}. "
            "Show fewer frames, or smaller ones."
        )


def target_ids(encode: Encode, tails: Sequence[str], candidates: Sequence[str]) -> IntArray:
    """Return the token id of each candidate after each text, shape (S, C).

    Raises:
        ModelError: A candidate is not exactly one token there, so that its probability would be another
            event's: ``"The answer is:"`` and ``" True"`` fit, ``"The answer is: "`` and ``"True"`` do not.
    """
    if not tails or not candidates:
        raise OptionError("Scoring needs at least one text after the video and one candidate.")
    found = np.zeros((len(tails), len(candidates)), dtype=np.int64)
    for row, tail in enumerate(tails):
        before = encode(tail)
        if not before:
            raise OptionError(
                "A text after the video is empty; there is nothing for the candidates to follow."
            )
        for column, candidate in enumerate(candidates):
            after = encode(tail + candidate)
            if after[:-1] != before:
                raise ModelError(
                    f"The candidate {candidate!r} is not exactly one token after {tail[-40:]!r}: the two together "
                    f"are {len(after)} tokens, the text alone is {len(before)}. Move spaces from the end of the "
                    "text to the front of the candidate, or choose another word."
                )
            found[row, column] = after[-1]
    return found


def _common_beginning(tails: Sequence[Sequence[int]]) -> int:
    """Return how many tokens all texts begin with."""
    common = 0
    for tokens in zip(*tails, strict=False):
        if len(set(tokens)) > 1:
            break
        common += 1
    return common
