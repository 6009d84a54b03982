"""Options of what a model is asked: budget, prices, connections and the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore.cli.numbers import MANY, MAX_PARALLEL, between
from stepscore.cli.tables import err

if TYPE_CHECKING:
    from stepscore.runs import CallOptions

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


@dataclass(frozen=True)
class BudgetFlags:
    """Budget, prices and cache of a command that makes one call after the other."""

    max_calls: MaxCalls = None
    max_cost: MaxCost = None
    price_in: PriceIn = None
    price_out: PriceOut = None
    no_cache: NoCache = False

    def options(self) -> CallOptions:
        """Return them as a run takes them; a call that waits prints a line."""
        from stepscore.models.calls import Budget
        from stepscore.runs import CallOptions

        return CallOptions(
            Budget(self.max_calls, self.max_cost),
            self.price_in,
            self.price_out,
            cache=not self.no_cache,
            on_wait=_print_wait,
        )


@dataclass(frozen=True)
class CallFlags(BudgetFlags):
    """Budget, prices, connections and cache of a command's calls."""

    connections: Connections = 8

    def options(self) -> CallOptions:
        """Return them as a run takes them; a call that waits prints a line."""
        return replace(super().options(), connections=self.connections)


def _print_wait(line: str) -> None:
    """Print that a call waits."""
    err().print(f"[yellow]{escape(line)}[/yellow]", soft_wrap=True, markup=True)
