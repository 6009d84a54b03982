"""Strict parsers for text answers.

Every function returns the value that the answer states, or unknown: ``"unknown"`` for a verdict, NaN for a
number, ``None`` for a list. Contradictory statements count as unknown. Values are never clipped, completed,
or inferred from their position. A model's thinking (``<think> ... </think>``) is not part of the answer.
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
# A verdict word that is a separate clause: "Yes, it is open." and "Answer: no", but not "no doubt" and not
# "yes and no".
_CLAUSE = re.compile(
    rf"(?:^|[.,;:!?\n(\"'*])[^\S\n]*[\"'*_`]*({'|'.join(_WORDS)})[\"'*_`]*"
    r"(?=[^\S\n]*(?:[.,;:!?\n)\"]|$)|[^\S\n]+[-–—])",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[{\[]")
_LEAD = re.compile(r"^\s*[\"'*_`#]*(?:(?:final )?(?:answer|verdict)[*_]*\s*:)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SubgoalAnswer:
    """An answer about one subgoal: yes, no or unknown, the stated time in seconds (NaN if none), and the reason."""

    answer: VerdictAnswer
    when_s: float = math.nan
    why: str = ""


NO_ANSWER = SubgoalAnswer("unknown")


def strip_thinking(text: str) -> str:
    """Return the answer without the model's thinking; an answer cut off while thinking is empty."""
    return _THINKING.sub("", text)


def normalize_text(text: str) -> str:
    """Normalise a text for comparison: lower case, single spaces, no surrounding punctuation."""
    return " ".join(text.casefold().split()).strip(" .,;:!?\"'`*_()[]")


def parse_stated_number(
    text: str, pattern: str, begins: str | None = None, *, ignore_case: bool = False
) -> float:
    """Return the number that an answer states in a strict form; NaN without a number or with conflicting ones.

    Args:
        text: The answer.
        pattern: Regular expression for a complete statement, with one group that captures the number.
        begins: Literal text with which every statement begins. If there are more beginnings than complete
            statements, the answer is unknown. ``None``: the answer must be a single statement.
        ignore_case: Whether to ignore case.
    """
    flags = re.IGNORECASE if ignore_case else re.NOFLAG
    answer = strip_thinking(text)
    if begins is None:
        whole = re.fullmatch(pattern, answer.strip(), flags)
        return math.nan if whole is None else float(whole[1])
    stated = re.findall(pattern, answer, flags)
    if len(stated) != len(re.findall(re.escape(begins), answer, flags)):
        return math.nan
    values = set(map(float, stated))
    return values.pop() if len(values) == 1 else math.nan


def parse_tagged_percent(text: str, tag: str) -> float:
    """Return the percentage inside ``<tag> ... </tag>`` as a fraction; NaN if there is none.

    ``<score>+25%</score>`` is 0.25. The percent sign may be missing if the number cannot be a fraction (``25``,
    ``-40.5``, ``0``); ``0.5`` without a percent sign is ambiguous and therefore unknown. Other content or
    conflicting tags are also unknown. The value may lie outside 0..1.
    """
    inside = re.findall(rf"<{tag}>(.*?)</{tag}>", strip_thinking(text), re.DOTALL | re.IGNORECASE)
    values = {_tag_value(content) for content in inside}
    return values.pop() if len(values) == 1 else math.nan


def parse_subgoal_answer(text: str) -> SubgoalAnswer:
    """Return the answer to a question about one subgoal: a JSON object with ``answer``, else a single word."""
    answer = strip_thinking(text)
    entries = [entry for entry in _entries(answer) if "answer" in entry]
    if entries:
        return _agreed([_from_entry(entry) for entry in entries])
    word = _leading_word(answer)
    return SubgoalAnswer(word, why=answer.strip()) if word else NO_ANSWER


def parse_subgoal_answers(text: str, names: Sequence[str]) -> tuple[SubgoalAnswer, ...]:
    """Return the answers to a question about several subgoals, one for each name; unknown for those not mentioned.

    An entry belongs to a subgoal if it contains the subgoal's number (from 1) or name, and does not match two
    subgoals. If there is no JSON, lines such as ``2. no - it slipped`` are parsed.
    """
    answer = strip_thinking(text)
    by_subgoal: list[list[SubgoalAnswer]] = [[] for _ in names]
    entries = [entry for entry in _entries(answer) if "answer" in entry]
    for entry in entries:
        at = _subgoal_index(entry, names)
        if at is not None:
            by_subgoal[at].append(_from_entry(entry))
    if not entries:
        for number, rest in _LISTED.findall(answer):
            at = int(number) - 1
            if 0 <= at < len(names) and (word := _leading_word(_after_name(rest, names[at]))):
                by_subgoal[at].append(SubgoalAnswer(word, why=rest.strip()))
    return tuple(_agreed(answers) if answers else NO_ANSWER for answers in by_subgoal)


