"""A number as the expectation over its digits, from the log-probabilities of an answer's tokens.

VLAC's published code calls it the rich form: in the place of a number token stands the mean of the number tokens
among the ten most likely there, weighted by their probabilities p, of those with p > 0.1 p_max.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stepscore.models import TokenChoice

TOP = 10
"""Number of most likely tokens that count."""

MIN_RATIO = 0.1
"""A token counts if it is more than this times as likely as the most likely one."""


def expected_number(choices: Sequence[TokenChoice], text: str) -> float:
    """Return the expected value of a number that an answer states; NaN where its tokens do not give it.

    A number of one token is the mean described above. Of several tokens of one digit each, every digit's mean stands
    in its place. (There the published code joins the means to a text that is not a number.) The sign is the answer's.

    Args:
        choices: The answer's tokens with their log-probabilities.
        text: The answer, a signed number.
    """
    if not choices or "".join(choice.token for choice in choices).strip() != text.strip():
        return math.nan
    numbers = [choice for choice in choices if _is_number(choice.token)]
    others = "".join(choice.token for choice in choices if not _is_number(choice.token)).strip()
    if not numbers or others not in ("", "+", "-", ".", "+.", "-."):
        return math.nan
    sign = -1.0 if others.startswith("-") else 1.0
    if len(numbers) == 1:
        return sign * expected_value(numbers[0].top) if "." not in others else math.nan
    if any(len(choice.token.strip()) != 1 for choice in numbers):
        return math.nan
    whole = text.strip().lstrip("+-").partition(".")[0]
    means = [expected_value(choice.top, digits=1) for choice in numbers]
    return sign * sum(mean * 10.0 ** (len(whole) - 1 - place) for place, mean in enumerate(means))


def expected_value(top: Sequence[tuple[str, float]], digits: int | None = None) -> float:
    """Return the mean of the number tokens among the most likely ones; NaN where none of them counts.

    Args:
        top: Tokens and their log-probabilities.
        digits: Only numbers of so many digits; ``None`` for all.
    """
    likeliest = sorted(top, key=lambda pair: -pair[1])[:TOP]
    if not likeliest:
        return math.nan
    least = MIN_RATIO * math.exp(likeliest[0][1])
    kept = [
        (float(word), math.exp(value))
        for word, value in likeliest
        if _is_number(word) and (digits is None or len(word.strip()) == digits) and math.exp(value) > least
    ]
    weight = sum(share for _, share in kept)
    return sum(number * share for number, share in kept) / weight if weight else math.nan


def _is_number(token: str) -> bool:
    return token.strip().isascii() and token.strip().isdecimal()
