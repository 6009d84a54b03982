"""The Pareto front: nobody is as good and as cheap."""

from __future__ import annotations

import numpy as np
import pytest

from stepscore.audit.board import BoardRow, Cost, cost_kind, front_labels, front_metric
from stepscore.types import Estimate

AUC, MAE = front_metric("success_auc"), front_metric("progress_mae")


def row(
    label: str, value: float, tokens: int, *, metric: str = "success_auc", claimed_by: str | None = None
) -> BoardRow:
    estimate = Estimate(value, np.nan, np.nan, 9, 9, 1.0, "")
    cost = Cost(videos=1, calls=1, images=tokens, tokens_in=tokens, cost=0.0)
    return BoardRow(
        label, "", None, {}, {}, "", {}, {}, estimates={metric: estimate}, cost=cost, claimed_by=claimed_by
    )


def naive(rows: list[BoardRow], metric: str) -> set[str]:
    """By the definition, every pair compared."""
    found = set()
    for one in rows:
        beaten = False
        for other in rows:
            a, b = other.value(metric), one.value(metric)
            assert a is not None
            assert b is not None
            as_good = a >= b and other.cost.tokens <= one.cost.tokens
            beaten |= as_good and (a, other.cost.tokens) != (b, one.cost.tokens)
        if not beaten:
            found.add(one.label)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_that_of_its_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [row(str(i), float(rng.integers(0, 5)) / 4, int(rng.integers(1, 6))) for i in range(9)]
    assert front_labels(rows, AUC, "tokens") == naive(rows, "success_auc")


def test_where_less_is_better_the_front_turns_around() -> None:
    rows = [row("a", 0.1, 9, metric="progress_mae"), row("b", 0.3, 9, metric="progress_mae")]
    assert front_labels(rows, MAE, "tokens") == {"a"}


def test_unknown_values_and_claims_are_not_on_it() -> None:
    rows = [row("a", 0.9, 5), row("claim", 1.0, 1, claimed_by="x"), row("unknown", np.nan, 1)]
    assert front_labels(rows, AUC, "tokens") == {"a"}


def test_the_cost_is_one_that_every_row_knows() -> None:
    free, paid, priceless, uncounted = (
        Cost(),
        Cost(calls=1, cost=0.5),
        Cost(calls=1, tokens_in=5),
        Cost(calls=1),
    )
    rows = {
        name: BoardRow(name, "", None, {}, {}, "", {}, {}, cost=cost)
        for name, cost in (("free", free), ("paid", paid), ("priceless", priceless), ("uncounted", uncounted))
    }
    assert cost_kind([rows["free"], rows["paid"]]) == "money"
    assert cost_kind([rows["free"], rows["priceless"]]) == "tokens"
    assert cost_kind([rows["priceless"], rows["uncounted"]]) == "images"
    assert cost_kind([rows["paid"], rows["priceless"], rows["uncounted"]]) == "images"
