"""One command in a process that was forked for it: its streams, environment, limits and exit code."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import resource
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.hostile.attacks import start_attack
from tests.hostile.case import Case
from tests.hostile.forks import Outcome, run_child

SPARE_MEMORY = 6 << 30
"""Address space that a command may take beyond the forking process's, so that a fault does not take the machine's."""


def run_command(arguments: list[str], case: Case, out: Path, err: Path, *, stop: bool = True) -> Outcome:
    """Run one ``stepscore`` command in a child, its output in files; ``stop`` it when the case says so."""
    return run_child(lambda: _command(arguments, case, out, err), case.stop_s if stop else None)


def _command(arguments: list[str], case: Case, out: Path, err: Path) -> int:
    _redirect(out, err, case.stdout)
    for name, value in case.env.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    tempfile.tempdir = None  # it may have been asked for before
    _limit(case)
    folder = out.with_name("folder")  # what is written to a relative path lands there
    folder.mkdir(exist_ok=True)
    os.chdir(folder)
    if case.gone:
        folder.rmdir()
    if case.unprivileged:
        drop_rights()
    shorten_waits()
    if case.store is not None:
        limit_stores(patient=bool(case.store.get("patient")))
    sys.argv = ["stepscore", *arguments]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if case.attack is not None:
        start_attack(case.attack, case.files, out)
    return exit_code()


def _limit(case: Case) -> None:
    space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space + SPARE_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def exit_code() -> int:
    """Run ``main`` as the interpreter would, and return the exit code it would end with."""
    from stepscore.cli.main import main

    code: object = 0
    try:
        main()
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError):
        code = code or 120  # as Python ends whose output was lost
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _redirect(out: Path, err: Path, stdout: str) -> None:
    """Give a child the output of its own, empty input, and Python's streams on them."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(err, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), 2)
    target = os.open("/dev/full" if stdout == "full" else out, os.O_WRONLY | os.O_CREAT, 0o666)
    os.dup2(target, 1)
    ascii_only = stdout == "ascii"
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stderr = io.TextIOWrapper(
        io.FileIO(2, "w", closefd=False),
        "ascii" if ascii_only else "utf-8",
        "backslashreplace",
        write_through=True,
    )
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "ascii" if ascii_only else "utf-8"
    )
    if stdout == "closed":  # as `>&-` of a shell leaves it
        os.close(1)
        sys.stdout = None


def shorten_waits() -> None:
    """Make every wait between attempts short: that one waits is tested elsewhere, and here it would take days."""
    import asyncio

    import stamina

    stamina.set_testing(True, attempts=4, cap=True)
    asleep = asyncio.sleep

    async def sleep(delay: float, result: Any = None) -> Any:
        return await asleep(min(delay, 0.001), result)

    asyncio.sleep = sleep


def limit_stores(*, patient: bool) -> None:
    """Lower the limits on what a store may take; a ``patient`` command waits for hours."""
    from stepscore.episodes.remote import limits

    limits.REQUEST_S = 3600.0 if patient else 1.0
    limits.LISTING_REQUESTS, limits.ANSWER_BYTES = 50, 1 << 20


def drop_rights() -> None:
    """Give up root's right to read and write what its mode forbids, where this process has it."""
    if os.getuid() == 0:
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        held = (ctypes.c_uint32 * 6)()
        libc = ctypes.CDLL(None)
        libc.capget(header, held)
        held[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        if libc.capset(header, held):
            raise OSError("capset failed")
