"""Options of machines, ``-E``: workers, clusters, shards, connections, prices and the cache of answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from stepscore._options import MANY, MAX_PARALLEL, Range
from stepscore.cli.numbers import between
from stepscore.cli.options.keys import KeyGroup
from stepscore.cli.tables import err
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.runs import CallOptions, Cut, Engine, Shard


SHARDS = "Many machines"
LabelsShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Label only part I of N, or slurm. Join with `stepscore merge`.",
        rich_help_panel=SHARDS,
    ),
]
ShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Judge only part I of N, or slurm. Join with `stepscore merge`.",
        rich_help_panel=SHARDS,
    ),
]


@dataclass(frozen=True)
class CallKeys:
    """How calls are made one after the other.

    Attributes:
        cache: Read and write the cache of answers.
        price_in: Price of a million input tokens.
        price_out: Price of a million output tokens.
        patience: Longest wait in seconds for a server that is down or busy.
    """

    cache: bool = True
    price_in: Annotated[float | None, Range(0, MANY)] = None
    price_out: Annotated[float | None, Range(0, MANY)] = None
    patience: Annotated[float, Range(0, 86_400)] = 600.0

    def call_options(self, budget: BudgetFlags) -> CallOptions:
        """Return them as a run takes them; a call that waits prints a line."""
        from stepscore.models.calls import Budget, CallOptions

        return CallOptions(
            Budget(budget.max_calls, budget.max_cost),
            self.price_in,
            self.price_out,
            cache=self.cache,
            patience_s=self.patience,
            on_wait=_print_wait,
        )


@dataclass(frozen=True)
class ConnectionKeys(CallKeys):
    """How calls are made.

    Attributes:
        connections: Calls in flight to served models.
    """

    connections: Annotated[int, Range(1, MAX_PARALLEL)] = 8

    def call_options(self, budget: BudgetFlags) -> CallOptions:
        """Return them as a run takes them; a call that waits prints a line."""
        return replace(super().call_options(budget), connections=self.connections)


@dataclass(frozen=True)
class WorkerKeys(ConnectionKeys):
    """How calls are made, and how many episodes are judged at a time.

    Attributes:
        workers: Processes with a model each, or concurrent episodes of a served model. Default: 1, or the
            connections of a served model.
    """

    workers: Annotated[int | None, Range(1, MAX_PARALLEL)] = None


@dataclass(frozen=True)
class BoardKeys(WorkerKeys):
    """How the judges of a board are asked.

    Attributes:
        base_url: URL of the API of all served models.
    """

    base_url: str | None = None


@dataclass(frozen=True)
class ProcessKeys(WorkerKeys):
    """What judges the episodes on this machine.

    Attributes:
        engine: `local` (this process), `processes`, `ray`, or `auto`, which depends on `workers`.
    """

    engine: str = "auto"


@dataclass(frozen=True)
class ClusterKeys(ProcessKeys):
    """What judges the episodes, and on which machines.

    Attributes:
        ray_address: HOST:PORT of a Ray cluster. Default: RAY_ADDRESS, else a cluster on this machine.
    """

    ray_address: str | None = None

    def open(self) -> str | Engine:
        """Return the engine: its name, or the one on a Ray cluster."""
        if self.engine != "ray":
            if self.ray_address is not None:
                raise OptionError("-E ray-address needs a Ray cluster: -E engine=ray")
            return self.engine
        from stepscore.runs import RayEngine

        return RayEngine(self.workers, self.ray_address, self.connections)


@dataclass(frozen=True)
class RunKeys(ClusterKeys):
    """What judges the episodes of a run.

    Attributes:
        lease: Lock RUN with a lease lasting this many seconds without renewal.
        offline: Use a published prompt only if it was downloaded before.
    """

    lease: Annotated[float | None, Range(1, 86_400)] = None
    offline: bool = False


_ENGINE = KeyGroup("-E", "engine")
CallEngine = Annotated[CallKeys, _ENGINE]
ConnectionEngine = Annotated[ConnectionKeys, _ENGINE]
BoardEngine = Annotated[BoardKeys, _ENGINE]
ProcessEngine = Annotated[ProcessKeys, _ENGINE]
ClusterEngine = Annotated[ClusterKeys, _ENGINE]
RunEngine = Annotated[RunKeys, _ENGINE]


def _print_wait(line: str) -> None:
    """Print that a call waits."""
    err().print(f"[yellow]{escape(line)}[/yellow]", soft_wrap=True, markup=True)


def print_shard(part: Cut, shard: Shard, call_options: CallOptions, what: str = "episodes") -> None:
    """Print how many episodes a shard has, and its share of the budget."""
    from stepscore.runs import share_of

    whole, share = call_options.budget, share_of(call_options, shard, part).budget
    limits = [f"{share.max_calls} of {whole.max_calls} calls"] if whole.max_calls is not None else []
    limits += [f"{share.max_cost:.6g} of {whole.max_cost:.6g} in money"] if whole.max_cost is not None else []
    budget = f"; its share of the budget: {', '.join(limits)}" if limits else ""
    err().print(f"Shard {shard}: {len(part.episodes)} of {part.total} {what}{budget}", soft_wrap=True)


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
