"""A strict parser of percentages by frame number, as GVL asks for them.

A number counts only if the answer ties it to a frame: a JSON entry with both, or a line that begins with
the frame's number. Position counts for nothing: a list of bare numbers states no frame's percentage. A frame that
two places of the answer state differently, ranges (``40-50%``), bounds (``< 5%``) and fractions that could be
percent or not (``0.5``) are left out.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from stepscore.judges.common.parsing import json_values, percent_value, strip_thinking

_NUMBER = r"(?<![\w.<>≤≥–—+−-])(?<![0-9][.,])[-+]?[0-9]{1,6}(?:\.[0-9]{1,6})?(?!\w|[.,][0-9])"
_FRAME = r"frame[ \t_#]*([0-9]{1,4})(?![0-9]|[.,][0-9])"
_LABEL = r"(?:(?:completion|progress)(?:[ _]percent(?:age)?s?)?|percent(?:age)?s?)"
_LABELLED = (
    rf"{_LABEL}[ \t*_\"'`]{{0,9}}(?:[:=]|[-–—](?=[ \t])|\bis\b)?[ \t*_\"'`~≈]{{0,9}}"
    rf"(?:(?:about|around|approximately|roughly) )?(?P<value>{_NUMBER})[ \t]*(?P<sign>%?)"
)

_BEGINS = re.compile(
    rf"(?:^|\n)[-*•>#\"'`_\[(| \t]*(?:[0-9]{{1,3}}[.)][ \t]*)?[*_\"'`]*{_FRAME}"
    rf"|(?<=[.;,%|)])[ \t*_|]*{_FRAME}[ \t*_]*:",
    re.IGNORECASE,
)
_ON_LINE = re.compile(_LABELLED, re.IGNORECASE)
_OWN_LINE = re.compile(rf"[-*•>#\"'`_| \t]*(?:task[ _])?{_LABELLED}", re.IGNORECASE)
_PERCENT = re.compile(rf"(?P<value>{_NUMBER})[ \t]*(?P<sign>%)")
_ALONE = re.compile(rf"[ \t:=*_\"'`|()\[\]]*(?P<value>{_NUMBER})(?P<sign>)[ \t*_\"'`|()\[\].,;]*")
_OTHER_FRAME = re.compile(r"\bframes?[ \t_#]*[0-9]", re.IGNORECASE)
_BOUND_BEFORE = re.compile(
    r"(?:[0-9][ \t]*%?[ \t]*(?:-|–|—|~|to|or|and|/|of|out of)?|[<>≤≥]|\b(?:less|more) than"
    r"|\b(?:under|over|below|above|not|at least|at most|up to))[ \t]*$",
    re.IGNORECASE,
)
_RANGE_AFTER = re.compile(r"[ \t]*%?[ \t]*(?:(?:-|–|—|~|to|or|out of)[ \t]*[-+]?[0-9]|/)", re.IGNORECASE)

_FRAME_KEY = re.compile(r"(?:frame(?:[ _]?(?:number|no|id|index))?|number)")
_VALUE_KEY = re.compile(r"percent|completion|progress")
_FRAME_NAME = re.compile(r"(?:frame[ _#]*)?([0-9]{1,4})", re.IGNORECASE)
_STATED = re.compile(r"\s*([-+]?[0-9]{1,6}(?:\.[0-9]{1,6})?)\s*(%?)\s*")


def parse_frame_percentages(text: str, frames: Collection[int], *, cut: bool = False) -> dict[int, float]:
    """Return percent by frame number, for those of ``frames`` that the answer states once, or always alike.

    Values outside 0..100 are returned as they were stated; the caller decides.

    Args:
        text: The model's answer, with or without its thinking.
        frames: Numbers of the frames asked about. Others, as those of examples, are left out.
        cut: The answer was cut off at its length: its last frame's percentage is left out, because the
            rest might have changed it (``4`` of ``45%``, ``40`` of ``40 to 50%``).
    """
    answer = strip_thinking(text)
    stated: dict[int, set[float]] = defaultdict(set)
    entries = [entry for value in json_values(answer) for entry in _json_entries(value)]
    for number, percent in entries or _line_entries(answer, cut=cut):
        stated[number].add(percent)
    wanted = set(frames)
    agreed = {number: values for number, values in stated.items() if number in wanted and len(values) == 1}
    return {number: value for number, (value,) in sorted(agreed.items()) if math.isfinite(value)}


def _line_entries(text: str, *, cut: bool) -> Iterator[tuple[int, float]]:
    """Yield the frame numbers that begin a line or a clause, with the percentage stated after each."""
    begins = list(_BEGINS.finditer(text))
    ends = [following.start() for following in begins[1:]]
    if not cut:
        ends.append(len(text))
    for this, end in zip(begins, ends, strict=False):
        # From the number on, so that a colon that was matched is matched again.
        group = 1 if this[1] else 2
        for match in _statements(text[this.end(group) : end]):
            yield int(this[group]), percent_value(match["value"], has_sign=bool(match["sign"]))


def _statements(after: str) -> list[re.Match[str]]:
    """Return where a percentage is stated after a frame's number: on its line, else on lines below."""
    line, _, below = after.partition("\n")
    labelled = [match for match in _ON_LINE.finditer(line) if _is_exact(match)]
    if labelled:
        return labelled
    begun, at = bool(line.strip(" \t*_:\"'`#")), len(line) + 1
    for own in below.split("\n"):
        if begun and not own.strip():
            break  # an empty line ends the part about a frame; a summary may follow
        begun = begun or bool(own.strip())
        match = _OWN_LINE.match(after, at, at + len(own))
        if match and _is_exact(match):
            labelled.append(match)
        at += len(own) + 1
    return labelled or _unlabelled(line)


