"""Many prompts with a common beginning as one sequence: the frames once, every question a branch of its own.

A branch attends to the stem up to where it begins, and to itself; its positions continue from there. So each is
exactly the prompt it stands for, and the frames of a video are encoded once for all prefixes and statements.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscore.models.qwen3vl import (
    PromptLayout,
    RepeatedToken,
    TokenSpan,
    block_time,
    concat_spans,
    image_tokens,
    positions,
    token_ids,
)
from stepscore.types import FloatArray, IntArray

PERCENT = re.compile(r"\d+(?:\.\d+)?(?=%)")
"""A percentage in an answer; its sign, if any, is not part of it."""
IGNORED = -100
"""Target of a token that has no loss."""


@dataclass(frozen=True, eq=False)
class Branch:
    """A question after the stem, and its target.

    Attributes:
        stem_length: Tokens of the stem it attends to.
        span: Its tokens.
        targets: The token that should follow each of its tokens, ``IGNORED`` where there is no loss.
        choices: Token ids of yes and no, where the answer is one of two words; then the last token has the loss.
        log_odds: Target of ``log P(yes) - log P(no)``.
        static: Whether all such branches of its tree should score the same, since nothing moves.
        numbers: After which of its tokens one of the number tokens follows, and what the number stands for, 0..1.
    """

    stem_length: int
    span: TokenSpan
    targets: IntArray
    choices: tuple[int, int] | None = None
    log_odds: float = 0.0
    static: bool = False
    numbers: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, eq=False)
class Tree:
    """A stem with branches.

    Attributes:
        stem: The common beginning.
        blocks: How many blocks of frames it holds.
        branches: The questions after it.
        block_ends: Index of the stem's token that ends each block.
    """

    stem: TokenSpan
    blocks: int
    branches: tuple[Branch, ...]
    block_ends: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.stem) + sum(len(branch.span) for branch in self.branches)


@dataclass(frozen=True)
class Statement:
    """A statement about the first blocks of a video, with its target score.

    Attributes:
        blocks: How many blocks precede it.
        text: The statement, as it follows them.
        log_odds: Target of ``log P(True) - log P(False)``.
        static: Whether nothing moves in the video: the passing of time must not change the score.
    """

    blocks: int
    text: str
    log_odds: float
    static: bool = False


def video_tree(
    layout: PromptLayout, times: FloatArray, statements: Sequence[Statement], words: tuple[str, str]
) -> Tree:
    """Build the tree of a video with statements about its prefixes.

    Args:
        layout: The model's prompt layout.
        times: Timestamp of each frame in seconds; an even number of frames.
        statements: The statements, each about a prefix.
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
        targets = np.full(len(ids), IGNORED)
        branches.append(
            Branch(ends[statement.blocks], span, targets, (yes, no), statement.log_odds, statement.static)
        )
    return Tree(concat_spans(spans), len(times) // 2, tuple(branches), tuple(end - 1 for end in ends[1:]))


@dataclass(frozen=True)
class Question:
    """A conversation's texts and images up to the answer, and the answer.

    Attributes:
        parts: Texts, and ``None`` for each image.
        answer: The text of the answer; it ends the turn.
        words: Yes and no, where the answer is one of two words.
        log_odds: Target of their log-odds.
        values: What each number before a percent sign of the answer stands for, in order, 0..1.
    """

    parts: tuple[str | None, ...]
    answer: str
    words: tuple[str, str] | None = None
    log_odds: float = 0.0
    values: tuple[float, ...] = ()

    @property
    def before(self) -> tuple[str | None, ...]:
        """Its parts up to the last image."""
        last = max((number for number, part in enumerate(self.parts) if part is None), default=-1)
        return self.parts[: last + 1]

    @property
    def after(self) -> str:
        """The text after the last image."""
        return "".join(part for part in self.parts[len(self.before) :] if part is not None)


def image_tree(
    layout: PromptLayout,
    questions: Sequence[Question],
    stop: str = "<|im_end|>",
    number_ids: Sequence[int] = (),
) -> Tree:
    """Build the tree of questions that are alike up to the last image; each has its own text after it.

    Args:
        layout: The model's prompt layout.
        questions: The questions.
        stop: Text that ends an answer.
        number_ids: Tokens of 0 to 100, where each is one: percentages are then integers.
    """
    pads = image_tokens(layout.tokens.image, layout.grid[0] * layout.grid[1], layout.tokens)
    parts: list[str | RepeatedToken] = []
    for part in questions[0].before:
        parts += pads if part is None else [part]
    stem = np.asarray(token_ids(parts, layout.encode), dtype=np.int64)
    places, following = positions(stem, layout.tokens.image, layout.grid, 0)
    branches = tuple(
        _branch(layout, question, len(stem), following, stop, number_ids) for question in questions
    )
    block_ends = tuple(np.flatnonzero(stem == layout.tokens.end).tolist())
    return Tree(TokenSpan(stem, places), len(block_ends), branches, block_ends)


def _branch(
    layout: PromptLayout,
    question: Question,
    stem_length: int,
    start: int,
    stop: str,
    number_ids: Sequence[int],
) -> Branch:
    """Return the text after the last image with the answer, as a branch."""
    asked = layout.encode(question.after)
    if question.words is not None:
        yes, no = (layout.encode(question.after + word)[-1] for word in question.words)
        span, _ = layout.span(asked, start)
        return Branch(stem_length, span, np.full(len(asked), IGNORED), (yes, no), question.log_odds)
    answer, numbers = _answer_ids(layout, question, stop, number_ids)
    span, _ = layout.span([*asked, *answer[:-1]], start)
    targets = np.full(len(span), IGNORED)
    targets[len(asked) - 1 :] = answer
    before = len(asked) - 1
    targets[[before + at for at, _ in numbers]] = IGNORED
    return Branch(stem_length, span, targets, numbers=tuple((before + at, value) for at, value in numbers))


def _answer_ids(
    layout: PromptLayout, question: Question, stop: str, number_ids: Sequence[int]
) -> tuple[list[int], list[tuple[int, float]]]:
    """Return the tokens of an answer, and which of them are numbers that stand for a value."""
    if not number_ids or not question.values:
        return layout.encode(question.answer + stop), []
    pieces = PERCENT.split(question.answer)
    ids, numbers = layout.encode(pieces[0]) if pieces[0] else [], []
    for piece, value in zip(pieces[1:], question.values, strict=True):
        numbers.append((len(ids), value))
        ids += [number_ids[round(100 * value)], *layout.encode(piece)]
    return [*ids, *layout.encode(stop)], numbers


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """Trees side by side, shorter ones padded; a token's place is (tree, index).

    Attributes:
        input_ids: Token ids, (n, length).
        position_ids: Their rotary positions, (3, n, length).
        attention_mask: Whether each token attends to each, (n, length, length).
        target_places: Places of the tokens whose next token is learned, (m, 2).
        target_ids: That next token, (m,).
        choice_places: Places of the tokens where yes and no are scored, (k, 2).
        choice_ids: Token ids of yes and no, (k, 2).
        log_odds: Targets of their log-odds, (k,).
        static_tree: The tree of statements about a frozen video, else -1, (k,).
        block_ends: Places of the tokens that end a block, (b, 2).
        number_places: Places of the tokens after which a number follows, (p, 2).
        values: What that number stands for, 0..1, (p,).
    """

    input_ids: IntArray
    position_ids: IntArray
    attention_mask: np.ndarray
    target_places: IntArray
    target_ids: IntArray
    choice_places: IntArray
    choice_ids: IntArray
    log_odds: FloatArray
    static_tree: IntArray
    block_ends: IntArray
    number_places: IntArray
    values: FloatArray


@dataclass
class _Targets:
    target_places: list[tuple[int, int]] = field(default_factory=list)
    target_ids: list[int] = field(default_factory=list)
    choice_places: list[tuple[int, int]] = field(default_factory=list)
    choice_ids: list[tuple[int, int]] = field(default_factory=list)
    log_odds: list[float] = field(default_factory=list)
    static_tree: list[int] = field(default_factory=list)
    block_ends: list[tuple[int, int]] = field(default_factory=list)
    number_places: list[tuple[int, int]] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def batch_trees(trees: Sequence[Tree], pad_id: int) -> TreeBatch:
    """Return the trees as one batch; ``pad_id`` is the id of padding tokens."""
    n, length = len(trees), max(len(tree) for tree in trees)
    ids = np.full((n, length), pad_id, dtype=np.int64)
    places = np.zeros((3, n, length), dtype=np.int64)
    owner = np.full((n, length), -2, dtype=np.int64)  # -2 is padding, -1 the stem, else the branch's number
    reach = np.zeros((n, length), dtype=np.int64)
    targets = _Targets()
    for number, tree in enumerate(trees):
        at = len(tree.stem)
        ids[number, :at], places[:, number, :at], owner[number, :at] = tree.stem.ids, tree.stem.positions, -1
        targets.block_ends += [(number, end) for end in tree.block_ends]
        for leaf, branch in enumerate(tree.branches):
            stop = at + len(branch.span)
            ids[number, at:stop], places[:, number, at:stop] = branch.span.ids, branch.span.positions
            owner[number, at:stop], reach[number, at:stop] = leaf, branch.stem_length
            learned = np.flatnonzero(branch.targets != IGNORED)
            targets.target_places += [(number, at + int(row)) for row in learned]
            targets.target_ids += branch.targets[learned].tolist()
            targets.number_places += [(number, at + place) for place, _ in branch.numbers]
            targets.values += [value for _, value in branch.numbers]
            if branch.choices is not None:
                targets.choice_places.append((number, stop - 1))
                targets.choice_ids.append(branch.choices)
                targets.log_odds.append(branch.log_odds)
                targets.static_tree.append(number if branch.static else -1)
            at = stop
    order = np.arange(length)
    own = (owner[:, :, None] == owner[:, None, :]) & (order[:, None] >= order) & (owner[:, :, None] > -2)
    stem = (owner[:, None, :] == -1) & (order[None, None] < reach[:, :, None])
    return TreeBatch(
        ids,
        places,
        own | stem | (order[:, None] == order),
        np.array(targets.target_places, dtype=np.int64).reshape(-1, 2),
        np.array(targets.target_ids, dtype=np.int64),
        np.array(targets.choice_places, dtype=np.int64).reshape(-1, 2),
        np.array(targets.choice_ids, dtype=np.int64).reshape(-1, 2),
        np.array(targets.log_odds, dtype=np.float64),
        np.array(targets.static_tree, dtype=np.int64),
        np.array(targets.block_ends, dtype=np.int64).reshape(-1, 2),
        np.array(targets.number_places, dtype=np.int64).reshape(-1, 2),
        np.array(targets.values, dtype=np.float64),
    )
