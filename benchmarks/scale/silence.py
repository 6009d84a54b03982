"""How long every command says nothing on a terminal: ``python -m benchmarks.scale.silence WORK --episodes 100000``.

Each command of ``benchmarks.scale.commands`` runs under a pseudo-terminal. What it shows is read as it comes, and the
table has the longest time in which nothing that a person can read changed, and what stood there meanwhile. Limit:
three seconds, of which two are the patience of a bar and one is for a busy machine.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.scale.commands import commands, file_name, prepare

MOST_SILENCE_S, NAMED_S = 3.0, 1.5
_CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Silence(NamedTuple):
    """A time in which nothing changed: when it began, how long it was, and the last line that stood there."""

    began_s: float
    seconds: float
    shown: str


def every_command(work: Path, episodes: int) -> dict[str, list[str]]:
    """Return the commands of the table, and those that read a run and are not in it."""
    run, made = str(work / f"run_{episodes}"), work / f"export_{episodes}"
    return commands(work, episodes) | {
        "metrics --show abstention": ["metrics", run, "--show", "abstention"],
        "compare --by task": ["compare", run, "--by", "task"],
        "plot": ["plot", run, "-o", f"{made}/plots", "--format", "svg"],
        "view": ["view", run, "--port", "0"],
        "calibrate": ["calibrate", run, "-o", f"{made}/map.json"],
    }


def run_on_terminal(arguments: Sequence[str], log: Path, *, stop_at: bytes | None = None) -> list[Silence]:
    """Run ``stepscore`` under a pseudo-terminal and return its silences, the longest first.

    Args:
        arguments: Of the command.
        log: Where all that it showed is kept, each part after the second at which it came.
        stop_at: End the command when it shows this; for one that serves until it is stopped.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.environ |= {"COLUMNS": "120", "LINES": "40", "TERM": "xterm-256color"}
        os.execv(sys.executable, [sys.executable, "-m", "stepscore", *arguments])
    started = last = time.monotonic()
    silences, shown = [], b""
    with log.open("wb") as kept:
        while (content := _read(terminal)) is not None:
            now = time.monotonic()
            text = _CONTROLS.sub(b"", content).strip()
            if text and text != shown:
                kept.write(f"\n[{now - started:.2f}] ".encode() + text)
                silences.append(Silence(last - started, now - last, _last_line(shown)))
                last, shown = now, text
            if stop_at is not None and stop_at in content:
                os.kill(process, signal.SIGINT)
    silences.append(Silence(last - started, time.monotonic() - last, _last_line(shown)))
    os.close(terminal)
    _, status = os.waitpid(process, 0)
    if (code := os.waitstatus_to_exitcode(status)) and stop_at is None:
        print(f"exit code {code}: stepscore {' '.join(arguments)}", file=sys.stderr)
    return sorted((one for one in silences if one.seconds >= NAMED_S), key=lambda one: -one.seconds)


def _read(terminal: int) -> bytes | None:
    """Return what came; ``None`` at the end."""
    select.select([terminal], [], [])
    try:
        return os.read(terminal, 1 << 16) or None
    except OSError:  # how Linux says that the other end is closed
        return None


def _last_line(shown: bytes) -> str:
    lines = shown.decode(errors="replace").splitlines()
    return lines[-1].strip()[:60] if lines else "(nothing yet)"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("work", type=Path)
    options.add_argument("--episodes", type=int, default=10_000)
    options.add_argument("--only", nargs="+", help="only these commands, by name")
    given = options.parse_args()
    prepare(given.work, given.episodes, fresh=not given.only)
    longest: dict[str, float] = {}
    print("| command | silent for | from second | what stood there |\n|---|---|---|---|")
    for name, arguments in every_command(given.work, given.episodes).items():
        if given.only and name not in given.only:
            continue
        log = given.work / f"shown_{file_name(name)}_{given.episodes}.txt"
        stop_at = b"Press Ctrl+C" if arguments[0] == "view" else None
        silences = run_on_terminal(arguments, log, stop_at=stop_at)
        longest[name] = max((one.seconds for one in silences), default=0.0)
        for one in silences[:6]:
            print(f"| `{name}` | {one.seconds:.1f} s | {one.began_s:.1f} | {one.shown} |", flush=True)
    if beyond := [name for name, seconds in longest.items() if seconds > MOST_SILENCE_S]:
        sys.exit(f"silent for more than {MOST_SILENCE_S:g} s: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
