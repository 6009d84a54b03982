"""Options of where episodes are judged: workers, engines and shards."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from stepscore.cli.numbers import MAX_PARALLEL, between
from stepscore.errors import OptionError

if TYPE_CHECKING:
    from stepscore.runs import Engine

SHARDS = "Many machines"
LabelsShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Label only part I of N of the episodes, counted from 1; slurm or slurm/N takes I from a SLURM array. "
        "Every shard has a FILE of its own. At the end: stepscore merge FILE FILE -o LABELS.",
        rich_help_panel=SHARDS,
    ),
]
ShardName = Annotated[
    str | None,
    typer.Option(
        "--shard",
        metavar="I/N",
        help="Judge only part I of N, counted from 1, into a folder of its own inside RUN, with its share of the "
        "budget; slurm or slurm/N takes I from a SLURM array. At the end: stepscore merge RUN.",
        rich_help_panel=SHARDS,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        callback=between(1, MAX_PARALLEL),
        metavar="N",
        help="Processes that judge, each with a model of its own; for a served model, episodes judged at a time. "
        "Default: 1, for a served model as many as --connections.",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where episodes are judged: local (this process), processes, ray, or auto (as --workers says).",
        rich_help_panel=SHARDS,
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="Ray cluster of --engine ray; default: RAY_ADDRESS, else one of this machine, for this run alone.",
        rich_help_panel=SHARDS,
    ),
]
LeaseSeconds = Annotated[
    float | None,
    typer.Option(
        "--lease",
        callback=between(1, 86_400),
        metavar="SECONDS",
        help="Hold RUN by a lease that ends when it is not renewed for so long, instead of a lock; done by itself "
        "where the file system has no locks; shards always do, by default for 60.",
        rich_help_panel=SHARDS,
    ),
]


@dataclass(frozen=True)
class EngineFlags:
    """What judges the episodes, and on which machines."""

    workers: Workers = None
    engine: EngineName = "auto"
    ray_address: RayAddress = None

    def open(self, connections: int) -> str | Engine:
        """Return the engine of ``--engine``: its name, or the one on a Ray cluster.

        Args:
            connections: Calls in flight at a time, over the whole cluster.
        """
        if self.engine != "ray":
            if self.ray_address is not None:
                raise OptionError("--ray-address is an option of a Ray cluster: --engine ray")
            return self.engine
        from stepscore.runs import RayEngine

        return RayEngine(self.workers, self.ray_address, connections)
