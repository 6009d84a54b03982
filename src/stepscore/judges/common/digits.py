"""A number as the expectation over its tokens, from the log-probabilities of an answer.

In an answer constrained by a schema, it is the mean of the integers at the number's place, if the tokenizer writes a
number as one token (:func:`expected_numbers`). In VLAC's published code, which calls it the rich form, it is the mean
of the number tokens among the ten most likely ones, weighted by their probabilities p, of those with p > 0.1 p_max.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from stepscore.models import Answer, Model, TokenChoice
from stepscore.models.schemas import Schema, number_spans

TOP = 10
"""Number of most likely tokens that count."""

MIN_RATIO = 0.1
"""A token counts if it is more than this times as likely as the most likely one."""

_WHOLE = re.compile(r"[+-]?[0-9]{1,4}")

MAX_LOGPROBS = 20
"""Most log-probabilities that are requested at a token of an answer."""

MAX_LOGPROBS_IN_ALL = 20_000
"""Most log-probabilities of an answer: more would exceed the limit of a server's response."""


def logprobs_to_request(model: Model, max_tokens: int) -> int:
    """Return how many log-probabilities to request per token for the expected value of numbers."""
    return min(MAX_LOGPROBS, model.capabilities.answer_logprobs, MAX_LOGPROBS_IN_ALL // max_tokens)


def expected_numbers(answer: Answer, schema: Schema) -> list[float]:
    """Return the expected value of each number of an answer, in order.

    NaN if a number is unknown, has decimals, or is not one token: a first digit may begin any number. Nothing if the
    answer does not fit the schema or has no log-probabilities.
    """
    if "".join(choice.token for choice in answer.choices) != answer.text or not answer.choices:
        return []
    ends, end = [], 0
    for choice in answer.choices:
        end += len(choice.token)
        ends.append(end)
    found = []
    for span in number_spans(schema, answer.text):
        if span is None:
            found.append(math.nan)
            continue
        first, last = bisect_right(ends, span[0]), bisect_left(ends, span[1])
        found.append(_expected_whole(answer.choices[first : last + 1], answer.text[slice(*span)]))
    return found


def _expected_whole(choices: Sequence[TokenChoice], text: str) -> float:
    """Return the mean of the integers at the place of a number that is one token, its sign aside."""
    *signs, number = choices
    sign = "".join(choice.token for choice in signs)
    if sign + number.token != text or sign not in ("", "+", "-"):
        return math.nan
    shares = {word: math.exp(value) for word, value in number.top if _WHOLE.fullmatch(word)}
    if all(len(word.lstrip("+-")) < 2 for word in shares):
        return math.nan
    mean = sum(int(word) * share for word, share in shares.items()) / sum(shares.values())
    return -mean if sign == "-" else mean


def expected_number(choices: Sequence[TokenChoice], text: str) -> float:
    """Return the expected value of the signed number ``text``; NaN if its tokens do not give it.

    A number of one token is the mean described above. Of several tokens of one digit each, every digit is replaced by
    its mean. (The published code joins the means to a text that is not a number.) The sign is the answer's.
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
    """Return the mean of the number tokens among the most likely ones; NaN if none counts."""
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
