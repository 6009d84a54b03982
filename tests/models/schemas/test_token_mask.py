"""A mask allows exactly the tokens after which the schema can still be met, and every answer ends in time."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from tokenizers import Tokenizer

from stepscore.errors import ModelError
from stepscore.models.embedded import FOLDER
from stepscore.models.schemas import Number, Schema, Steps, Word, Written
from stepscore.models.schemas.patterns import START, Automaton
from stepscore.models.schemas.token_mask import AnswerTokens, Vocabulary, token_bytes
from tests.models.schemas.examples import KINDS, of_judges

ALL = {**KINDS, **of_judges()}
STOP = 0


@pytest.fixture(scope="module")
def embedded() -> Vocabulary:
    made = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    ids = made.get_vocab()
    return Vocabulary(token_bytes(made), {ids["<|im_end|>"], ids["<|endoftext|>"]})


def random_vocabulary(texts: list[str], seed: int) -> Vocabulary:
    """Every byte, and random pieces of some texts."""
    draw = np.random.default_rng(seed)
    pieces = {bytes([byte]) for byte in range(256)}
    for _ in range(120):
        text = texts[draw.integers(len(texts))].encode()
        start = draw.integers(len(text))
        pieces.add(text[start : start + draw.integers(1, 9)])
    return Vocabulary([None, *sorted(pieces - {b""})], {STOP})


FINITE: list[tuple[Schema, list[str]]] = [
    (Number(-20, 120, unit="%"), ["unknown", *(f"{n}%" for n in range(-20, 121))]),
    (
        Steps(("push", "pull", "pu")),
        ["1. unknown"]
        + [
            "\n".join(f"{k}. {step}" for k, step in enumerate(listed, 1))
            for n in (1, 2, 3)
            for listed in product(("push", "pull", "pu"), repeat=n)
        ],
    ),
    (Written(("<", Word(("ja", "jawohl", "né")), ">")), ["<ja>", "<jawohl>", "<né>", "<unknown>"]),
]


@pytest.mark.parametrize(("schema", "texts"), FINITE, ids=["number", "steps", "written"])
def test_allowed_tokens_are_those_of_some_accepted_text(schema: Schema, texts: list[str]) -> None:
    vocabulary = random_vocabulary(texts, 0)
    mask, encoded = vocabulary.mask_of(schema), [text.encode() for text in texts]
    prefixes = {text[:n] for text in encoded[:: max(1, len(encoded) // 12)] for n in range(len(text) + 1)}
    for prefix in sorted(prefixes):
        state = mask.automaton.advance(START, prefix)
        expected = {STOP} if prefix in encoded else set()
        for token, text in enumerate(vocabulary.tokens):
            if text is not None and any(whole.startswith(prefix + text) for whole in encoded):
                expected.add(token)
        assert set(mask.tokens(state, 1000).tolist()) == expected, prefix
        # What is allowed with few tokens left are those after which a shortest rest fits.
        shortest = min(len(whole) - len(prefix) for whole in encoded if whole.startswith(prefix))
        for left in {shortest, shortest + 1, shortest + 3} - {0}:
            fitting = {
                token
                for token in expected - {STOP}
                if any(
                    whole.startswith(prefix + (vocabulary.tokens[token] or b""))
                    and len(whole) - len(prefix + (vocabulary.tokens[token] or b"")) < left
                    for whole in encoded
                )
            }
            assert set(mask.tokens(state, left).tolist()) == fitting | (expected & {STOP}), (prefix, left)


def decoded(vocabulary: Vocabulary, schema: Schema, max_tokens: int, seed: int) -> AnswerTokens:
    """A greedy answer of a model whose logits are random."""
    draw, answer = np.random.default_rng(seed), AnswerTokens(vocabulary, schema, max_tokens, top=3)
    for _ in range(max_tokens):
        if answer.is_last:
            break
        logits = draw.normal(size=len(vocabulary.tokens) + 5) * 4
        allowed = answer.allowed(logits)
        assert not allowed[len(vocabulary.tokens) :].any(), "padding of the logits is no token"
        token = int(np.where(allowed, logits, -np.inf).argmax())
        answer.take(token)
        if token in vocabulary.stops:
            break
    return answer


@pytest.mark.parametrize("name", ALL)
def test_every_greedy_answer_is_of_the_schema_within_the_limit(name: str, embedded: Vocabulary) -> None:
    automaton = Automaton(ALL[name].written())
    shortest = automaton.distance(START)
    for seed, limit in enumerate((shortest, shortest + 1, shortest + 7, 2 * shortest, shortest + 200)):
        answer = decoded(embedded, ALL[name], max(1, limit), seed)
        assert automaton.accepts(answer.text), answer.text
        assert answer.is_complete
        assert answer.mass is not None
        assert 0 < answer.mass <= 1
        assert "".join(choice.token for choice in answer.choices).encode() or name in ("text", "either")


def test_a_limit_that_is_too_short_takes_the_shortest_way(embedded: Vocabulary) -> None:
    schema = Written(("The following steps are required", Word(("yes",))))
    answer = decoded(embedded, schema, 3, 0)
    assert not answer.is_complete
    assert schema.written().regex().startswith(answer.text)


def test_mass_and_choices_are_the_models_own() -> None:
    vocabulary = Vocabulary([None, b"yes", b"no", b"maybe", b"unkno", b"wn"], {STOP})
    answer = AnswerTokens(vocabulary, Word(("yes", "no")), 9, top=2)
    logits = np.log(np.array([0.1, 0.3, 0.2, 0.35, 0.05, 1e-9]))
    assert np.flatnonzero(answer.allowed(logits)).tolist() == [1, 2, 4]
    assert answer.mass == pytest.approx(0.55)
    answer.take(1)
    assert answer.is_last
    (choice,) = answer.choices
    assert choice.token == "yes"
    assert [word for word, _ in choice.top] == ["yes", "no"]
    assert np.exp([value for _, value in choice.top]) == pytest.approx([0.3 / 0.55, 0.2 / 0.55])
    free = AnswerTokens(vocabulary, None, 9)
    assert free.allowed(logits).all()
    assert free.mass is None
    assert not free.is_last


def test_a_vocabulary_that_cannot_write_the_answer_says_so() -> None:
    vocabulary = Vocabulary([None, b"ye"], {STOP})
    answer = AnswerTokens(vocabulary, Word(("yes",)), 9)
    logits = np.zeros(2)
    answer.allowed(logits)
    answer.take(1)
    with pytest.raises(ModelError, match="cannot write"):
        answer.allowed(logits)


def test_tokens_are_the_bytes_of_their_texts() -> None:
    made = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
    texts = token_bytes(made)
    for text in ('{"when": 3.20}\n1. pull – the é 🙂', " True", "<score>+25%</score>"):
        ids = made.encode(text, add_special_tokens=False).ids
        assert b"".join(texts[token] or b"" for token in ids).decode() == text
    assert texts[made.get_vocab()["<|im_end|>"]] is None


def test_sentencepiece_tokens_are_read_and_others_refused() -> None:
    from tokenizers import models

    pieces = {"<unk>": 0, "\u2581yes": 1, "no": 2} | {f"<0x{byte:02X}>": 3 + byte for byte in range(256)}
    made = Tokenizer(models.BPE(vocab=pieces, merges=[]))
    texts = token_bytes(made)
    assert (texts[1], texts[2], texts[3 + 65]) == (b" yes", b"no", b"A")
    with pytest.raises(ModelError, match="single bytes"):
        token_bytes(Tokenizer(models.WordLevel({"yes": 0}, unk_token="yes")))
