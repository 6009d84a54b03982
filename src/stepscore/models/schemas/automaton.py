"""A pattern as a deterministic automaton over bytes, of which only the states that are reached are computed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from stepscore.models.schemas.patterns import Nfa, Pattern

if TYPE_CHECKING:
    from numpy.typing import NDArray

DEAD = 0
"""The state from which no text of the pattern can be reached any more."""

START = 1


class Automaton:
    """Reads the bytes of a text one by one, and knows whether they are a text of a pattern, or can become one."""

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
        """States computed so far."""
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
        """Return the table of transitions, in which the rows of these states are computed."""
        for state in states:
            self.row(state)
        return self._table

    def advance(self, state: int, text: bytes) -> int:
        """Return the state after more bytes."""
        for byte in text:
            state = int(self.row(state)[byte])
        return state

    def is_end(self, state: int) -> bool:
        """Return whether the bytes read so far are a text of the pattern."""
        return self._end in self._members[state]

    def is_last(self, state: int) -> bool:
        """Return whether nothing can follow."""
        return not self.row(state).any()

    def distance(self, state: int) -> int:
        """Return the fewest bytes that are missing for a text of the pattern."""
        return min((self._distances[member] for member in self._members[state]), default=1 << 30)

    def accepts(self, text: str) -> bool:
        """Return whether a text is one of the pattern."""
        return self.is_end(self.advance(START, text.encode("utf-8", "surrogatepass")))

    def _closed(self, states: Iterable[int]) -> frozenset[int]:
        """Return states with all that they lead to without a byte."""
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
