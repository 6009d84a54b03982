"""What every command takes on many episodes: ``python -m benchmarks.scale.commands WORK --episodes 1000 10000``.

Each command runs in a process of its own; the table has its peak memory, its wall time and its processor time, and
how many times the time of the size before it took. Sources stay in WORK and are not made again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.scale.episodes import write_source, write_videos

MOST_MEMORY_MB = 2000
MOST_GROWTH = 12.0
"""Limits: memory of any command, and times the processor time for ten times the episodes."""


@dataclass(frozen=True)
class Taken:
    """What a command took: peak memory in MB, wall and processor seconds, and its exit code."""

    memory_mb: float
    wall_s: float
    cpu_s: float
    code: int


def commands(work: Path, episodes: int) -> dict[str, list[str]]:
    """Return the commands by name, in the order in which they run."""
    source, run = work / f"source_{episodes}", work / f"run_{episodes}"
    labelled = ["--labels", f"{source}/labels.parquet", "--subgoals", f"{source}/subgoals.yaml"]
    shows = ("subgoals", "failure-modes", "judge", "episodes")
    return {
        "inspect": ["inspect", f"{source}/curves.parquet", *labelled],
        "judge": ["judge", f"{source}/curves.parquet", *labelled, "--judge", "recorded", "-o", str(run)],
        "judge, again": [
            "judge",
            f"{source}/curves.parquet",
            *labelled,
            "--judge",
            "recorded",
            "-o",
            str(run),
        ],
        "metrics": ["metrics", str(run)],
        **{f"metrics --show {show}": ["metrics", str(run), "--show", show] for show in shows},
        "metrics --revision robust": ["metrics", str(run), "--revision", "robust"],
        "compare": ["compare", str(run)],
        "audit": [
            *("audit", f"{source}/videos", "--judge", "linear-time", "--no-trivial"),
            *("-o", f"{work}/audit_{episodes}"),
        ],
    }


def run_command(arguments: Sequence[str], log: Path) -> Taken:
    """Run ``stepscore`` in a process of its own, its output in a file, and return what it took."""
    started = time.perf_counter()
    with log.open("wb") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "stepscore", *arguments], stdout=output, stderr=output
        )
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - started
    return Taken(usage.ru_maxrss / 1000, wall, usage.ru_utime + usage.ru_stime, child.returncode)


def table(found: dict[str, dict[int, Taken]], sizes: Sequence[int]) -> str:
    """Return the Markdown table: memory, wall and processor time at each size."""
    heads = " | ".join(f"{n:,}: MB, s, CPU s" for n in sizes)
    lines = [f"| command | {heads} | times the CPU |", f"|---|{'---|' * (len(sizes) + 1)}"]
    for name, by_size in found.items():
        cells = [_cell(by_size.get(n)) for n in sizes]
        last = [by_size[n].cpu_s for n in sizes[-2:] if n in by_size]
        growth = f"{last[1] / last[0]:.1f}" if len(last) == 2 else ""
        lines.append(f"| `{name}` | {' | '.join(cells)} | {growth} |")
    return "\n".join(lines)


def _cell(taken: Taken | None) -> str:
    if taken is None:
        return ""
    code = f" (exit {taken.code})" if taken.code else ""
    return f"{taken.memory_mb:.0f}, {taken.wall_s:.1f}, {taken.cpu_s:.1f}{code}"


def beyond_limits(found: dict[str, dict[int, Taken]]) -> list[str]:
    """Return a sentence for every command that took too much memory, grew too fast or failed."""
    wrong = []
    for name, by_size in found.items():
        for n, taken in by_size.items():
            if taken.code:
                wrong.append(f"{name} ended with exit code {taken.code} on {n} episodes")
            if taken.memory_mb > MOST_MEMORY_MB:
                wrong.append(f"{name} took {taken.memory_mb:.0f} MB on {n} episodes")
        before, after = by_size.get(10_000), by_size.get(100_000)
        if before and after and after.cpu_s > MOST_GROWTH * before.cpu_s:
            wrong.append(f"{name} took {after.cpu_s / before.cpu_s:.1f} times as long on 100000 as on 10000")
    return wrong


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", type=Path)
    options.add_argument("--episodes", type=int, nargs="+", default=[1_000, 10_000])
    options.add_argument("--only", nargs="+", help="only these commands, by name")
    given = options.parse_args()
    found: dict[str, dict[int, Taken]] = {}
    for episodes in sorted(given.episodes):
        if not (given.work / f"source_{episodes}").exists():
            write_source(given.work / f"source_{episodes}", episodes)
        if not (given.work / f"source_{episodes}/videos").exists():
            write_videos(given.work / f"source_{episodes}/videos", episodes)
        for made in ("run", "audit") if not given.only else ():
            shutil.rmtree(given.work / f"{made}_{episodes}", ignore_errors=True)
        for name, arguments in commands(given.work, episodes).items():
            if given.only and name not in given.only:
                continue
            log = given.work / f"{name.replace(' ', '_')}_{episodes}.txt"
            found.setdefault(name, {})[episodes] = taken = run_command(arguments, log)
            print(f"{episodes} {name}: {_cell(taken)}", file=sys.stderr, flush=True)
    print(table(found, sorted(given.episodes)))
    if wrong := beyond_limits(found):
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main()
