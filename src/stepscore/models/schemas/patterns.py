"""Regular patterns of a schema's answers, as a regular expression and as an automaton over bytes.

There are six patterns: a fixed text, a digit, a character class, a sequence, an alternative and a repetition.
Each can be written as a regular expression that Python's ``re`` and the servers' engines read the same way,
and can be added to a nondeterministic automaton (:class:`Nfa`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SPECIAL = frozenset(r"\.^$*+?{}[]|()")
_ESCAPES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

Arc = tuple[int, int, int]
"""The lowest and the highest byte that an arc accepts, and its target state."""


@dataclass
class Nfa:
    """A nondeterministic automaton over bytes."""

    arcs: list[list[Arc]] = field(default_factory=list)
    jumps: list[list[int]] = field(default_factory=list)

    def add_state(self) -> int:
        """Add a state and return its number."""
        self.arcs.append([])
        self.jumps.append([])
        return len(self.arcs) - 1

    def add_arc(self, start: int, low: int, high: int, end: int | None = None) -> int:
        """Add an arc for the bytes ``low`` to ``high``; return its target, a new state unless ``end`` is given."""
        end = self.add_state() if end is None else end
        self.arcs[start].append((low, high, end))
        return end

    def distances(self, end: int) -> list[int]:
        """Return the smallest number of bytes from each state to ``end``."""
        back: list[list[tuple[int, int]]] = [[] for _ in self.arcs]
        for state, (arcs, jumps) in enumerate(zip(self.arcs, self.jumps, strict=True)):
            for _, _, target in arcs:
                back[target].append((state, 1))
            for target in jumps:
                back[target].append((state, 0))
        found = [-1] * len(self.arcs)
        waiting = deque([(end, 0)])
        while waiting:
            state, distance = waiting.popleft()
            if found[state] >= 0:
                continue
            found[state] = distance
            for before, cost in back[state]:
                if found[before] < 0:
                    (waiting.append if cost else waiting.appendleft)((before, distance + cost))
        return found


class Pattern(Protocol):
    """A set of texts."""

    def regex(self) -> str:
        """Return the pattern as a regular expression without anchors."""

    def add_to(self, nfa: Nfa, start: int) -> int:
        """Add the pattern to an automaton after state ``start``; return the state that completes the pattern."""


@dataclass(frozen=True)
class Text:
    """Exactly this text."""

    text: str

    def regex(self) -> str:
        """See :class:`Pattern`."""
        return "".join(_ESCAPES.get(c, f"\\{c}" if c in _SPECIAL else c) for c in self.text)

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`."""
        for byte in self.text.encode():
            start = nfa.add_arc(start, byte, byte)
        return start


@dataclass(frozen=True)
class AnyCharacter:
    """Any character except those in ``but``."""

    but: str = "\n"

    def regex(self) -> str:
        """See :class:`Pattern`."""
        return f"[^{''.join(map(_in_brackets, sorted(self.but)))}]"

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`. Beyond ASCII, the byte sequences are those of well-formed UTF-8."""
        end = nfa.add_state()
        for before, after in pairwise([-1, *sorted(map(ord, {*self.but})), 128]):
            if before + 1 < after:
                nfa.add_arc(start, before + 1, after - 1, end)
        last = nfa.add_state()
        nfa.add_arc(last, 0x80, 0xBF, end)
        nfa.add_arc(start, 0xC2, 0xDF, last)
        middle = nfa.add_state()
        nfa.add_arc(middle, 0x80, 0xBF, last)
        for lead, low, high in ((0xE0, 0xA0, 0xBF), (0xED, 0x80, 0x9F)):
            nfa.add_arc(nfa.add_arc(start, lead, lead), low, high, last)
        nfa.add_arc(start, 0xE1, 0xEC, middle)
        nfa.add_arc(start, 0xEE, 0xEF, middle)
        for lead, last_lead, low, high in (
            (0xF0, 0xF0, 0x90, 0xBF),
            (0xF1, 0xF3, 0x80, 0xBF),
            (0xF4, 0xF4, 0x80, 0x8F),
        ):
            nfa.add_arc(nfa.add_arc(start, lead, last_lead), low, high, middle)
        return end


@dataclass(frozen=True)
class Digit:
    """One digit."""

    def regex(self) -> str:
        """See :class:`Pattern`."""
        return "[0-9]"

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`."""
        return nfa.add_arc(start, ord("0"), ord("9"))


@dataclass(frozen=True)
class InOrder:
    """One pattern after another.

    Attributes:
        parts: The patterns.
        group: Whether the regular expression captures it as a group.
    """

    parts: tuple[Pattern, ...]
    group: bool = False

    def regex(self) -> str:
        """See :class:`Pattern`."""
        inside = "".join(part.regex() for part in self.parts)
        return f"({inside})" if self.group else inside

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`."""
        for part in self.parts:
            start = part.add_to(nfa, start)
        return start


