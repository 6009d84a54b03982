"""Runs on three nodes of a Ray cluster, of which workers and whole nodes are lost, frozen and added."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import stepscore
from benchmarks.scale.cluster_nodes import ClusterNodes
from benchmarks.scale.computing_judge import Steady
from stepscore.judges import Judge
from stepscore.models.api.openai import OpenAIModel
from stepscore.runs import CallOptions, FinishedEpisode, RayEngine, Run
from stepscore.runs.tables import TABLES
from stepscore.testing import write_toy_rollouts
from tests.models.api.servers import Running, serving

SCENES, FROZEN_S = 10, 75.0


class Faults:
    """Does something to the nodes after so many episodes.

    Args:
        nodes: The nodes.
        plan: What is done, by the number of finished episodes.
    """

    def __init__(self, nodes: ClusterNodes, plan: dict[int, str]) -> None:
        self._nodes, self._plan, self._done = nodes, plan, 0
        self._frozen: list[int] = []
        self._started = self._last = time.monotonic()
        self.longest = 0.0
        self.threads: list[threading.Thread] = []

    def note(self, one: FinishedEpisode) -> None:
        """Note a finished episode."""
        now = time.monotonic()
        self.longest, self._last = max(self.longest, now - self._last), now
        self._done += 1
        if self._done in self._plan:
            act: Callable[[], object] = getattr(self, self._plan[self._done])
            what = self._plan[self._done].replace("_", " ")
            print(f"  {what} after {self._done} episodes, {now - self._started:.0f} s", flush=True)
            thread = threading.Thread(target=act)
            thread.start()
            self.threads.append(thread)

    def kill_worker(self) -> None:
        """Kill a worker."""
        self._nodes.signal(self._nodes.processes(None, "ray::EpisodeActor")[-1:], signal.SIGKILL)

    def kill_node(self) -> None:
        """Kill all processes of a node."""
        self._nodes.kill(3)

    def add_node(self) -> None:
        """Start a node."""
        self._nodes.add()

    def freeze_node(self) -> None:
        """Stop all processes of a node, and let them go on after a while."""
        self._frozen = self._nodes.processes(4)
        self._nodes.signal(self._frozen, signal.SIGSTOP)
        time.sleep(FROZEN_S)
        self._nodes.signal(self._frozen, signal.SIGCONT)


def measure_nodes(folder: Path) -> bool:
    """Print what became of three runs on nodes that were lost, against undisturbed ones of one process."""
    source = write_toy_rollouts(folder / "toys", scenes=SCENES)
    with serving(delay_s=0.3) as server:
        served = stepscore.get_judge("gvl", model=OpenAIModel("tiny", base_url=server.url), frames=8)
        embedded = stepscore.get_judge("topreward", model="embedded")
        nodes = {1: "kill_worker", 3: "kill_node", 4: "add_node", 5: "freeze_node"}
        good = [
            _measured("a judge without a model", Steady(8), source, folder, nodes, None),
            _measured("topreward, embedded", embedded, source, folder, {**nodes, 2: "kill_worker"}, None),
            _measured("gvl on a server that counts", served, source, folder, nodes, server),
        ]
    return all(good)


def _measured(
    title: str, judge: Judge, source: Path, folder: Path, plan: dict[int, str], server: Running | None
) -> bool:
    import ray

    episodes = stepscore.open_episodes(source)
    options = CallOptions(cache_path=folder / f"{judge.name} local.sqlite")
    wanted = _tables(stepscore.score(episodes, judge, folder / f"{judge.name} local", call_options=options))
    before = server.stats()["total"] if server else 0
    print(f"{title}: {len(episodes)} episodes on three nodes", flush=True)
    with ClusterNodes(folder / judge.name, 3) as nodes:
        ray.init(
            address=nodes.address,
            _node_ip_address="127.0.0.2",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        faults = Faults(nodes, {at * len(episodes) // 8: name for at, name in sorted(plan.items())})
        options = CallOptions(cache_path=folder / f"{judge.name} ray.sqlite")
        run = stepscore.score(
            episodes,
            judge,
            folder / f"{judge.name} ray",
            engine=RayEngine(),
            call_options=options,
            on_done=faults.note,
        )
        for thread in faults.threads:
            thread.join()  # also until the frozen node has gone on
        ray.shutdown()
    return _printed(run, wanted, faults, server.stats()["total"] - before if server else None)


def _printed(run: Run, wanted: dict[str, bytes], faults: Faults, asked: int | None) -> bool:
    same, spent, last = _tables(run) == wanted, run.info["spent"]["total"], run.info["last"]
    print(
        f"  {last['judged']} judged in {last['seconds']:.0f} s, {last['failed']} failed, longest wait for one "
        f"{faults.longest:.0f} s; tables {'byte-identical' if same else 'DIFFERENT'}; {spent['attempts']} attempts, "
        f"{spent['lost']} lost" + (f"; the server counted {asked}" if asked is not None else ""),
        flush=True,
    )
    return same and not last["failed"] and asked in (None, spent["answered"])


def _tables(run: Run) -> dict[str, bytes]:
    return {name: (run.path / f"{name}.parquet").read_bytes() for name in TABLES if name != "usage"}
