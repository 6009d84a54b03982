"""Options of what a model is asked: budget, prices, connections and the cache."""

from __future__ import annotations

from typing import Annotated

import typer

from stepscore.cli.numbers import MANY, MAX_PARALLEL, between

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
PriceIn = Annotated[
    float | None,
    typer.Option(
        "--price-in",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Price of a million input tokens.",
        rich_help_panel=COST,
    ),
]
PriceOut = Annotated[
    float | None,
    typer.Option(
        "--price-out",
        callback=between(0, MANY),
        metavar="AMOUNT",
        help="Price of a million output tokens.",
        rich_help_panel=COST,
    ),
]
Connections = Annotated[
    int,
    typer.Option(
        "--connections",
        callback=between(1, MAX_PARALLEL),
        metavar="N",
        help="Calls in flight at a time, for served models.",
        rich_help_panel=COST,
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither read nor write the answer cache.", rich_help_panel=COST)
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Print the calls, tokens and cost of the run; send nothing.",
        rich_help_panel=COST,
    ),
]
