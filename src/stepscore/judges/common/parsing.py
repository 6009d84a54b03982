"""What an answer in words states, and nothing else.

Every function here is pure and strict. It returns what stands in the answer, or unknown: ``"unknown"`` for a
verdict, NaN for a number, ``None`` for a list. Statements that contradict each other are unknown. Nothing is
clipped, completed, or taken from position. A model's thinking (``<think> ... </think>``) is no part of its
answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stepscore.types import VerdictAnswer

_THINKING = re.compile(r"<think>.*?(?:</think>|\Z)", re.DOTALL | re.IGNORECASE)
_NUMBER = r"[+-]?[0-9]{1,6}(?:\.[0-9]{1,12})?"
_SECONDS = re.compile(rf"\s*({_NUMBER})\s*(?:s|sec|seconds?)?\s*", re.IGNORECASE)
_LISTED = re.compile(r"^[^\S\n]*[*_]*([0-9]{1,3})[.)][*_]*[^\S\n]+(\S.*)$", re.MULTILINE)
_NOTHING_LEFT = re.compile(
    r"\bno (?:further |more |other |remaining |additional )?(?:actions?|steps?)"
    r"(?: (?:is|are|remains?))?(?: (?:required|needed|necessary|left|remain|remaining))\b",
    re.IGNORECASE,
)
_WORDS: Mapping[str, VerdictAnswer] = {
    "yes": "yes",
    "true": "yes",
    "no": "no",
    "false": "no",
    "unknown": "unknown",
    "unclear": "unknown",
    "uncertain": "unknown",
}
# A verdict word that is a clause of its own: "Yes, it is open." and "Answer: no", but not "no doubt" and not
# "yes and no".
_CLAUSE = re.compile(
    rf"(?:^|[.,;:!?\n(\"'*])[^\S\n]*[\"'*_`]*({'|'.join(_WORDS)})[\"'*_`]*"
    r"(?=[^\S\n]*(?:[.,;:!?\n)\"]|$)|[^\S\n]+[-–—])",
    re.IGNORECASE,
)
_LEAD = re.compile(r"^\s*[\"'*_`#]*(?:(?:final )?(?:answer|verdict)[*_]*\s*:)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stated:
    """What an answer says of one subgoal.

    Attributes:
        answer: ``"yes"``, ``"no"``, or ``"unknown"`` where it says so or says nothing that can be read.
        when_s: The second it names; NaN where it names none.
        why: Its reason, in its words.
    """

    answer: VerdictAnswer
    when_s: float = math.nan
    why: str = ""


NOTHING = Stated("unknown")


def strip_thinking(text: str) -> str:
    """The answer without the model's thinking; thinking that was cut off leaves no answer."""
    return _THINKING.sub("", text)


def plain(text: str) -> str:
    """A text as it is compared: lower case, single spaces, no marks around it."""
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'`*_()[]")


def tagged_percent(text: str, tag: str) -> float:
    """The percentage inside ``<tag> ... </tag>``, over 100; NaN where none is stated.

    ``<score>+25%</score>`` is 0.25. The percent sign may be missing where the number cannot be a fraction
    (``25``, ``-40.5``, ``0``); ``0.5`` without it could mean either, and is unknown. Tags that hold anything
    else, and several tags that differ, are unknown. The value may lie outside 0..1; the caller decides.
    """
    inside = re.findall(rf"<{tag}>(.*?)</{tag}>", strip_thinking(text), re.DOTALL | re.IGNORECASE)
    values = {_percent(content) for content in inside}
    return values.pop() if len(values) == 1 else math.nan


def stated_verdict(text: str) -> Stated:
    """The verdict of an answer to one question: a JSON object with ``answer``, else a word of its own."""
    said = strip_thinking(text)
    entries = [entry for entry in _entries(said) if "answer" in entry]
    if entries:
        return _agreed([_stated(entry) for entry in entries])
    word = _leading_word(said)
    return Stated(word, why=said.strip()) if word else NOTHING


def stated_verdicts(text: str, names: Sequence[str]) -> tuple[Stated, ...]:
    """The verdicts of an answer about several subgoals, one for each name; unknown for those not spoken of.

    An entry speaks of a subgoal if it gives its number (from 1) or its name; one that gives both, and not the
    same, speaks of none. Without JSON, lines such as ``2. no - it slipped`` are read.
    """
    said = strip_thinking(text)
    found: list[list[Stated]] = [[] for _ in names]
    entries = [entry for entry in _entries(said) if "answer" in entry]
    for entry in entries:
        place = _place(entry, names)
        if place is not None:
            found[place].append(_stated(entry))
    if not entries:
        for number, rest in _LISTED.findall(said):
            place = int(number) - 1
            if 0 <= place < len(names) and (word := _leading_word(_after_name(rest, names[place]))):
                found[place].append(Stated(word, why=rest.strip()))
    return tuple(_agreed(stated) if stated else NOTHING for stated in found)