def parse_remaining_actions(text: str) -> tuple[str, ...] | None:
    """Return the remaining actions that an answer lists; empty if it states that none remain, else ``None``.

    ProcVLM's format (model card): ``the following steps are required:`` and a list numbered from 1, or a sentence
    with ``no further steps required``, or only a reason and ``<progress>100%</progress>``. Contradictory
    answers give ``None``.
    """
    answer = strip_thinking(text)
    listed = _LISTED.findall(answer)
    none_left = bool(_NOTHING_LEFT.search(answer))
    if not listed:
        return () if none_left or parse_tagged_percent(answer, "progress") == 1 else None
    if none_left or [int(number) for number, _ in listed] != list(range(1, len(listed) + 1)):
        return None
    actions = tuple(action.strip() for _, action in listed)
    return () if len(actions) == 1 and normalize_text(actions[0]) in ("none", "done", "nothing") else actions


def percent_value(digits: str, *, has_sign: bool) -> float:
    """Return a stated number as percent; NaN if it has no percent sign and could also be a fraction."""
    value = float(digits)
    return math.nan if not has_sign and 0 < abs(value) <= 1 else value


def _tag_value(content: str) -> float:
    match = re.fullmatch(rf"\s*({_NUMBER})\s*(%?)\s*", content)
    return math.nan if match is None else percent_value(match[1], has_sign=bool(match[2])) / 100


def _entries(text: str) -> Iterator[Mapping[str, object]]:
    """Yield the JSON objects of an answer that may contain a verdict."""
    for value in json_values(text):
        listed = value if isinstance(value, list) else [value]
        for item in listed:
            inner = item.get("subgoals") if isinstance(item, dict) else None
            yield from (
                row for row in (inner if isinstance(inner, list) else [item]) if isinstance(row, dict)
            )


def json_values(text: str) -> Iterator[object]:
    """Yield every outermost JSON object or list in a text, and the complete parts of a truncated value.

    Keys are lower-cased, and keys with conflicting values in an object are dropped.
    """
    decoder = json.JSONDecoder(object_pairs_hook=_consistent, parse_constant=lambda _: None)
    at = 0
    while (bracket := _BRACKET.search(text, at)) is not None:
        try:
            value, at = decoder.raw_decode(text, bracket.start())
        except RecursionError:
            return  # brackets nested a thousand deep are no answer, so stop here
        except ValueError:
            at = bracket.end()
        else:
            yield value


def _consistent(pairs: list[tuple[str, object]]) -> dict[str, object]:
    first: dict[str, object] = {}
    lowered = [(key.strip().lower(), value) for key, value in pairs]
    contradicted = {key for key, value in lowered if value != first.setdefault(key, value)}
    return {key: value for key, value in first.items() if key not in contradicted}


def _from_entry(entry: Mapping[str, object]) -> SubgoalAnswer:
    answer, when, why = entry.get("answer"), entry.get("when"), entry.get("why")
    text = {True: "yes", False: "no"}[answer] if isinstance(answer, bool) else answer
    word = _WORDS.get(normalize_text(text), "unknown") if isinstance(text, str) else "unknown"
    # JSON may encode an unpaired surrogate ("\\ud83e"), which no table can store.
    reason = why.encode("utf-8", "replace").decode() if isinstance(why, str) else ""
    return SubgoalAnswer(word, _seconds(when), reason)


def _seconds(value: object) -> float:
    if isinstance(value, str) and (match := _SECONDS.fullmatch(value)):
        return float(match[1])
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:
        return float(value)
    return math.nan


def _subgoal_index(entry: Mapping[str, object], names: Sequence[str]) -> int | None:
    """Return the index, from 0, of the subgoal that an entry belongs to."""
    number, name = entry.get("number"), entry.get("name", entry.get("subgoal"))
    if isinstance(number, str) and re.fullmatch(r"[0-9]{1,3}", number):
        number = int(number)
    by_number = number - 1 if isinstance(number, int) and not isinstance(number, bool) else None
    if by_number is not None and not 0 <= by_number < len(names):
        return None
    if not isinstance(name, str):
        return by_number
    by_name = next(
        (i for i, known in enumerate(names) if normalize_text(known) == normalize_text(name)), None
    )
    return by_name if by_number is None or by_number == by_name else None


def _leading_word(text: str) -> VerdictAnswer | None:
    """Return the verdict word a text begins with, unless another clause contradicts it."""
    begins = _LEAD.match(text)
    rest = text[begins.end() :] if begins else text
    first = _CLAUSE.match(rest.lstrip())
    if first is None:
        return None
    answers = {_WORDS[word.lower()] for word in _CLAUSE.findall(rest.lstrip())}
    return answers.pop() if len(answers) == 1 else None


def _after_name(line: str, name: str) -> str:
    """Return a line without its leading subgoal name and colon or dash, if present."""
    match = re.match(r"(.*?)(?::|\s[-–—]\s)(.*)", line)
    return match[2] if match and normalize_text(match[1]) == normalize_text(name) else line


def _agreed(answers: Sequence[SubgoalAnswer]) -> SubgoalAnswer:
    """Merge several answers about one subgoal: the first answer, with contradicted fields unknown."""
    if len({each.answer for each in answers}) > 1:
        return NO_ANSWER
    first = answers[0]
    same_time = len({each.when_s for each in answers}) == 1
    return first if same_time else replace(first, when_s=math.nan)
