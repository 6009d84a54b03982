"""Run functions in forked children: how each ended, what it took, and what it returned."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CPU_S = 60.0
"""A command that computes longer hangs."""

WALL_S = 240.0
"""A command that runs longer hangs, too; a busy machine makes a sound one take many times its usual time."""


@dataclass(frozen=True)
class Outcome:
    """How a child ended: its exit code (negative: the signal that ended it), peak memory in bytes, seconds of
    the clock and of computing."""

    code: int
    memory: int
    seconds: float
    cpu_s: float = 0.0
    hung: bool = False


def run_child(work: Callable[[], int | None], stop_s: float | None = None) -> Outcome:
    """Run a function in a forked child and wait for it; where it hangs, it is killed.

    Args:
        work: The function; its return value is the exit code.
        stop_s: When to send Ctrl+C, for what serves until then.
    """
    started = time.monotonic()
    child = start_child(work)
    watched = os.pidfd_open(child)
    hung = False
    try:
        if stop_s is not None and not _ended(watched, stop_s):
            os.kill(child, signal.SIGINT)
        while not _ended(watched, 2.0):
            if time.monotonic() - started > WALL_S or _cpu_seconds(child) > CPU_S:
                hung = True
                os.kill(child, signal.SIGKILL)
                break
    finally:
        os.close(watched)
    _, status, used = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # processes it left behind
    code = os.waitstatus_to_exitcode(status)
    return Outcome(
        code, used.ru_maxrss * 1024, time.monotonic() - started, used.ru_utime + used.ru_stime, hung
    )


def start_child(work: Callable[[], int | None]) -> int:
    """Fork a child, in a process group of its own, that runs a function; return its number.

    The child ignores Ctrl+C until the function decides otherwise: on a busy machine one comes before it has begun.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.setsid()
            code = work() or 0
        except BaseException:
            with contextlib.suppress(Exception):
                traceback.print_exc()
        finally:
            os._exit(code & 0xFF)
    signal.signal(signal.SIGINT, before)
    return child


def _ended(watched: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def _cpu_seconds(process: int) -> float:
    """Return the seconds that a process, with its threads, has computed."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def call_child(work: Callable[[], Any], answer: Path) -> Any:
    """Return what a function returns in a forked child, by way of a JSON file; a failure there is one here."""

    def write() -> None:
        answer.write_text(json.dumps(work()), encoding="utf-8")

    outcome = run_child(write)
    if outcome.code:
        raise RuntimeError(f"the generator itself failed with {outcome.code}, see its traceback above")
    return json.loads(answer.read_text(encoding="utf-8"))
