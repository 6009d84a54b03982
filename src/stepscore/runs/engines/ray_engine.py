"""The Ray engine: actors of a cluster judge episodes, each with its own model; the owner is this process."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from stepscore._imports import check_extra
from stepscore._untrusted import shown
from stepscore.errors import OptionError
from stepscore.runs.engines.ray_workers import Needs, RayPool, plan
from stepscore.runs.owner import Owner
from stepscore.runs.remote_worker import pack_work
from stepscore.runs.work import IN_FLIGHT, Work, check_workers

OBJECT_STORE_BYTES = 1 << 30
"""Size of Ray's object store in a cluster on this machine."""

CONNECT_S = 10.0
"""Most seconds to connect to a cluster's address."""


@dataclass(frozen=True)
class RayEngine:
    """Judges on a Ray cluster.

    Attributes:
        workers: Number of actors; ``None`` for one on every GPU if the model is in process, else one on every CPU,
            also on nodes that join later.
        address: The cluster; ``None`` for ``RAY_ADDRESS``, else for one on this machine that ends with the run.
        connections: Concurrent calls to a server, over the whole cluster.
    """

    workers: int | None = None
    address: str | None = None
    connections: int = 8
    name = "ray"

    def __post_init__(self) -> None:
        check_extra("ray", "The engine ray")
        if self.workers is not None:
            check_workers(self.workers)

    def run(self, work: Work) -> None:
        """Judge the episodes that are not in the journal; see :class:`stepscore.runs.work.Engine`."""
        import ray
        from ray import cloudpickle

        pack_work(work, 1, cloudpickle.dumps)  # fails for a judge that cannot be sent, before Ray starts
        with connected(self.address, self.workers):

            def placement() -> tuple[int, Needs]:
                resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
                return plan(work.judge, self.workers, resources)

            at_a_time = IN_FLIGHT if work.judge.models else 1
            if any(model.capabilities.served for model in work.judge.models):
                at_a_time = -(-self.connections // placement()[0])  # enough to keep all connections busy
            pool = RayPool(pack_work(work, at_a_time, cloudpickle.dumps), placement)
            Owner(work, pool, pool.wanted, at_a_time).run()


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a Ray cluster for the duration of a block, unless this process is connected already."""
    # No usage statistics are sent; Ray reads this when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_address(where)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if where == "local":
        # Ray's default niceness of 15 would starve its workers beside other processes.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Without it Ray writes a token into the home folder, which every later cluster would ask for.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        cpus = max(os.cpu_count() or 1, workers or 1)
        options |= {
            "num_cpus": cpus,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
        }
    try:
        ray.init(address=where, **options)
    except ray.exceptions.AuthenticationError as error:
        raise OptionError(
            f"The Ray cluster at {shown(where[:200])} needs a token. Set RAY_AUTH_MODE=token and write the output of "
            "`ray get-auth-token` on its head node to ~/.ray/auth_token."
        ) from error
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unusable(where, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(where: str) -> None:
    """Raise OptionError for an address where nobody listens; Ray itself would try for minutes."""
    if where.startswith("ray://"):
        raise OptionError(
            f"Ray client addresses like {where} are not supported. Run the command on the cluster: "
            "ray job submit --address http://HEAD:8265 -- stepscore judge ... -E engine=ray"
        )
    if where in ("auto", "local"):
        return
    host, colon, port = where.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise _unusable(where, ValueError("the address must be HOST:PORT"))
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: an invalid host name
        raise _unusable(where, error) from error


def _unusable(where: str, error: Exception) -> OptionError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return OptionError(
        f"Cannot use the Ray cluster at {shown(where[:200])} ({first}). Start one (ray start --head) and pass its "
        "address, -E ray-address=HOST:6379, or leave the address out to use only this machine."
    )
