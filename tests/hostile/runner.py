"""Run tries, each command in a process of its own that is forked from one with everything imported.

Starting Python for each of thousands of commands would take an hour; a fork takes milliseconds. The process that
forks (one for each worker) imports, and does nothing else: it opens no file of a try, decodes nothing and starts no
thread, so that every child begins alike. What is made, run and compared is made, run and compared in children.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.hostile.case import KEY, Case, make_case

TIMEOUT_S = 60.0
"""A command that runs longer hangs."""

MAX_MEMORY = 1 << 30
"""Most resident memory of a command, in bytes."""

SPARE_MEMORY = 6 << 30
"""Address space that a command may take beyond the forking process's, so that a fault does not take the machine's."""

LOADED = {
    "core": ("stepscore.cli", "stepscore.episodes", "stepscore.runs", "stepscore.analysis", "stepscore.report", "stepscore.curation",
             "stepscore.judges", "stepscore.procedures", "stepscore.metrics", "stepscore.models.api", "stepscore.models.calls"),
    "extras": (),
    "torch": ("stepscore.models", "stepscore.training"),
}  # fmt: skip
LIBRARIES = {
    "core": ("av", "pandas", "pyarrow.parquet", "pyarrow.compute", "scipy.stats", "PIL.Image", "PIL.PngImagePlugin", "httpx2", "stamina",
             "rich.progress", "rich.table", "genai_prices", "yaml", "typer.rich_utils", "rich.markup", "asyncio", "sqlite3"),
    "extras": ("h5py", "matplotlib.pyplot", "fastapi", "uvicorn"),
    "torch": ("torch", "transformers", "safetensors.torch", "tokenizers"),
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a child ended: its exit code (negative: the signal that ended it), peak memory in bytes, and seconds."""

    code: int
    memory: int
    seconds: float
    hung: bool = False


@dataclass
class Result:
    """What a try showed.

    Attributes:
        name: The try's.
        what: What was wrong with its input.
        codes: Exit code of each command.
        failures: What was not as it must be, each with its cause first.
        memory: Greatest peak of its commands, in bytes.
        seconds: Longest of its commands.
    """

    name: str
    what: str = ""
    codes: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: int = 0
    seconds: float = 0.0


def load(group: str) -> None:
    """Import what the commands of a group import, so that no child has to."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # a pool of threads does not survive a fork
    groups = ("core",) if group == "core" else ("core", group)
    for library in (name for each in groups for name in LIBRARIES[each]):
        with contextlib.suppress(ImportError):
            importlib.import_module(library)
    for package in (name for each in groups for name in LOADED[each]):
        folder = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(folder, f"{package}."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)
    import typer.main

    from stepscore.cli.app import app

    typer.main.get_command = functools.cache(typer.main.get_command)  # built from signatures, for a fifth of a second
    typer.main.get_command(app)
    gc.collect()
    gc.freeze()  # or every child's first collection copies all pages


def run_child(work: Callable[[], int | None], timeout_s: float = TIMEOUT_S, stop_s: float | None = None) -> Outcome:
    """Run a function in a forked child and wait for it; its process group is killed after ``timeout_s``.

    Args:
        work: The function; its return value is the exit code.
        timeout_s: When to kill it.
        stop_s: When to send Ctrl+C, for what serves until then.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    started = time.monotonic()
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
    watched = os.pidfd_open(child)
    hung = False
    try:
        if stop_s is not None and not _ended(watched, stop_s):
            os.kill(child, signal.SIGINT)
        if not _ended(watched, timeout_s):
            hung = True
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(watched)
    _, status, used = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # processes it left behind
    code = os.waitstatus_to_exitcode(status)
    return Outcome(code, used.ru_maxrss * 1024, time.monotonic() - started, hung)


def _ended(watched: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(watched, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def call_child(work: Callable[[], Any], answer: Path) -> Any:
    """Return what a function returns in a forked child, by way of a JSON file; a failure there is one here."""

    def write() -> None:
        answer.write_text(json.dumps(work()), encoding="utf-8")

    outcome = run_child(write)
    if outcome.code:
        raise RuntimeError(f"the generator itself failed with {outcome.code}, see its traceback above")
    return json.loads(answer.read_text(encoding="utf-8"))


def run_command(arguments: list[str], case: Case, out: Path, err: Path) -> Outcome:
    """Run one ``stepscore`` command in a child, its output in files."""
    return run_child(lambda: _command(arguments, case, out, err), stop_s=case.stop_s)


def _command(arguments: list[str], case: Case, out: Path, err: Path) -> int:
    _redirect(out, err, case.stdout)
    for name, value in case.env.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    space = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (space + SPARE_MEMORY,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if case.unprivileged:
        drop_rights()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    shorten_waits()
    sys.argv = ["stepscore", *arguments]
    return exit_code()


def exit_code() -> int:
    """Run ``main`` as the interpreter would, and return the exit code it would end with."""
    from stepscore.cli.app import main

    code: object = 0
    try:
        main()
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
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
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "ascii" if ascii_only else "utf-8", "backslashreplace",
                                  write_through=True)  # fmt: skip
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)), "ascii" if ascii_only else "utf-8")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    if stdout == "closed":
        os.close(1)


