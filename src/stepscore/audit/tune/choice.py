"""Choose a trial: the cheapest of those that are as good as the best, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from stepscore.audit.pareto import pareto_front
from stepscore.audit.tune.metric import Metric, Outcomes, difference
from stepscore.judges import Judge, only_model
from stepscore.models.calls import Attempts, Budget, Price, Spent
from stepscore.runs import CallOptions, Run
from stepscore.types import Estimate


class Choice(NamedTuple):
    """The chosen trial of a split.

    Attributes:
        best: The trial with the best value.
        chosen: The cheapest of ``tied``: those whose difference from the best is not significant.
        differences: Of every trial from the best.
        by: What "cheapest" means: ``"cost"``, ``"tokens"`` or ``"calls"``.
    """

    best: str
    chosen: str
    tied: tuple[str, ...]
    front: tuple[str, ...]
    differences: Mapping[str, Estimate]
    by: str


def choose(
    metric: Metric,
    values: Mapping[str, float],
    outcomes: Mapping[str, Outcomes],
    costs: Mapping[str, TrialCost],
) -> Choice:
    """Choose among trials by their answers on one split.

    A difference is significant if its interval excludes 0, or if it has no interval (too few scenes): without
    a measure of the noise, the better value is the better guess.

    Args:
        values: The metric by trial, without NaN.
        outcomes: Answers to the same questions, by trial.
    """
    sign = 1 if metric.better == "higher" else -1
    order = list(values)
    best = max(order, key=lambda name: (sign * values[name], *(-c for c in _known(costs[name].axes))))
    differences = {name: difference(metric, outcomes[name], outcomes[best]) for name in order}
    tied = tuple(name for name in order if name == best or not decided(differences[name]))
    by = cheapest_by(list(costs.values()))
    chosen = min(tied, key=lambda name: (getattr(costs[name], by), -sign * values[name]))
    # Of trials that are equal in everything the first is enough: testing them all shows nothing more.
    front = pareto_front(
        [sign * values[name] for name in order], [costs[name].axes for name in order], distinct=True
    )
    return Choice(best, chosen, tied, tuple(order[i] for i in front), differences, by)


def decided(difference: Estimate) -> bool:
    """Return whether a difference is significant."""
    if difference.value == 0:
        return False
    return math.isnan(difference.lo) or not difference.lo <= 0 <= difference.hi


def cheapest_by(costs: Sequence[TrialCost]) -> str:
    """Return the measure of cost: money if known and above 0 for any, else tokens, else calls."""
    for name in ("cost", "tokens"):
        amounts = [getattr(cost, name) for cost in costs]
        if not any(map(math.isnan, amounts)) and any(amounts):
            return name
    return "calls"


def _known(amounts: Sequence[float]) -> list[float]:
    return [0.0 if math.isnan(amount) else amount for amount in amounts]


@dataclass(frozen=True)
class TrialCost:
    """Cost of judging, per episode; cached answers cost what they would have.

    Attributes:
        cost: Money; NaN if a price or a count is unknown.
        seconds: Time of uncached answers; NaN if all were cached.
    """

    calls: float
    images: float
    tokens: float
    cost: float
    seconds: float

    @property
    def axes(self) -> tuple[float, ...]:
        """The compared costs: calls, tokens, money."""
        return (self.calls, self.tokens, self.cost)


def trial_cost(run: Run, judge: Judge, options: CallOptions, only: Collection[str]) -> TrialCost:
    """Return the cost per episode, over the episodes ``only``."""
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
    """Return the money for one episode: as recorded, or from token prices if some answers were cached."""
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
    """Return attempts and money of all starts in these folders, from the record that survives a killed process."""
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
    """Return the options of one run with the budget left by other runs, minus what is held back."""
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
