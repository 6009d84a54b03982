"""Options of what a model is asked: the budget, and whether anything is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from stepscore.cli.numbers import MANY, between

COST = "Models: cost and speed"
MaxCalls = Annotated[
    int | None,
    typer.Option(
        "--max-calls",
        callback=between(0, MANY),
        metavar="N",
        help="Stop after this many calls, retries included.",
        rich_help_panel=COST,
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        "--max-cost",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Stop before the calls cost more than this.",
        rich_help_panel=COST,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print calls, tokens and cost without sending anything.",
        rich_help_panel=COST,
    ),
]


@dataclass(frozen=True)
class BudgetFlags:
    """The most calls and money."""

    max_calls: MaxCalls = None
    max_cost: MaxCost = None
