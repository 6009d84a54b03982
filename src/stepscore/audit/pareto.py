"""The Pareto front: what nothing else beats in both value and cost."""

from __future__ import annotations

import math
from collections.abc import Sequence


def pareto_front(
    values: Sequence[float], costs: Sequence[Sequence[float]], *, distinct: bool = False
) -> list[int]:
    """Return the places of what nothing else beats: no other is as good at no greater cost, and better in either.

    Args:
        costs: Costs of each, lower is better; one that is unknown (NaN) of any is not compared.
        distinct: Whether only the first of several that are equal in everything is returned.
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