@dataclass(frozen=True)
class OneOfPatterns:
    """One of several patterns."""

    parts: tuple[Pattern, ...]

    def regex(self) -> str:
        """See :class:`Pattern`."""
        return f"(?:{'|'.join(part.regex() for part in self.parts)})"

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`."""
        end = nfa.add_state()
        for part in self.parts:
            nfa.jumps[part.add_to(nfa, start)].append(end)
        return end


@dataclass(frozen=True)
class Repeated:
    """A pattern repeated zero or more times."""

    part: Pattern

    def regex(self) -> str:
        """See :class:`Pattern`."""
        return f"(?:{self.part.regex()})*"

    def add_to(self, nfa: Nfa, start: int) -> int:
        """See :class:`Pattern`."""
        # Loop on a new state: other arcs may leave the previous one, and the loop must not lead back to them.
        around = nfa.add_state()
        nfa.jumps[start].append(around)
        nfa.jumps[self.part.add_to(nfa, around)].append(around)
        end = nfa.add_state()
        nfa.jumps[around].append(end)
        return end


def _in_brackets(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if ord(character) < 32:
        return f"\\x{ord(character):02x}"
    return f"\\{character}" if character in r"\]^-" else character


DEAD = 0
"""The state from which the pattern can no longer match."""

START = 1


class Automaton:
    """Reads a text byte by byte, and tracks whether the text matches a pattern or still can."""

    def __init__(self, pattern: Pattern) -> None:
        self._nfa = Nfa()
        self._end = pattern.add_to(self._nfa, self._nfa.add_state())
        self._distances = self._nfa.distances(self._end)
        self._members: list[frozenset[int]] = [frozenset()]
        self._numbers: dict[frozenset[int], int] = {self._members[0]: DEAD}
        self._table: NDArray[np.int32] = np.full((64, 256), -1, dtype=np.int32)
        self._table[DEAD] = DEAD
        self._number(self._closed([0]))

    def __len__(self) -> int:
        """Number of states computed so far."""
        return len(self._members)

    def row(self, state: int) -> NDArray[np.int32]:
        """Return the state after each of the 256 bytes."""
        if self._table[state, 0] < 0:
            arcs = [arc for member in self._members[state] for arc in self._nfa.arcs[member]]
            bounds = sorted({0, 256, *(low for low, _, _ in arcs), *(high + 1 for _, high, _ in arcs)})
            row = np.zeros(256, dtype=np.int32)
            for first, end in pairwise(bounds):
                targets = [target for low, high, target in arcs if low <= first <= high]
                row[first:end] = self._number(self._closed(targets))
            self._table[state] = row
        found: NDArray[np.int32] = self._table[state]
        return found

    def table(self, states: Iterable[int]) -> NDArray[np.int32]:
        """Return the transition table, with the rows of these states computed."""
        for state in states:
            self.row(state)
        return self._table

    def advance(self, state: int, text: bytes) -> int:
        """Return the state after more bytes."""
        for byte in text:
            state = int(self.row(state)[byte])
        return state

    def is_end(self, state: int) -> bool:
        """Return whether the bytes read so far match the pattern."""
        return self._end in self._members[state]

    def is_last(self, state: int) -> bool:
        """Return whether nothing can follow."""
        return not self.row(state).any()

    def distance(self, state: int) -> int:
        """Return the smallest number of further bytes needed to match the pattern."""
        return min((self._distances[member] for member in self._members[state]), default=1 << 30)

    def accepts(self, text: str) -> bool:
        """Return whether a text matches the pattern."""
        return self.is_end(self.advance(START, text.encode("utf-8", "surrogatepass")))

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        """Return the states and all states reachable from them without reading a byte."""
        found, waiting = set(states), list(states)
        while waiting:
            for target in self._nfa.jumps[waiting.pop()]:
                if target not in found:
                    found.add(target)
                    waiting.append(target)
        return frozenset(found)

    def _number(self, members: frozenset[int]) -> int:
        if members not in self._numbers:
            self._numbers[members] = len(self._members)
            self._members.append(members)
            if len(self._members) > len(self._table):
                self._table = np.concatenate([self._table, np.full_like(self._table, -1)])
        return self._numbers[members]
