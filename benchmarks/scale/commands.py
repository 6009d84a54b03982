"""What every command takes on many episodes: ``python -m benchmarks.scale.commands WORK --episodes 1000 10000``.

Each command runs in a process of its own; the table has its peak memory, its wall time and its processor time, and
how many times the time of the size before it took. Sources stay in WORK and are not made again.
"""

from __future__ import annotations

import argparse
import os
import re
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


MADE = ("run", "halves", "page", "export", "audit")
"""What the commands write, each in a folder for every size."""


def commands(work: Path, episodes: int) -> dict[str, list[str]]:
    """Return the commands by name, in the order in which they run."""
    source, run, halves = (work / f"{name}_{episodes}" for name in ("source", "run", "halves"))
    labelled = ["--labels", f"{source}/labels.parquet", "--subgoals", f"{source}/subgoals.yaml"]
    judge = ["judge", f"{source}/curves.parquet", *labelled, "--judge", "recorded", "-o"]
    shows = ("subgoals", "failure-modes", "judge", "episodes")
    return {
        "inspect": ["inspect", f"{source}/curves.parquet", *labelled],
        "judge": [*judge, str(run)],
        "judge, again": [*judge, str(run)],
        **{f"judge --shard {i}/2": [*judge, str(halves), "--shard", f"{i}/2"] for i in (1, 2)},
        "merge": ["merge", str(halves)],
        "metrics": ["metrics", str(run)],
        **{f"metrics --show {show}": ["metrics", str(run), "--show", show] for show in shows},
        "metrics --revision v1.0": ["metrics", str(run), "--revision", "v1.0"],
        "compare": ["compare", str(run)],
        "report": ["report", str(run), "-o", f"{work}/page_{episodes}"],
        "export --episodes 0-9": [
            *("export", str(run), "--to", "rerun", "--episodes", "0-9"),
            *("-o", f"{work}/export_{episodes}/ten.rrd"),
        ],
        "audit": [
            *("audit", f"{source}/videos", "--judge", "linear-time", "-T", "trivial=false"),
            *("-o", f"{work}/audit_{episodes}"),
        ],
    }


def prepare(work: Path, episodes: int, *, fresh: bool) -> None:
    """Make the source of so many episodes, unless it is there; if ``fresh``, remove what commands made before."""
    if not (work / f"source_{episodes}").exists():
        write_source(work / f"source_{episodes}", episodes)
    if not (work / f"source_{episodes}/videos").exists():
        write_videos(work / f"source_{episodes}/videos", episodes)
    for made in MADE if fresh else ():
        shutil.rmtree(work / f"{made}_{episodes}", ignore_errors=True)
    (work / f"export_{episodes}").mkdir(exist_ok=True)


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


def file_name(command: str) -> str:
    """Return the name of a command as that of a file."""
    return re.sub(r"[^a-z0-9-]+", "_", command)


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
        prepare(given.work, episodes, fresh=not given.only)
        for name, arguments in commands(given.work, episodes).items():
            if given.only and name not in given.only:
                continue
            log = given.work / f"{file_name(name)}_{episodes}.txt"
            found.setdefault(name, {})[episodes] = taken = run_command(arguments, log)
            print(f"{episodes} {name}: {_cell(taken)}", file=sys.stderr, flush=True)
    print(table(found, sorted(given.episodes)))
    if wrong := beyond_limits(found):
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main()
