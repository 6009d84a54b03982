"""What each part costs: processor seconds, its child processes included, whatever else the machine does."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

COSTS_FILE = "costs.jsonl"


@dataclass(frozen=True)
class Cost:
    """What one unit of work cost.

    Attributes:
        part: What was done: ``demonstrations``, ``training``, ``trials`` ...
        unit: To what: a task, a seed.
        cpu_s: Processor seconds.
        wall_s: Seconds that went by.
        rollouts: Trials in it.
    """

    part: str
    unit: str
    cpu_s: float
    wall_s: float
    rollouts: int = 0


def measured(part: str, unit: str, work: Callable[[], object], rollouts: int = 0) -> Cost:
    """Do it, and say what it cost."""
    cpu, wall = _cpu_s(), time.monotonic()
    work()
    return Cost(part, unit, round(_cpu_s() - cpu, 2), round(time.monotonic() - wall, 2), rollouts)


def note(work: Path, cost: Cost) -> None:
    """Add a line to the experiment's costs."""
    with (work / COSTS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(cost)) + "\n")


def summary(work: Path) -> list[str]:
    """A line for each part: processor minutes, and milliseconds a rollout where there were any."""
    lines = (work / COSTS_FILE).read_text(encoding="utf-8").splitlines()
    costs = [Cost(**json.loads(line)) for line in lines]
    told = []
    for part in dict.fromkeys(cost.part for cost in costs):
        own = [cost for cost in costs if cost.part == part]
        spent, rollouts = sum(cost.cpu_s for cost in own), sum(cost.rollouts for cost in own)
        each = f", {1000 * spent / rollouts:.0f} ms for each of {rollouts} rollouts" if rollouts else ""
        told.append(f"{part}: {spent / 60:.1f} CPU minutes{each}")
    return [*told, f"in all: {sum(cost.cpu_s for cost in costs) / 60:.1f} CPU minutes"]


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
