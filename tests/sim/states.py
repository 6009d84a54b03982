"""States made by hand."""

from __future__ import annotations

import numpy as np

from stepscore.sim.state import State


def state(
    *,
    tcp: tuple[float, float, float] = (0.0, 0.0, 0.3),
    obj: tuple[float, float, float] = (0.0, 0.0, 0.0),
    target: tuple[float, float, float] = (0.4, 0.0, 0.0),
    opening: float = 1.0,
    touched: str = "",
    held: str = "",
    success: bool = False,
) -> State:
    """A state with an object on the table and the hand above it."""
    places = {"tcp": tcp, "hand": tcp, "object": obj, "target": target, "origin": (0.0, 0.0, 0.0)}
    return State(
        points={name: np.array(place) for name, place in places.items()},
        opening=opening,
        touched=frozenset(touched.split()),
        held=frozenset(held.split()),
        success=success,
    )
