"""The Pareto front of a board: judges that no other one beats in both accuracy and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from stepscore.audit.board.rows.metrics import BoardMetric
from stepscore.audit.board.rows.row import BoardRow
from stepscore.audit.pareto import pareto_front

CostKind = Literal["money", "tokens", "images"]


def cost_kind(rows: Sequence[BoardRow]) -> CostKind:
    """Return the cost that all rows can be compared by.

    Money where a price is known for every row that asks a model and any of them has one; else tokens where each of
    them counts its tokens; else images shown, which every judge counts. None of it depends on the machine.
    """
    asking = [row.cost for row in rows if row.cost.calls]
    if any(cost.cost for cost in asking) and all(cost.cost is not None for cost in asking):
        return "money"
    return "tokens" if all(cost.tokens for cost in asking) else "images"


_COSTS: Mapping[CostKind, Callable[[BoardRow], float]] = {
    "money": lambda row: row.cost.cost or 0.0,
    "tokens": lambda row: row.cost.tokens,
    "images": lambda row: row.cost.images,
}


def row_cost(row: BoardRow, kind: CostKind) -> float:
    """Return a row's cost of a kind, per video judged."""
    return _COSTS[kind](row) / max(row.cost.videos, 1)


def front_labels(rows: Sequence[BoardRow], metric: BoardMetric, kind: CostKind) -> set[str]:
    """Return the labels of the rows on the Pareto front; rows that are equal are all on it.

    Point estimates decide. Claims of others are not compared.

    Args:
        rows: The rows.
        metric: The accuracy.
        kind: The cost.
    """
    sign = 1.0 if metric.better == "higher" else -1.0
    known = [
        (row, sign * value)
        for row in rows
        if row.claimed_by is None and (value := row.value(metric.name)) is not None
    ]
    front = pareto_front([value for _, value in known], [(row_cost(row, kind),) for row, _ in known])
    return {known[place][0].label for place in front}
