"""``python -m examples.better_policy WORK``: run the whole experiment, or resume it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from examples.better_policy.experiment import run
from examples.better_policy.setting import SHORT, Setting
from stepscore.errors import StepScoreError


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.better_policy",
        description="Train policies on weighted demonstrations, run trials, and compare. Stop it at any time: the "
        "same command resumes.",
    )
    parser.add_argument("work", type=Path, help="folder of the experiment; new, or one to resume")
    parser.add_argument("--short", action="store_true", help="a minute's experiment, to see that all works")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    args = parser.parse_args()
    try:
        table = run(
            args.work,
            SHORT if args.short else Setting(),
            workers=args.workers,
            log=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except StepScoreError as error:
        sys.exit(str(error))
    print(table)


if __name__ == "__main__":
    main()
