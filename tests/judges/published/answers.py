"""Answers in the form of each published model: good ones with the value they state, and broken ones with none.

Everything comes from a seed. A broken answer is derived from a good one so that its form is broken for certain: what
it states can then only be unknown.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Made = tuple[str, float]
"""An answer, and the number it states; NaN where it states none in the published form."""


@dataclass(frozen=True)
class AnswerForm:
    """How a model writes a number, and the numbers that it may write."""

    write: Callable[[random.Random, str], str]
    number: Callable[[random.Random], tuple[str, float]]
    outside: Callable[[random.Random], str]
    tag: str = ""
    dangling: bool = True
    """Whether a tag that is opened again and never closed makes the answer unknown."""


def _words(rng: random.Random) -> str:
    return " ".join(
        rng.choices(
            ["the", "gripper", "moved", "closer", "3", "cups", "50%", "of", "it"], k=rng.randint(0, 6)
        )
    )


def _signed(rng: random.Random) -> tuple[str, float]:
    value = rng.choice([rng.randint(-100, 100), round(rng.uniform(-100, 100), 1)])
    return f"{value:+}" if value else "0", float(value)


def _percentage(rng: random.Random) -> tuple[str, float]:
    value = rng.choice([rng.randint(2, 100), round(rng.uniform(1.1, 100), 2)])
    return f"{value}", float(value)


def _integer(rng: random.Random) -> tuple[str, float]:
    value = rng.randint(-100, 100)
    return str(value), float(value)


def _level(rng: random.Random) -> tuple[str, float]:
    value = rng.randint(1, 5)
    return str(value), float(value)


def _beyond(rng: random.Random) -> str:
    return str(rng.choice([-1, 1]) * rng.randint(101, 999))


FORMS: dict[str, AnswerForm] = {
    "grm/pair": AnswerForm(lambda r, n: f"<score>{n}%</score>", _signed, _beyond, "score"),
    "procvlm/window": AnswerForm(
        lambda r, n: (
            f"The following actions are required:\n1. Grasp the {_words(r)}.\nTherefore <progress>{n}%</progress>."
        ),
        _percentage,
        _beyond,
        "progress",
        dangling=False,
    ),
    "roboreward/video": AnswerForm(
        lambda r, n: f"{r.choice(['ANSWER', 'Answer'])}: {n}",
        _level,
        lambda r: r.choice(["0", "6", "45", "4.5", "3/5", "2 or 3"]),
    ),
    "vlac/compare": AnswerForm(lambda r, n: n, _signed, _beyond),
    "vlac/done": AnswerForm(
        lambda r, n: n,
        lambda r: (d := r.choice("01"), float(d)),
        lambda r: r.choice(["2", "-1", "10", "0.5"]),
    ),
    "sole-r1/both": AnswerForm(
        lambda r, n: f"<think>{_words(r)} <answer>12%</answer></think><answer>{n}%</answer>",
        _integer,
        _beyond,
        "answer",
    ),
    "progresslm/text": AnswerForm(
        lambda r, n: (
            f"<ref_think>{_words(r)}</ref_think><ref>{r.randint(1, 5)}</ref>"
            f"<score_think>{_words(r)}</score_think><score>{n}%</score>"
        ),
        _percentage,
        _beyond,
        "score",
    ),
}
FORMS["progresslm/visual"] = FORMS["progresslm/text"]
FORMS["sole-r1/external"] = FORMS["sole-r1/wrist"] = FORMS["sole-r1/both"]


def answers(name: str, count: int, seed: int) -> Iterator[Made]:
    """Yield ``count`` answers: about half of them good, the others malformed, contradictory, outside or missing."""
    rng, form = random.Random(f"{name} {seed}"), FORMS[name]
    for _ in range(count):
        digits, value = form.number(rng)
        good = form.write(rng, digits)
        yield (good, value) if rng.random() < 0.5 else (_broken(rng, form, good, digits), math.nan)


def _broken(rng: random.Random, form: AnswerForm, good: str, digits: str) -> str:
    kinds = [
        "",
        " ",
        "I cannot tell.",
        "nan",
        "<think>" + good.replace("</think>", ""),
        "n/a",
        form.write(rng, form.outside(rng)),
    ]
    kinds += [
        form.write(rng, wrong)
        for wrong in ("", "NaN", "inf", "ten", "--5", "1e2", "５", "5..5", "-25.0.0.5.6", "+ 5")
    ]
    if form.tag:
        end, start = f"</{form.tag}>", f"<{form.tag}>"
        other = form.write(rng, str(float(digits) + 1).removesuffix(".0") if float(digits) < 100 else "7")
        kinds += [
            good.replace(end, ""),
            good.replace(start, ""),
            good + other,
            good.replace("%" + end, "% or so" + end),
        ]
        kinds += [f"{good} {start}"] if form.dangling else []
        kinds += [f"{start}n/a{end}", good[: good.index(end)]]
    elif ":" in good:
        kinds += [
            f"{good}\nANSWER: {5 if digits != '5' else 1}",
            good.replace(":", ""),
            f"{good}\nANSWER:",
            digits,
            f"{good}%",
        ]
    else:
        kinds += [f"{good} {good}", f"about {good}", f"{good}!", f"<score>{good}", f"{good}%%"]
    return rng.choice(kinds)
