"""The Pareto front: what nothing else beats in both value and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pareto_front(
    values: Sequence[float], costs: Sequence[Sequence[float]], *, distinct: bool = False
) -> list[int]:
    """Return the places of what nothing else beats: as good at no greater cost, and better in one.

    Args:
        values: Higher is better.
        costs: Lower is better; a cost that is unknown (NaN) for any point is ignored for all.
        distinct: Return only the first of several equal points.
    """
    compared = [
        axis for axis in range(len(costs[0]) if costs else 0) if not any(math.isnan(c[axis]) for c in costs)
    ]
    points = [(value, *(-cost[axis] for axis in compared)) for value, cost in zip(values, costs, strict=True)]

    def beats(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    front = {point for point in set(points) if not any(beats(other, point) for other in points)}
    return [
        place
        for place, point in enumerate(points)
        if point in front and not (distinct and point in points[:place])
    ]
