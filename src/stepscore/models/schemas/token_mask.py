"""Masks over a vocabulary: which tokens may come next, so that an answer stays within its schema.

An automaton reads bytes, and a token is some bytes: a token is allowed where the automaton survives it. All tokens of
a vocabulary are read side by side, byte by byte, so that a new state costs milliseconds even with 150,000 of them.

An answer also has to end within its limit of tokens. A token is allowed only if the shortest rest after it fits into
the tokens that are left, counted as one token a byte, which every tokenizer can do.
"""

from __future__ import annotations

import math
from codecs import getincrementaldecoder
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from stepscore.errors import ModelError
from stepscore.models.responses import TokenChoice
from stepscore.models.schemas.patterns import DEAD, START, Automaton
from stepscore.models.schemas.schema import Schema
from stepscore.types import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from tokenizers import Tokenizer

MAX_SCHEMAS = 32
"""Compiled schemas that a vocabulary keeps."""


class Vocabulary:
    """The bytes of every token, and the tokens that end an answer.

    Args:
        tokens: The bytes of each token by id; ``None`` for one that stands for no text.
        stops: Ids of the tokens that end an answer.
    """

    def __init__(self, tokens: Sequence[bytes | None], stops: Collection[int]) -> None:
        self.tokens = tuple(tokens)
        self.stops = np.array(sorted(stops), dtype=np.int64)
        written = [token for token in range(len(tokens)) if tokens[token] and token not in stops]
        ordered = sorted(written, key=lambda token: -len(tokens[token] or b""))
        self._ids = np.array(ordered, dtype=np.int64)
        """Ids of the tokens with a text, longest first: those that still have a byte are the first ones."""
        texts = [cast("bytes", tokens[token]) for token in ordered]
        longest = max(map(len, texts), default=0)
        self._bytes = np.zeros((longest, len(texts)), dtype=np.uint8)
        for column, text in enumerate(texts):
            self._bytes[: len(text), column] = np.frombuffer(text, dtype=np.uint8)
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self._having = [int(np.sum(lengths > at)) for at in range(longest)]
        self.mask_of = lru_cache(maxsize=MAX_SCHEMAS)(self._mask_of)

    def _mask_of(self, schema: Schema) -> TokenMask:
        return TokenMask(self, Automaton(schema.written()))

    def text(self, token: int) -> str:
        """Return the text of a token; empty for one that has none."""
        found = self.tokens[token] if token < len(self.tokens) else None
        return (found or b"").decode("utf-8", "replace")

    def after(self, automaton: Automaton, state: int) -> tuple[IntArray, IntArray]:
        """Return the tokens that an automaton survives from a state, and the state after each."""
        states = np.full(len(self._ids), state, dtype=np.int64)
        for row, having in zip(self._bytes, self._having, strict=True):
            now = states[:having]
            reached = np.flatnonzero(np.bincount(now, minlength=1)).tolist()
            if reached == [DEAD]:
                break
            table = automaton.table(reached)
            states[:having] = table[now, row[:having]]
        alive = states != DEAD
        return self._ids[alive], states[alive]


class TokenMask:
    """The allowed tokens of a schema, by state of its automaton; kept for the next answer of the same form."""

    def __init__(self, vocabulary: Vocabulary, automaton: Automaton) -> None:
        self.vocabulary, self.automaton = vocabulary, automaton
        self._kept: dict[int, tuple[IntArray, int]] = {}
        self._alike: dict[bytes, IntArray] = {}

    def tokens(self, state: int, left: int) -> IntArray:
        """Return the tokens allowed in a state with ``left`` to go, stops included; ModelError if there are none."""
        stops = self.vocabulary.stops if self.automaton.is_end(state) else self.vocabulary.stops[:0]
        found = self._fitting(state, left)
        if not len(found) and not len(stops):
            raise ModelError("The model's tokenizer cannot write an answer that the schema asks for.")
        return np.concatenate([found, stops])

    def _fitting(self, state: int, left: int) -> IntArray:
        """Return the allowed tokens after which the shortest rest fits; the shortest way on where none does."""
        found, longest = self._kept.get(state, (None, 0))
        if found is not None and longest < left:
            return found
        found, states = self.vocabulary.after(self.automaton, state)
        reached, place = np.unique(states, return_inverse=True)
        missing = np.array([self.automaton.distance(int(each)) for each in reached], dtype=np.int64)[place]
        longest = int(missing.max(initial=0))
        if longest < left:
            found = np.sort(found)
            self._kept[state] = self._alike.setdefault(found.tobytes(), found), longest
            return self._kept[state][0]
        fits = missing < left
        if len(found) and not fits.any() and not self.automaton.is_end(state):
            fits = missing == missing.min()
        return np.sort(found[fits])


