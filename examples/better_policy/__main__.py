"""``python -m examples.better_policy WORK``: the whole experiment, or what is left of it."""

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
        description="Train policies on weighted demonstrations, try them, and compare. Stop it at any time: the "
        "same command goes on.",
    )
    parser.add_argument("work", type=Path, help="folder of the experiment; new, or one to go on with")
    parser.add_argument("--short", action="store_true", help="a minute's worth, to see that everything works")
    parser.add_argument("--workers", type=int, default=2, help="processes (2)")
    given = parser.parse_args()
    try:
        table = run(
            given.work,
            SHORT if given.short else Setting(),
            workers=given.workers,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
    except StepScoreError as error:
        sys.exit(str(error))
    print(table)


if __name__ == "__main__":
    main()
