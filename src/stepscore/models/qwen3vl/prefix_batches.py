"""The branches of a plan as passes: which tokens one pass reads, and what each of them may see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscore.models.qwen3vl.prefix_plan import PrefixPlan, TokenSpan, concat_spans
from stepscore.types import IntArray

Parts = list[tuple[int, list[int]]]
"""Branches and which of their tails: what one pass reads."""


@dataclass(frozen=True, eq=False)
class Suffixes:
    """The tokens of one pass over branches.

    Attributes:
        span: All of them in a row.
        ends: Tokens of the base that each may see.
        node: Number of the stem or tail each belongs to.
        stem: Number of the stem each may see besides its own node.
        blocks: Frames of the blocks among them, in order.
        reads: Branch, tail and row of every place where a candidate follows.
    """

    span: TokenSpan
    ends: IntArray
    node: IntArray
    stem: IntArray
    blocks: tuple[tuple[int, ...], ...]
    reads: tuple[tuple[int, int, int], ...]

    @property
    def reach(self) -> int:
        """Tokens of the base that the farthest of them sees."""
        return int(self.ends.max())

    def visible(self, base: int) -> NDArray[np.bool_]:
        """Which of the first ``base`` tokens of the base, and then of these, each of these sees."""
        row = np.arange(len(self.span))
        own = (self.node[:, None] == self.node[None]) & (row[:, None] >= row[None])
        stem = self.stem[:, None] == self.node[None]
        shared = np.arange(base)[None] < self.ends[:, None]
        return np.concatenate([shared, own | stem], axis=1)


def suffixes_of(plan: PrefixPlan, parts: Parts) -> Suffixes:
    """The tokens of these parts of a plan, each branch's stem once."""
    spans: list[TokenSpan] = []
    ends, node, stem, blocks, reads = [], [], [], [], []
    number = rows = 0

    def put(span: TokenSpan, end: int, sees: int) -> None:
        nonlocal number, rows
        spans.append(span)
        ends.append(np.full(len(span), end))
        node.append(np.full(len(span), number))
        stem.append(np.full(len(span), sees))
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
    """What one pass takes.

    Attributes:
        row: Bytes for a token.
        pair: Bytes for a token seen by a token.
        rows: Tokens from which on a longer pass is no faster: its tokens are compared with each other, though
            few may see each other.
    """

    row: int
    pair: int
    rows: int


def chunks(plan: PrefixPlan, cost: PassCost, limit: int) -> list[Parts]:
    """Branches cut into passes within a limit of memory; a pass has at least one tail.

    A pass of R tokens that see B of the base is reckoned at ``R * row + R * (B + R) * pair`` bytes. Branches do
    not see each other, so that the cut changes no number.
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