class AnswerTokens:
    """The tokens of an answer under way: what may come next, and how probable that was to the model.

    Args:
        vocabulary: The model's.
        schema: The form of the answer; ``None`` for any text.
        max_tokens: Most tokens of the answer.
        top: Number of likely tokens to keep at every token.
    """

    def __init__(self, vocabulary: Vocabulary, schema: Schema | None, max_tokens: int, top: int = 0) -> None:
        self._vocabulary, self._left, self._top = vocabulary, max_tokens, top
        self._mask = None if schema is None else vocabulary.mask_of(schema)
        self._state = START
        self._written: list[int] = []
        self._likeliest: list[tuple[tuple[str, float], ...]] = []
        self._mass = 1.0

    @property
    def mass(self) -> float | None:
        """The smallest probability of the allowed tokens together, at any token so far; ``None`` without a schema."""
        return None if self._mask is None else self._mass

    @property
    def text(self) -> str:
        """The text so far."""
        tokens = self._vocabulary.tokens
        return b"".join(tokens[token] or b"" for token in self._written).decode("utf-8", "replace")

    @property
    def is_complete(self) -> bool:
        """Whether the text so far is one of the schema."""
        return self._mask is not None and self._mask.automaton.is_end(self._state)

    @property
    def is_last(self) -> bool:
        """Whether it is one of the schema that nothing can follow."""
        return self.is_complete and self._mask is not None and self._mask.automaton.is_last(self._state)

    @property
    def choices(self) -> tuple[TokenChoice, ...]:
        """The tokens with the likeliest ones at their places; none where they were not to be kept."""
        # A character of several tokens belongs to the last of them, so that joined they are the text.
        decode = getincrementaldecoder("utf-8")("replace").decode
        texts = [decode(self._vocabulary.tokens[token] or b"") for token in self._written]
        # One more was kept where the next token ended the answer.
        return tuple(TokenChoice(text, top) for text, top in zip(texts, self._likeliest, strict=False))

    def allowed(self, logits: FloatArray) -> BoolArray:
        """Return which tokens may come next, and record how probable they are.

        Args:
            logits: The model's logits of the next token; may be longer than the vocabulary.
        """
        shares = np.exp(logits.astype(np.float64) - float(logits.max()))
        allowed = np.ones(len(logits), dtype=np.bool_)
        if self._mask is not None:
            tokens = self._mask.tokens(self._state, self._left)
            allowed[:] = False
            allowed[tokens[tokens < len(logits)]] = True
            whole = float(shares.sum())
            shares[~allowed] = 0.0
            self._mass = min(self._mass, float(shares.sum()) / whole)
        if self._top:
            self._likeliest.append(self._likeliest_of(shares))
        return allowed

    def take(self, token: int) -> None:
        """Continue with a token; one that ends the answer adds nothing."""
        self._left -= 1
        if token in self._vocabulary.stops:
            return
        self._written.append(token)
        if self._mask is not None:
            self._state = self._mask.automaton.advance(self._state, self._vocabulary.tokens[token] or b"")

    def _likeliest_of(self, shares: FloatArray) -> tuple[tuple[str, float], ...]:
        """Return the likeliest tokens with their log-probabilities, among what has a share."""
        order = np.argsort(-shares, kind="stable")[: self._top]
        with np.errstate(divide="ignore"):
            values = np.log(shares[order]) - np.log(shares.sum())
        pairs = zip(order.tolist(), values.tolist(), strict=True)
        return tuple((self._vocabulary.text(token), value) for token, value in pairs if value > -math.inf)


def token_bytes(tokenizer: Tokenizer) -> list[bytes | None]:
    """Return the bytes of each token by id; ``None`` for special tokens and those without a text of their own.

    Raises:
        ModelError: The tokenizer is neither byte-level BPE (GPT-2, Qwen) nor of SentencePiece's kind with bytes.
    """
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    added = tokenizer.get_added_tokens_decoder()
    found: list[bytes | None] = [None] * (max(vocabulary.values(), default=-1) + 1)
    alphabet = _byte_alphabet()
    byte_level = all(character in vocabulary for character in alphabet)
    if not byte_level and "<0x0A>" not in vocabulary:
        raise ModelError(
            "The tokenizer lacks tokens for single bytes, so answers cannot be held to a schema. "
            "Use -J structured=false."
        )
    for text, token in vocabulary.items():
        if token in added:
            found[token] = None if added[token].special else text.encode()
        elif byte_level:
            known = [alphabet.get(character, -1) for character in text]
            found[token] = bytes(known) if min(known, default=-1) >= 0 else None
        elif len(text) == 6 and text.startswith("<0x") and text.endswith(">"):
            found[token] = bytes([int(text[3:5], 16)])
        else:
            found[token] = text.replace("\u2581", " ").encode()
    return found


def _byte_alphabet() -> dict[str, int]:
    """Return the byte that each character of a byte-level vocabulary stands for, as GPT-2 defined it."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    shown = {chr(byte): byte for byte in printable}
    return shown | {chr(256 + number): byte for number, byte in enumerate(others)}
