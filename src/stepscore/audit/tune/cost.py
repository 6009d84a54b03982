"""What a trial costs an episode, and what a tuning spent so far."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stepscore.judges import Judge, only_model
from stepscore.models.calls import Attempts, Budget, Price, Spent
from stepscore.runs import CallOptions, Run


@dataclass(frozen=True)
class TrialCost:
    """What judging takes, per episode; calls answered from the cache cost what they would have.

    Attributes:
        calls: Calls to a model.
        images: Images sent.
        tokens: Tokens read and written, as they were counted.
        cost: Money; NaN where a price or a count is not known.
        seconds: Time, of those that were not answered from the cache; NaN where all were.
    """

    calls: float
    images: float
    tokens: float
    cost: float
    seconds: float

    @property
    def axes(self) -> tuple[float, ...]:
        """What it is compared by: calls, tokens, money."""
        return (self.calls, self.tokens, self.cost)


def trial_cost(run: Run, judge: Judge, options: CallOptions, only: Collection[str]) -> TrialCost:
    """Return what each of some episodes of a run took.

    Args:
        run: The run.
        judge: Its judge.
        options: Prices.
        only: Ids of the episodes.
    """
    rows = [row for row in run.usage().to_pylist() if row["episode_id"] in only]
    n = len(rows) or math.nan
    model = only_model(judge)
    price = None if model is None else options.price(model)
    calls: dict[str, list[Mapping[str, Any]]] = {}
    for call in run.calls().to_pylist():
        calls.setdefault(call["episode_id"], []).append(call)
    costs = [_cost(row, calls.get(row["episode_id"], []), price) for row in rows]
    fresh = [row["seconds"] for row in rows if not row["cached"] and row["seconds"] is not None]
    return TrialCost(
        sum(row["calls"] or 0 for row in rows) / n,
        sum(row["images"] or 0 for row in rows) / n,
        sum((row["tokens_in"] or 0) + (row["tokens_out"] or 0) for row in rows) / n,
        sum(costs) / n,
        sum(fresh) / len(fresh) if fresh else math.nan,
    )


def _cost(usage: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], price: Price | None) -> float:
    """Return the money for one episode: as the account has it, or its tokens' price where some were in the cache."""
    if not usage["calls"]:
        return 0.0
    if not usage["cached"]:
        return math.nan if usage["cost"] is None else float(usage["cost"])
    if price is None:
        return math.nan
    return 0.0 if price.free else math.fsum(_call_cost(call, price) for call in calls)


def _call_cost(call: Mapping[str, Any], price: Price) -> float:
    written = call["tokens_out"] or (None if call["kind"] == "generate" else 1)  # a score is one token
    return math.nan if not call["tokens_in"] or written is None else price.cost(call["tokens_in"], written)


def spent_in(folders: Iterable[Path]) -> Spent:
    """Return attempts and money of all starts in these folders, by the record that survives a killed process."""
    total = Spent()
    for folder in folders:
        path = folder / "attempts.sqlite"
        if not path.exists():
            continue
        attempts = Attempts(path)
        try:
            own = attempts.total()
        finally:
            attempts.close()
        known = total.cost is not None and own.cost is not None
        total = Spent(
            total.attempts + own.attempts,
            total.answered + own.answered,
            total.refused + own.refused,
            total.lost + own.lost,
            (total.cost or 0.0) + (own.cost or 0.0) if known else None,
            total.exact and own.exact,
        )
    return total


def left_for(options: CallOptions, others: Spent, held_back: tuple[int, float] = (0, 0.0)) -> CallOptions:
    """Return the options of one run whose budget is what others of the tuning, and what is held back, leave of it."""
    budget = options.budget
    calls, cost = budget.max_calls, budget.max_cost
    return replace(
        options,
        budget=Budget(
            None if calls is None else max(0, calls - others.attempts - held_back[0]),
            None if cost is None else max(0.0, cost - (others.cost or 0.0) - held_back[1]),
            given=budget,
        ),
    )
