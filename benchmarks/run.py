"""Run every benchmark, each in a process of its own, and say which failed its limit. `make bench`.

`--all` also runs the simulation of how often intervals cover the truth and the table of all simulated tasks,
which take a quarter of an hour each.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SLOW = {"interval_coverage.py", "sim_table.py"}
BY_HAND = {"sim_sheets.py", "embedded_judge.py"}
"""Make pages and figures for the docs from what they are told; there is no limit to fail."""


def main() -> None:
    failed = []
    for script in sorted(HERE.glob("*.py")):
        left_out = {Path(__file__).name, *BY_HAND} | (set() if "--all" in sys.argv else SLOW)
        if script.name not in left_out:
            print(f"\n== {script.name}", flush=True)
            if subprocess.run([sys.executable, str(script)], check=False).returncode:
                failed.append(script.name)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
