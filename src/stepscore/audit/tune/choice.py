"""Which trial to take: the Pareto front of agreement against cost, and the cheapest that is as good as the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from stepscore.audit.pareto import pareto_front
from stepscore.audit.tune.cost import TrialCost
from stepscore.audit.tune.metric import Metric, Outcomes, difference
from stepscore.types import Estimate


class Choice(NamedTuple):
    """The trial that is chosen on a split, and what it was compared with.

    Attributes:
        best: The trial with the best value.
        chosen: The cheapest of those whose difference from it is not decided.
        tied: Those, the best included.
        front: Trials on the Pareto front.
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
    """Choose among trials by their answers on one split alone.

    A difference is decided where its interval leaves out 0. Where a difference has no interval, as with too few
    scenes, it counts as decided: without a measure of the noise the better value is the better guess.

    Args:
        metric: The metric.
        values: Its value by trial; none is NaN.
        outcomes: Answers by trial, to the same questions.
        costs: Cost by trial.
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
    """Return whether a difference is other than 0 beyond its noise."""
    if difference.value == 0:
        return False
    return math.isnan(difference.lo) or not difference.lo <= 0 <= difference.hi


def cheapest_by(costs: Sequence[TrialCost]) -> str:
    """Return what decides which is cheapest: money where it is known and any costs some, else tokens, else calls."""
    for name in ("cost", "tokens"):
        amounts = [getattr(cost, name) for cost in costs]
        if not any(map(math.isnan, amounts)) and any(amounts):
            return name
    return "calls"


def _known(amounts: Sequence[float]) -> list[float]:
    return [0.0 if math.isnan(amount) else amount for amount in amounts]
