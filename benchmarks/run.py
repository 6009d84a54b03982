"""Run every benchmark, each in a process of its own, and say which failed its limit. `make bench`.

`--all` also runs the simulation of how often intervals cover the truth, which takes a quarter of an hour.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SLOW = {"interval_coverage.py"}


def main() -> None:
    failed = []
    for script in sorted(HERE.glob("*.py")):
        if script.name != Path(__file__).name and (script.name not in SLOW or "--all" in sys.argv):
            print(f"\n== {script.name}", flush=True)
            if subprocess.run([sys.executable, str(script)], check=False).returncode:
                failed.append(script.name)
    if failed:
        sys.exit(f"Failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
