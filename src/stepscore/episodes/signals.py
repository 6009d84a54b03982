"""Signals: numbers recorded at every step of an episode, such as the robot's state and action.

A reader whose format records them gives the episode a :class:`SignalReader`; :meth:`Episode.signals` reads them when
they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from stepscore.types import FloatArray

MAX_DIMENSIONS = 1024
"""Widest signal that is read; wider ones are features of a network, not of a robot."""


MAX_NAME = 100
"""Characters of a dimension's name that are kept."""


@dataclass(frozen=True)
class Signal:
    """One recorded quantity over the time of an episode.

    Attributes:
        name: Its name in the source: ``observation.state``, ``action``.
        dimensions: Name of each of its dimensions; ``"0"``, ``"1"`` ... where the source names none.
        times: Seconds from the episode's first frame, (n,).
        values: In the source's own units, (n, dimensions); NaN where unknown.
    """

    name: str
    dimensions: tuple[str, ...]
    times: FloatArray
    values: FloatArray

    def __post_init__(self) -> None:
        expected = (len(self.times), len(self.dimensions))
        if self.values.shape != expected:
            raise ValueError(f"{self.name}: values are {self.values.shape}, times and dimensions {expected}.")

    def at(self, steps: Sequence[int] | np.ndarray, times: FloatArray) -> Signal:
        """Return the same signal at some of its steps, which now have these times."""
        return Signal(self.name, self.dimensions, times, self.values[np.asarray(steps, dtype=np.int64)])


class SignalReader(Protocol):
    """The signals of one episode, read on demand. Opens nothing before; must be picklable."""

    @property
    def path(self) -> Path:
        """The file they are in."""

    def read(self) -> tuple[Signal, ...]:
        """Read all of them, state and action first; EpisodeError where the file does not have them."""


def dimension_names(n: int, names: object = None) -> tuple[str, ...]:
    """Return the ``n`` names that a source states, or numbers if it does not name each dimension.

    LeRobot has a list, a list under one key (``{"motors": [...]}``), places by name (``{"x": 0}``), or nothing.
    """
    if isinstance(names, dict) and all(type(place) is int for place in names.values()):
        names = sorted(names, key=names.__getitem__)
    elif isinstance(names, dict) and len(names) == 1:
        (names,) = names.values()
    if (
        isinstance(names, list)
        and len(names) == n
        and len({name for name in names if isinstance(name, str)}) == n
    ):
        return tuple(name[:MAX_NAME] for name in names)
    return tuple(str(i) for i in range(n))