def _unlabelled(line: str) -> list[re.Match[str]]:
    """Return a line's only percentage if it comes first or is set off at the end: not in ``it is 50% open``."""
    if _OTHER_FRAME.search(line):
        return []
    percents = list(_PERCENT.finditer(line))
    if not percents:
        alone = _ALONE.fullmatch(line)
        return [alone] if alone else []
    if len(percents) > 1 or not _is_exact(percents[0]):
        return []
    before, after = line[: percents[0].start()].rstrip(" \t*_\"'`~≈"), line[percents[0].end() :]
    first = not before.strip(" \t:=*_\"'`|()[]–—-")
    last = not after.strip(" \t*_\"'`|()[].,;") and before[-1:] in tuple(",:;(|[=-–—")
    return percents if first or last else []


def _is_exact(match: re.Match[str]) -> bool:
    """Return whether a number is neither an end of a range nor a bound."""
    text, (start, end) = match.string, match.span("value")
    return not (_BOUND_BEFORE.search(text[:start]) or _RANGE_AFTER.match(text, end))


def _json_entries(value: object) -> Iterator[tuple[int, float]]:
    """Yield frame numbers with percentages from anywhere in a JSON value."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            own = next((_frame(v) for k, v in item.items() if _FRAME_KEY.fullmatch(k)), None)
            if own is not None:
                yield own, _entry_value(item)
                continue
            for key, inner in item.items():
                named = _FRAME_NAME.fullmatch(key)
                if named is None:
                    waiting.append(inner)
                elif isinstance(inner, dict):
                    yield int(named[1]), _entry_value(inner)
                elif not isinstance(inner, list):
                    yield int(named[1]), _json_percent(inner)


def _entry_value(entry: Mapping[str, object]) -> float:
    """Return the one percentage of an entry; NaN if it has none, or several that differ."""
    values = {_json_percent(value) for key, value in entry.items() if _VALUE_KEY.search(key)}
    known = {value for value in values if not math.isnan(value)}
    return known.pop() if len(known) == 1 else math.nan


def _frame(value: object) -> int | None:
    if isinstance(value, str) and (named := _FRAME_NAME.fullmatch(value.strip())):
        return int(named[1])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _json_percent(value: object) -> float:
    if isinstance(value, str) and (stated := _STATED.fullmatch(value)):
        return percent_value(stated[1], has_sign=bool(stated[2]))
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6:
        return percent_value(repr(value), has_sign=False)
    return math.nan
