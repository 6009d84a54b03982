"""Many prompts that begin alike, as one sequence: the pictures once, every question a branch of its own.

A branch sees the stem up to where it begins, and itself; its positions go on from there. So each is the very
prompt it stands for, and the pictures of a film are read once for all prefixes and statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscore.models.qwen3vl import Layout, Pads, Span, block_time, image_pads, joined, positions, token_ids
from stepscore.types import FloatArray, IntArray

IGNORED = -100
"""The target of a token that nothing is to be learned from."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A question after the stem, and what is right.

    Attributes:
        begins: Tokens of the stem it sees.
        span: Its tokens.
        targets: The token that should come after each of its tokens, ``IGNORED`` where it does not matter.
        words: Where the answer is one of two words: the ids of yes and no. The last token is asked then.
        log_odds: What ``log P(yes) - log P(no)`` should be.
        still: Whether all such branches of its tree should be worth the same, since nothing moves.
    """

    begins: int
    span: Span
    targets: IntArray
    words: tuple[int, int] | None = None
    log_odds: float = 0.0
    still: bool = False


@dataclass(frozen=True, eq=False)
class Tree:
    """A stem with branches.

    Attributes:
        stem: The common beginning.
        blocks: How many blocks of pictures it holds.
        branches: What comes after.
        marks: Number of the stem's token that ends each block.
    """

    stem: Span
    blocks: int
    branches: tuple[Branch, ...]
    marks: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.stem) + sum(len(branch.span) for branch in self.branches)


@dataclass(frozen=True)
class Statement:
    """A statement about the first blocks of a film, and how true it is.

    Attributes:
        blocks: How many blocks are shown.
        text: What stands after them.
        log_odds: What ``log P(True) - log P(False)`` should be.
        still: Whether it is said of a film in which nothing moves: time alone must not change its worth.
    """

    blocks: int
    text: str
    log_odds: float
    still: bool = False


def film_tree(
    layout: Layout, times: FloatArray, statements: Sequence[Statement], words: tuple[str, str]
) -> Tree:
    """The tree of a film whose prefixes are stated about.

    Args:
        layout: How the model's prompts are put together.
        times: Seconds of each frame; an even number.
        statements: What is said of which prefix.
        words: Yes and no, with their leading space.
    """
    spans, ends, nexts = [layout.span([], 0)[0]], [0], [0]
    for number in range(len(times) // 2):
        seconds = block_time(times, (2 * number, 2 * number + 1))
        block, following = layout.block(seconds, nexts[-1], first=number == 0)
        spans.append(block)
        ends.append(ends[-1] + len(block))
        nexts.append(following)
    branches = []
    for statement in statements:
        ids = layout.encode(statement.text)
        yes, no = (layout.encode(statement.text + word)[-1] for word in words)
        span, _ = layout.span(ids, nexts[statement.blocks])
        nothing = np.full(len(ids), IGNORED)
        branches.append(
            Branch(ends[statement.blocks], span, nothing, (yes, no), statement.log_odds, statement.still)
        )
    return Tree(joined(spans), len(times) // 2, tuple(branches), tuple(end - 1 for end in ends[1:]))


@dataclass(frozen=True)
class Question:
    """A conversation's texts and pictures up to the answer, and the answer.

    Attributes:
        parts: Texts, and ``None`` for each picture.
        answer: What should be said; ends the turn.
        words: Where it is one of two words: yes and no.
        log_odds: What their log-odds should be.
    """

    parts: tuple[str | None, ...]
    answer: str
    words: tuple[str, str] | None = None
    log_odds: float = 0.0

    @property
    def before(self) -> tuple[str | None, ...]:
        """Its parts up to the last picture."""
        last = max((number for number, part in enumerate(self.parts) if part is None), default=-1)
        return self.parts[: last + 1]

    @property
    def after(self) -> str:
        """The text after it."""
        return "".join(part for part in self.parts[len(self.before) :] if part is not None)


def picture_tree(layout: Layout, questions: Sequence[Question], stop: str = "<|im_end|>") -> Tree:
    """The tree of questions that are alike up to the last picture; what comes after it is a branch of each."""
    pads = image_pads(layout.tokens.image, layout.grid[0] * layout.grid[1], layout.tokens)
    laid: list[str | Pads] = []
    for part in questions[0].before:
        laid += pads if part is None else [part]
    stem = np.asarray(token_ids(laid, layout.encode), dtype=np.int64)
    places, following = positions(stem, layout.tokens.image, layout.grid, 0)
    branches = tuple(_asked(layout, question, len(stem), following, stop) for question in questions)
    marks = tuple(np.flatnonzero(stem == layout.tokens.end).tolist())
    return Tree(Span(stem, places), len(marks), branches, marks)


def _asked(layout: Layout, question: Question, begins: int, start: int, stop: str) -> Branch:
    """The text after the last picture, and the answer."""
    asked = layout.encode(question.after)
    if question.words is not None:
        yes, no = (layout.encode(question.after + word)[-1] for word in question.words)
        span, _ = layout.span(asked, start)
        return Branch(begins, span, np.full(len(asked), IGNORED), (yes, no), question.log_odds)
    said = layout.encode(question.answer + stop)
    span, _ = layout.span([*asked, *said[:-1]], start)
    targets = np.full(len(span), IGNORED)
    targets[len(asked) - 1 :] = said
    return Branch(begins, span, targets)


@dataclass(frozen=True, eq=False)
class Batch:
    """Trees side by side, shorter ones filled up.

    Attributes:
        ids: Token ids, (n, length).
        positions: Their places, (3, n, length).
        visible: Whether each token sees each, (n, length, length).
        rows: Which tokens have a next word to be learned, as tree and token, (m, 2).
        next_ids: That word, (m,).
        asked: Which tokens have yes and no to be weighed, (k, 2).
        words: Ids of yes and no, (k, 2).
        log_odds: What their log-odds should be, (k,).
        still: For statements about a film that stands still its tree, else -1, (k,).
        marks: The tokens that end a block, (b, 2).
    """

    ids: IntArray
    positions: IntArray
    visible: np.ndarray
    rows: IntArray
    next_ids: IntArray
    asked: IntArray
    words: IntArray
    log_odds: FloatArray
    still: IntArray
    marks: IntArray


@dataclass
class _Lists:
    rows: list[tuple[int, int]] = field(default_factory=list)
    next_ids: list[int] = field(default_factory=list)
    asked: list[tuple[int, int]] = field(default_factory=list)
    words: list[tuple[int, int]] = field(default_factory=list)
    log_odds: list[float] = field(default_factory=list)
    still: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)


def batch(trees: Sequence[Tree], fill: int) -> Batch:
    """The trees as one batch; ``fill`` is the id of tokens that stand for nothing."""
    n, length = len(trees), max(len(tree) for tree in trees)
    ids = np.full((n, length), fill, dtype=np.int64)
    places = np.zeros((3, n, length), dtype=np.int64)
    owner = np.full((n, length), -2, dtype=np.int64)
    reach = np.zeros((n, length), dtype=np.int64)
    found = _Lists()
    for number, tree in enumerate(trees):
        at = len(tree.stem)
        ids[number, :at], places[:, number, :at], owner[number, :at] = tree.stem.ids, tree.stem.positions, -1
        found.marks += [(number, mark) for mark in tree.marks]
        for leaf, branch in enumerate(tree.branches):
            stop = at + len(branch.span)
            ids[number, at:stop], places[:, number, at:stop] = branch.span.ids, branch.span.positions
            owner[number, at:stop], reach[number, at:stop] = leaf, branch.begins
            learned = np.flatnonzero(branch.targets != IGNORED)
            found.rows += [(number, at + int(row)) for row in learned]
            found.next_ids += branch.targets[learned].tolist()
            if branch.words is not None:
                found.asked.append((number, stop - 1))
                found.words.append(branch.words)
                found.log_odds.append(branch.log_odds)
                found.still.append(number if branch.still else -1)
            at = stop
    order = np.arange(length)
    mine = (owner[:, :, None] == owner[:, None, :]) & (order[:, None] >= order) & (owner[:, :, None] > -2)
    stem = (owner[:, None, :] == -1) & (order[None, None] < reach[:, :, None])
    visible = mine | stem | (order[:, None] == order)
    return Batch(
        ids,
        places,
        visible,
        np.array(found.rows, dtype=np.int64).reshape(-1, 2),
        np.array(found.next_ids, dtype=np.int64),
        np.array(found.asked, dtype=np.int64).reshape(-1, 2),
        np.array(found.words, dtype=np.int64).reshape(-1, 2),
        np.array(found.log_odds, dtype=np.float64),
        np.array(found.still, dtype=np.int64),
        np.array(found.marks, dtype=np.int64).reshape(-1, 2),
    )
