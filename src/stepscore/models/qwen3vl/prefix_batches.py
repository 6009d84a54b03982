"""The branches of a plan in passes: the tokens of each pass, and what each of them attends to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscore.models.qwen3vl.prefix_plan import PrefixPlan, TokenSpan, concat_spans
from stepscore.types import IntArray

Parts = list[tuple[int, list[int]]]
"""The branches of one pass, each with some of its tails."""


@dataclass(frozen=True, eq=False)
class Suffixes:
    """The tokens of one pass over branches.

    Attributes:
        span: All of them in a row.
        ends: Number of base tokens that each attends to.
        node: Number of the stem or tail each belongs to.
        stem: Number of the stem each attends to besides its own node.
        blocks: Frames of the blocks among them, in order.
        reads: Branch, tail and row of every token that a candidate follows.
    """

    span: TokenSpan
    ends: IntArray
    node: IntArray
    stem: IntArray
    blocks: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, int, int], ...]

    @property
    def reach(self) -> int:
        """Number of base tokens that any of them attends to."""
        return int(self.ends.max())

    def visible(self, base: int) -> NDArray[np.bool_]:
        """Return which of the first ``base`` tokens of the base, and then of these, each of these attends to."""
        row = np.arange(len(self.span))
        own = (self.node[:, None] == self.node[None]) & (row[:, None] >= row[None])
        stem = self.stem[:, None] == self.node[None]
        shared = np.arange(base)[None] < self.ends[:, None]
        return np.concatenate([shared, own | stem], axis=1)


def suffixes_of(plan: PrefixPlan, parts: Parts) -> Suffixes:
    """Return the tokens of these parts of a plan, each branch's stem once."""
    spans: list[TokenSpan] = []
    ends, node, stem, blocks, reads = [], [], [], [], []
    number = rows = 0

    def put(span: TokenSpan, end: int, attended: int) -> None:
        nonlocal number, rows
        spans.append(span)
        ends.append(np.full(len(span), end))
        node.append(np.full(len(span), number))
        stem.append(np.full(len(span), attended))
        number, rows = number + 1, rows + len(span)

    for index, tails in parts:
        branch = plan.branches[index]
        root = number
        put(branch.stem, branch.end, -1)
        last = rows - 1
        if branch.block is not None:
            blocks.append(branch.block)
        for tail in tails:
            put(branch.tails[tail], branch.end, root)
            reads.append((index, tail, rows - 1 if len(branch.tails[tail]) else last))
    ends_, node_, stem_ = (np.concatenate(values).astype(np.int64) for values in (ends, node, stem))
    return Suffixes(concat_spans(spans), ends_, node_, stem_, tuple(blocks), tuple(reads))


@dataclass(frozen=True, slots=True)
class PassCost:
    """Memory of one pass, and its best length.

    Attributes:
        row: Bytes per token.
        pair: Bytes per pair of tokens in the attention mask.
        rows: Tokens from which on a longer pass is no faster: attention compares all of its tokens, though few
            attend to each other.
    """

    row: int
    pair: int
    rows: int


def chunks(plan: PrefixPlan, cost: PassCost, limit: int) -> list[Parts]:
    """Split branches into passes within a memory limit; a pass has at least one tail.

    A pass of R tokens that attend to B tokens of the base takes ``R * row + R * (B + R) * pair`` bytes. Branches do
    not attend to each other, so that the split changes no number.
    """
    passes: list[Parts] = [[]]
    rows = 0
    for index, branch in enumerate(plan.branches):
        for tail, rest in enumerate(branch.tails):
            begun = bool(passes[-1]) and passes[-1][-1][0] == index
            grown = rows + len(rest) + (0 if begun else len(branch.stem))
            memory = grown * cost.row + grown * (branch.end + grown) * cost.pair
            if passes[-1] and (memory > limit or grown > cost.rows):
                passes.append([])
                begun, grown = False, len(branch.stem) + len(rest)
            rows = grown
            if begun:
                passes[-1][-1][1].append(tail)
            else:
                passes[-1].append((index, [tail]))
    return passes
