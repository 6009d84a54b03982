"""The cost of each part: CPU seconds, child processes included, whatever else the machine does."""

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
    """The cost of one unit of work.

    Attributes:
        part: Part of the experiment: ``demonstrations``, ``training``, ``trials`` ...
        unit: Task and seed.
        cpu_s: CPU seconds.
        wall_s: Wall-clock seconds.
        rollouts: Trials in it.
    """

    part: str
    unit: str
    cpu_s: float
    wall_s: float
    rollouts: int = 0


def measure_cost(part: str, unit: str, work: Callable[[], object], rollouts: int = 0) -> Cost:
    """Run it, and return its cost."""
    cpu, wall = _cpu_s(), time.monotonic()
    work()
    return Cost(part, unit, round(_cpu_s() - cpu, 2), round(time.monotonic() - wall, 2), rollouts)


def append_cost(work: Path, cost: Cost) -> None:
    """Append a line to the experiment's costs."""
    with (work / COSTS_FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(cost)) + "\n")


def summary(work: Path) -> list[str]:
    """Return a line for each part: CPU minutes, and milliseconds per rollout where there were any."""
    lines = (work / COSTS_FILE).read_text(encoding="utf-8").splitlines()
    costs = [Cost(**json.loads(line)) for line in lines]
    summary_lines = []
    for part in dict.fromkeys(cost.part for cost in costs):
        own = [cost for cost in costs if cost.part == part]
        spent, rollouts = sum(cost.cpu_s for cost in own), sum(cost.rollouts for cost in own)
        each = f", {1000 * spent / rollouts:.0f} ms for each of {rollouts} rollouts" if rollouts else ""
        summary_lines.append(f"{part}: {spent / 60:.1f} CPU minutes{each}")
    return [*summary_lines, f"in all: {sum(cost.cpu_s for cost in costs) / 60:.1f} CPU minutes"]


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
