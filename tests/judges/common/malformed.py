"""Answers as broken as models write them: made from good ones by cutting, doubling, swapping and noise."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

NOISE = [
    *(
        "{",
        "}",
        "[",
        "]",
        '"',
        "<",
        ">",
        "</",
        ":",
        ",",
        "%",
        "-",
        "+",
        ".",
        "0",
        "9",
        "e9",
        "\n",
        "\\",
        "\0",
    ),
    *(
        "NaN",
        "Infinity",
        "null",
        "true",
        "false",
        "yes",
        "no",
        "unknown",
        "Yes.",
        "No,",
        "１２",
        "²",
        "٪",
        "−5",
    ),
    *(
        "<score>",
        "</score>",
        "<progress>",
        "</progress>",
        "<think>",
        "</think>",
        "```json",
        "```",
        "1. ",
        "2) ",
    ),
    *(
        "no further steps required",
        "+NN%",
        "1e999",
        "-25.0.0.5.6.6.6",
        "\ud83e\udd16",
        "answer: ",
        '"answer": ',
    ),
]


def malformed(good: Sequence[str], count: int, seed: int) -> Iterator[str]:
    """``count`` texts, each a good answer damaged one to six times."""
    rng = random.Random(seed)
    for _ in range(count):
        text = rng.choice(good)
        for _ in range(rng.randint(1, 6)):
            text = _damaged(text, rng, good)
        yield text


def _damaged(text: str, rng: random.Random, good: Sequence[str]) -> str:
    a, b = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    noise = rng.choice(NOISE)
    return rng.choice(
        [
            text[:a],
            text[b:],
            text[:a] + text[b:],
            text[:b] + text[a:],
            text[:a] + noise + text[a:],
            text[:a] + noise + text[b:],
            text + rng.choice(good),
            text[:a] + "".join(rng.sample(text[a:b], min(b - a, 60))) + text[b:],
            text.replace(rng.choice('0123456789%<>"{}:,'), noise, 1),
            text.upper(),
            noise * rng.randint(1, 50),
        ]
    )
