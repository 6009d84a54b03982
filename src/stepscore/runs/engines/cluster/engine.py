"""The Ray engine: actors judge episodes, each with its own model; the owner keeps all accounts."""

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
from stepscore.judges import Judge
from stepscore.runs.engines.cluster.workers import Needs, RayCrew, plan
from stepscore.runs.engines.processes import packed_work
from stepscore.runs.owner import Owner
from stepscore.runs.work import MAX_WORKERS, Work

OBJECT_STORE_BYTES = 1 << 30
"""Memory for objects on their way, in a cluster of this machine alone."""


CONNECT_S = 10.0
"""Longest wait for a cluster's address, in seconds."""


@dataclass(frozen=True)
class RayEngine:
    """Judges on a Ray cluster.

    Attributes:
        workers: Actors that judge episodes, each with its own model; ``None`` for one on every GPU where the model
            computes, else one on every CPU, also on nodes that join later.
        address: The cluster; ``None`` for that of ``RAY_ADDRESS``, else one of this machine, which ends with the run.
        connections: Calls to a server in flight, over the whole cluster, for which workers need episodes at hand.
    """

    workers: int | None = None
    address: str | None = None
    connections: int = 8
    name = "ray"

    def __post_init__(self) -> None:
        check_extra("ray", "The engine ray")
        if self.workers is not None and not 1 <= self.workers <= MAX_WORKERS:
            raise OptionError(f"workers is {self.workers}; it must be 1 to {MAX_WORKERS}.")

    def run(self, work: Work) -> None:
        """Judge what the journal does not hold yet; see :class:`stepscore.runs.work.Engine`."""
        import ray
        from ray import cloudpickle

        packed_work(work, 1, cloudpickle.dumps)  # a judge that cannot be sent is better known before all else
        with connected(self.address, self.workers):

            def placement() -> tuple[int, Needs]:
                resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
                return plan(work.judge, self.workers, resources)

            at_a_time = self._at_a_time(work.judge, placement()[0])
            crew = RayCrew(packed_work(work, at_a_time, cloudpickle.dumps), placement)
            Owner(work, crew, crew.wanted, at_a_time).run()

    def _at_a_time(self, judge: Judge, workers: int) -> int:
        """Return the groups that a worker works on at a time: enough that models and connections do not wait."""
        if any(model.capabilities.served for model in judge.models):
            return -(-self.connections // workers)
        return 2 if judge.models else 1


@contextmanager
def connected(address: str | None, workers: int | None) -> Iterator[None]:
    """Connect to a Ray cluster for as long as it is needed; one that this process is connected to already is used.

    Raises:
        OptionError: There is none at that address.
    """
    # Nothing is reported to anyone; Ray reads this when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    if ray.is_initialized():
        yield
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_address(where)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if where == "local":
        # Else Ray gives its workers the priority 15: beside other work they would hardly go on.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Else Ray writes a token into the home folder, which every cluster started later would ask for.
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
            f"The Ray cluster at {shown(where[:200])} wants a token. Set RAY_AUTH_MODE=token, and put the token "
            "of its head (`ray get-auth-token` prints it there) into ~/.ray/auth_token."
        ) from error
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unusable(where, error) from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(where: str) -> None:
    """Raise an OptionError for an address at which nobody listens: Ray itself tries for minutes."""
    if where.startswith("ray://"):
        raise OptionError(
            f"{where} is an address of Ray's client, through which a run cannot go. Run the command on the cluster: "
            "ray job submit --address http://HEAD:8265 -- stepscore judge ... -E engine=ray"
        )
    if where in ("auto", "local"):
        return
    host, colon, port = where.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise _unusable(where, ValueError("an address is HOST:PORT"))
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
    except (OSError, UnicodeError) as error:  # UnicodeError: a host name that cannot be one
        raise _unusable(where, error) from error


def _unusable(where: str, error: Exception) -> OptionError:
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return OptionError(
        f"Cannot use the Ray cluster at {shown(where[:200])} ({first}). Start one (ray start --head) and give its "
        "address, -E ray-address=HOST:6379; or leave it out: this machine alone is used then."
    )
