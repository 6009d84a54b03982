"""Run every benchmark, each in a process of its own, and say which failed its limit. ``make bench``.

``--all`` also runs those that take a quarter of an hour each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLOW = {"benchmarks.speed.small_vlm", "benchmarks.tables.interval_coverage", "benchmarks.tables.sim_tasks"}
BY_HAND = {
    "benchmarks.embedded_judge",
    "benchmarks.sarm_quality",
    "benchmarks.similarity",
    "benchmarks.tables.demo_policies",
    "benchmarks.tables.opd_policy_ranking",
    "benchmarks.tables.sim_sheets",
}
"""Need a folder to write to, and have no limit to fail."""
FOLDERS = ("benchmarks", "benchmarks/rewards", "benchmarks/speed", "benchmarks/tables")


def benchmarks() -> list[str]:
    """Return the module names of all benchmarks that need no argument, the slow ones included."""
    found = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
    names = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in found if path.stem != "__init__"
    ]
    return [name for name in names if name not in {"benchmarks.run", *BY_HAND}]


def main() -> None:
    failed = []
    for name in benchmarks():
        if "--all" in sys.argv or name not in SLOW:
            print(f"\n== {name}", flush=True)
            if subprocess.run([sys.executable, "-m", name], cwd=ROOT, check=False).returncode:
                failed.append(name)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