def shorten_waits() -> None:
    """Make every wait between attempts short: that one waits is tested elsewhere, and here it would take days."""
    import asyncio

    asleep = asyncio.sleep

    async def sleep(delay: float, result: Any = None) -> Any:
        return await asleep(min(delay, 0.001), result)

    asyncio.sleep = sleep  # type: ignore[assignment]


class Worker:
    """One process that forks tries, with a folder of its own and the undisturbed runs they are compared with."""

    def __init__(self, group: str, folder: Path) -> None:
        load(group)
        self.here, self.good = folder / "here", folder.parent / "good"
        self.undisturbed = folder / "undisturbed"
        self.answer = folder / "answer.json"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.update(
            {"OPENAI_API_KEY": KEY, "VLLM_API_KEY": KEY, "STEPSCORE_CACHE": str(self.here / "cache"), "NO_COLOR": "1",
             "HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "hf"), "COLUMNS": "120"}
        )  # fmt: skip

    def run(self, name: str) -> Result:
        """Make, run and check one try."""
        try:
            return self._run(name)
        except RuntimeError as error:
            return Result(name, failures=[f"generator: {error}"])

    def _run(self, name: str) -> Result:
        from tests.hostile import checks
        from tests.hostile.kinds import KINDS

        self._clear()
        result = Result(name)
        case = Case(**call_child(lambda: make_case(KINDS, name, self.here, self.good).to_json(), self.answer))
        result.what = case.what
        for number, arguments in enumerate(case.commands):
            out, err = self.here / f"stdout-{number}", self.here / f"stderr-{number}"
            outcome = run_command(arguments, case, out, err)
            result.codes.append(outcome.code)
            result.memory = max(result.memory, outcome.memory)
            result.seconds = max(result.seconds, outcome.seconds)
            result.failures += checks.of_command(arguments, case, outcome, out, err)
        result.failures += self._compare(case, result)
        return result

    def _compare(self, case: Case, result: Result) -> list[str]:
        from tests.hostile import checks

        if case.rest and not result.failures and result.codes[0] not in (0, 1):
            return [f"rest lost: one bad episode ended the run with {result.codes[0]}"]
        if case.rest and not result.failures:
            before = self._undisturbed(case.rest)
            return list(call_child(lambda: checks.rest_kept(before, self.here / "run"), self.answer))
        return list(call_child(lambda: checks.after(case, self.here), self.answer)) if not result.failures else []

    def _undisturbed(self, rest: str) -> Path:
        """Return the run folder of the good episodes alone, judged at the same place as they are in every try."""
        from tests.hostile.kinds import undisturbed

        kept = self.undisturbed / rest
        if not kept.is_dir():
            aside = self.here.with_name("aside")
            self.here.rename(aside)
            self.here.mkdir()
            case = Case(**call_child(lambda: undisturbed(rest, self.here, self.good).to_json(), self.answer))
            out, err = self.here / "stdout", self.here / "stderr"
            outcome = run_command(case.commands[0], case, out, err)
            assert outcome.code == 0, err.read_text()
            kept.parent.mkdir(parents=True, exist_ok=True)
            (self.here / "run").rename(kept)
            shutil.rmtree(self.here)
            aside.rename(self.here)
        return kept

    def _clear(self) -> None:
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir(parents=True)


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


_worker: Worker | None = None


def start_worker(group: str, folder: str) -> None:
    """Make this process a worker; the first function it runs."""
    global _worker
    root = Path(folder) / f"worker-{os.getpid()}"
    _worker = Worker(group, root)


def run_try(name: str) -> Result:
    """Run a try in this worker process."""
    assert _worker is not None
    return _worker.run(name)


def new_folder() -> Path:
    """Return a new folder for workers and good inputs."""
    return Path(tempfile.mkdtemp(prefix="hostile-"))
