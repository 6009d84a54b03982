"""1,000 simulated workers on the scheduler of a run, with recorded latencies and planted failures.

The scheduler is that of ``stepscore.runs``; only workers, messages and time are simulated. Of the groups that
workers take, 5 % fail: the worker dies, dies without anybody noticing, answers after it counted as dead, loses
its answer, answers twice, or takes 20 times as long. Some episodes end every worker. Every other episode must
be finished exactly once.

    python -m benchmarks.scale.scheduler
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from stepscore.runs.schedule import Scheduler

RECORDED_S = (
    *(
        0.428,
        0.464,
        0.309,
        0.378,
        0.374,
        0.304,
        0.219,
        0.334,
        0.563,
        0.338,
        0.241,
        0.479,
        0.233,
        0.631,
        1.389,
        0.542,
    ),
    *(
        0.251,
        0.415,
        0.218,
        0.258,
        0.384,
        0.390,
        0.234,
        0.787,
        0.258,
        0.469,
        0.187,
        0.237,
        0.271,
        0.343,
        0.222,
        0.237,
    ),
)
"""Seconds of the 32 episodes of the demo, from the usage table of: judge DEMO --judge topreward --model embedded."""

FAULTS = ("death", "unnoticed death", "late answer", "lost answer", "double answer", "straggler")
BEAT_S, LEASE_S, NOTICE_S, START_S, SLOWER = 5.0, 60.0, 2.0, 10.0, 20.0


@dataclass
class Setup:
    """What is simulated."""

    workers: int = 1000
    episodes: int = 100_000
    failures: float = 0.05
    poison: int = 5
    seed: int = 1


@dataclass
class Found:
    """What happened.

    Attributes:
        results: How often each episode was finished.
        given_up: How often each was given up.
        faults: Planted failures by kind.
        seconds: Simulated time.
        most: Most groups that a worker ever held.
        computed: Groups that workers computed to the end.
    """

    results: Counter[str] = field(default_factory=Counter)
    given_up: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    most: int = 0
    computed: int = 0


@dataclass
class _Worker:
    held: dict[int, list[str]] = field(default_factory=dict)
    received: int = 0
    busy: bool = False


class Simulation:
    """Plays workers against the scheduler, event by event."""

    def __init__(self, setup: Setup) -> None:
        self.setup, self.now, self.found = setup, 0.0, Found()
        self.rng = np.random.default_rng(setup.seed)
        self.names = [f"e{number:06d}" for number in range(setup.episodes)]
        self.poison = set(self.rng.choice(self.names, min(setup.poison, setup.episodes), replace=False))
        groups = ([(name, name)] for name in self.names)
        self.scheduler = Scheduler(groups, silence_s=LEASE_S, clock=lambda: self.now)
        self.alive: dict[int, _Worker] = {}
        self.known: set[int] = set()
        self.numbers, self.order = itertools.count(1), itertools.count()
        self.events: list[tuple[float, int, Callable[[], None]]] = []

    def run(self) -> Found:
        """Play until every episode is finished or given up."""
        for _ in range(self.setup.workers):
            self._at(self.rng.uniform(0, START_S), self._start)
        self._at(1.0, self._watch)
        while not self.scheduler.done:
            self.now, _, event = heapq.heappop(self.events)
            event()
        self.found.seconds = self.now
        return self.found

    def _at(self, delay: float, event: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.order), event))

    def _start(self) -> None:
        number = next(self.numbers)
        self.alive[number] = _Worker()
        self.known.add(number)
        self.scheduler.join(number)
        self._at(BEAT_S, lambda: self._beat(number))
        self._feed(number)

    def _feed(self, number: int) -> None:
        worker = self.alive.get(number)
        while (group := self.scheduler.take(number)) is not None:
            if worker is not None:
                worker.held[group.number], worker.received = list(group.items), group.number
                self.found.most = max(self.found.most, len(worker.held))
        if worker is not None and worker.held and not worker.busy:
            worker.busy = True
            self._work(number, next(iter(worker.held)))

    def _work(self, number: int, group: int) -> None:
        """Compute a group; decide at its start how that ends."""
        names = self.alive[number].held[group]
        seconds = float(self.rng.choice(RECORDED_S))
        fault = ""
        if self.poison.intersection(names):
            fault = "death"
        elif self.rng.random() < self.setup.failures:
            fault = FAULTS[self.rng.integers(len(FAULTS))]
        self.found.faults[fault] += bool(fault)
        if fault in ("death", "unnoticed death", "late answer"):
            self._at(self.rng.uniform(0, seconds), lambda: self._die(number, group, names, fault))
        else:
            slow = SLOWER if fault == "straggler" else 1.0
            self._at(seconds * slow, lambda: self._end(number, group, names, fault))

    def _end(self, number: int, group: int, names: list[str], fault: str) -> None:
        worker = self.alive.get(number)
        if worker is None:
            return  # it was replaced meanwhile
        self.found.computed += 1
        del worker.held[group]
        worker.busy = False
        if fault != "lost answer":
            self._report(number, group, names)
        if fault == "double answer":
            self._at(self.rng.uniform(0, 2 * LEASE_S), lambda: self._report(number, group, names))
        self._feed(number)

    def _report(self, number: int, group: int, names: list[str]) -> None:
        self.found.results.update(self.scheduler.finish(number, group, names))

    def _die(self, number: int, group: int, names: list[str], fault: str) -> None:
        if self.alive.pop(number, None) is None:
            return
        if fault != "unnoticed death":
            self._at(self.rng.uniform(0, NOTICE_S), lambda: self._gone(number))
        if fault == "late answer":
            self._at(self.rng.uniform(0, LEASE_S), lambda: self._report(number, group, names))

    def _gone(self, number: int) -> None:
        if number in self.known:
            self.known.discard(number)
            self.alive.pop(number, None)
            self.found.given_up.update(self.scheduler.leave(number))
            self._at(START_S, self._start)
            for other in self.known:
                if (worker := self.alive.get(other)) is not None and not worker.held:
                    self._feed(other)

    def _beat(self, number: int) -> None:
        worker = self.alive.get(number)
        if worker is not None:
            self.scheduler.heard(number, worker.received, list(worker.held))
            self._feed(number)
            self._at(BEAT_S, lambda: self._beat(number))

    def _watch(self) -> None:
        for number in self.scheduler.overdue():
            self._gone(number)
        self._at(1.0, self._watch)


def check(setup: Setup, found: Found, poison: set[str]) -> list[str]:
    """Return what is wrong: lost or doubled episodes, or a good one that was given up without three deaths."""
    names = {f"e{number:06d}" for number in range(setup.episodes)}
    ended = found.results + found.given_up
    lost = names - ended.keys()
    doubled = [name for name, count in ended.items() if count > 1]
    wrong = []
    if lost:
        wrong.append(f"{len(lost)} episodes are lost")
    if doubled:
        wrong.append(f"{len(doubled)} episodes are doubled")
    if poison & found.results.keys():
        wrong.append("an episode that ends every worker was finished")
    return wrong


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=Setup.workers)
    parser.add_argument("--episodes", type=int, default=Setup.episodes)
    parser.add_argument("--failures", type=float, default=Setup.failures)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    failed = []
    for seed in range(1, given.seeds + 1):
        setup = Setup(given.workers, given.episodes, given.failures, seed=seed)
        started = time.process_time()
        simulation = Simulation(setup)
        found = simulation.run()
        each = 1e6 * (time.process_time() - started) / setup.episodes
        ideal = setup.episodes * float(np.mean(RECORDED_S)) / setup.workers
        print(
            f"seed {seed}: {setup.episodes} episodes, {setup.workers} workers: {len(found.results)} finished once, "
            f"{len(found.given_up)} given up ({setup.poison} planted); {found.computed} groups computed; "
            f"{found.seconds:.0f} s simulated (without failures at least {ideal:.0f}); "
            f"{each:.0f} us of CPU an episode, the simulation included"
        )
        print("  " + ", ".join(f"{found.faults[name]} x {name}" for name in FAULTS))
        failed += [f"seed {seed}: {why}" for why in check(setup, found, simulation.poison)]
    print("No episode is lost or doubled." if not failed else "; ".join(failed))
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