def remaining_actions(text: str) -> tuple[str, ...] | None:
    """The numbered actions that an answer says are left; empty where it says that none is, else ``None``.

    ProcVLM's form (model card): ``the following steps are required:`` and a list numbered from 1, or a
    sentence with ``no further steps required``, or only a reason and ``<progress>100%</progress>``. Two
    lists, or a list beside such a sentence, are ``None``.
    """
    said = strip_thinking(text)
    listed = _LISTED.findall(said)
    none_left = bool(_NOTHING_LEFT.search(said))
    if not listed:
        return () if none_left or tagged_percent(said, "progress") == 1 else None
    if none_left or [int(number) for number, _ in listed] != list(range(1, len(listed) + 1)):
        return None
    actions = tuple(action.strip() for _, action in listed)
    return () if len(actions) == 1 and plain(actions[0]) in ("none", "done", "nothing") else actions


def _percent(content: str) -> float:
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(%?)\s*", content)
    if match is None:
        return math.nan
    value = float(match[1])
    ambiguous = not match[2] and 0 < abs(value) <= 1
    return math.nan if ambiguous else value / 100


def _entries(text: str) -> Iterator[Mapping[str, object]]:
    """The objects in an answer that may hold a verdict."""
    for value in _json_values(text):
        listed = value if isinstance(value, list) else [value]
        for item in listed:
            inner = item.get("subgoals") if isinstance(item, dict) else None
            yield from (
                row for row in (inner if isinstance(inner, list) else [item]) if isinstance(row, dict)
            )


def _json_values(text: str) -> Iterator[object]:
    """Every JSON object or list in a text, from the outside; of a cut-off one, its complete parts."""
    decoder = json.JSONDecoder(object_pairs_hook=_consistent, parse_constant=lambda _: None)
    at = 0
    while (start := _next_bracket(text, at)) >= 0:
        try:
            value, at = decoder.raw_decode(text, start)
        except RecursionError:
            return  # brackets in brackets a thousand deep: no answer, and none behind it
        except ValueError:
            at = start + 1
        else:
            yield value


def _next_bracket(text: str, at: int) -> int:
    match = re.compile(r"[{\[]").search(text, at)
    return match.start() if match else -1


def _consistent(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object with keys in lower case, without those that it states twice and differently."""
    found: dict[str, object] = {}
    lowered = [(key.strip().lower(), value) for key, value in pairs]
    contradicted = {key for key, value in lowered if value != found.setdefault(key, value)}
    return {key: value for key, value in found.items() if key not in contradicted}


def _stated(entry: Mapping[str, object]) -> Stated:
    answer, when, why = entry.get("answer"), entry.get("when"), entry.get("why")
    said = {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else answer
    word = _WORDS.get(plain(said), "unknown") if isinstance(said, str) else "unknown"
    # JSON may spell half of a character ("\\ud83e"), which no table can hold.
    reason = why.encode("utf-8", "replace").decode() if isinstance(why, str) else ""
    return Stated(word, _seconds(when), reason)


def _seconds(value: object) -> float:
    if isinstance(value, str) and (match := _SECONDS.fullmatch(value)):
        return float(match[1])
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:
        return float(value)
    return math.nan


def _place(entry: Mapping[str, object], names: Sequence[str]) -> int | None:
    """Which subgoal an entry speaks of, counted from 0."""
    said, name = entry.get("number"), entry.get("name", entry.get("subgoal"))
    if isinstance(said, str) and re.fullmatch(r"[0-9]{1,3}", said):
        said = int(said)
    by_number = said - 1 if isinstance(said, int) and not isinstance(said, bool) else None
    if by_number is not None and not 0 <= by_number < len(names):
        return None
    if not isinstance(name, str):
        return by_number
    by_name = next((i for i, known in enumerate(names) if plain(known) == plain(name)), None)
    return by_name if by_number is None or by_number == by_name else None


def _leading_word(text: str) -> VerdictAnswer | None:
    """The verdict word a text begins with, if no clause of its own contradicts it."""
    begins = _LEAD.match(text)
    rest = text[begins.end() :] if begins else text
    first = _CLAUSE.match(rest.lstrip())
    if first is None:
        return None
    answers = {_WORDS[word.lower()] for word in _CLAUSE.findall(rest.lstrip())}
    return answers.pop() if len(answers) == 1 else None


def _after_name(line: str, name: str) -> str:
    """A line's text after a subgoal's name and a colon or dash, where it begins with them."""
    match = re.match(r"(.*?)(?::|\s[-–—]\s)(.*)", line)
    return match[2] if match and plain(match[1]) == plain(name) else line


def _agreed(stated: Sequence[Stated]) -> Stated:
    """The first of several statements about one thing, as far as they do not contradict each other."""
    if len({each.answer for each in stated}) > 1:
        return NOTHING
    first = stated[0]
    same_time = len({each.when_s for each in stated}) == 1
    return first if same_time else replace(first, when_s=math.nan)
