"""Run tries, each command in a process of its own that is forked from one with everything imported.

Starting Python for each of thousands of commands would take an hour; a fork takes milliseconds. The process that
forks (one for each worker) imports, and does nothing else: it opens no file of a try, decodes nothing and starts no
thread, so that every child begins alike. What is made, run and compared is made, run and compared in children.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import pkgutil
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.episodes.remote import lying_store
from tests.episodes.remote.lying_store import LyingStore
from tests.hostile import lying_server
from tests.hostile.case import KEY, Case, make_case
from tests.hostile.command import run_command
from tests.hostile.forks import call_child, start_child

LOADED = {
    "core": (
        "stepscore.cli",
        "stepscore.episodes",
        "stepscore.runs",
        "stepscore.analysis",
        "stepscore.report",
        "stepscore.curation",
        "stepscore.judges",
        "stepscore.procedures",
        "stepscore.metrics",
        "stepscore.models.api",
        "stepscore.models.calls",
    ),
    "extras": (),
    "torch": ("stepscore.models", "stepscore.training"),
}
LIBRARIES = {
    "core": (
        "av",
        "pandas",
        "pyarrow.parquet",
        "pyarrow.compute",
        "scipy.stats",
        "PIL.Image",
        "PIL.PngImagePlugin",
        "httpx2",
        "stamina",
        "rich.progress",
        "rich.table",
        "genai_prices",
        "yaml",
        "typer.rich_utils",
        "rich.markup",
        "asyncio",
        "sqlite3",
    ),
    "extras": ("h5py", "matplotlib.pyplot", "fastapi", "uvicorn", "s3fs"),
    "torch": ("torch", "transformers", "safetensors.torch", "tokenizers"),
}


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
        cpu_s: What all of them computed.
    """

    name: str
    what: str = ""
    codes: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    memory: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0


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

    typer.main.get_command = functools.cache(
        typer.main.get_command
    )  # built from signatures, for a fifth of a second
    typer.main.get_command(app)
    gc.collect()
    gc.freeze()  # or every child's first collection copies all pages


class Worker:
    """One process that forks tries, with a folder of its own and the undisturbed runs they are compared with."""

    def __init__(self, group: str, folder: Path) -> None:
        load(group)
        self.here, self.good = folder / "here", folder.parent / "good"
        self.undisturbed = folder / "undisturbed"
        self.answer = folder / "answer.json"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ.update(
            {
                "OPENAI_API_KEY": KEY,
                "VLLM_API_KEY": KEY,
                "STEPSCORE_CACHE": str(self.here / "cache"),
                "NO_COLOR": "1",
                "HF_HUB_OFFLINE": "1",
                "HF_HOME": str(folder / "hf"),
                "COLUMNS": "120",
            }
        )

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
        with self._surroundings(case) as case:
            for number, arguments in enumerate(case.commands):
                out, err = self.here / f"stdout-{number}", self.here / f"stderr-{number}"
                outcome = run_command(arguments, case, out, err, stop=number == 0)
                result.codes.append(outcome.code)
                result.memory = max(result.memory, outcome.memory)
                result.seconds = max(result.seconds, outcome.seconds)
                result.cpu_s += outcome.cpu_s
                result.failures += checks.of_command(arguments, case, outcome, out, err)
            if not result.failures:
                result.failures += self._compare(case, result)
        return result

    @contextlib.contextmanager
    def _surroundings(self, case: Case) -> Iterator[Case]:
        """Start the server and mount the small disk of a case; yield the case with the server's address."""
        disk = self.here / "disk"
        mounted = case.disk and _mount(disk, case.disk)
        server, address = _start_server(case)
        try:
            yield case.at(address)
        finally:
            if server is not None:
                os.kill(server, signal.SIGKILL)
                os.waitpid(server, 0)
            if mounted:
                subprocess.run(["umount", str(disk)], check=True)

    def _compare(self, case: Case, result: Result) -> list[str]:
        """Return what is wrong with what the commands left."""
        from tests.hostile import checks

        stored = case.rest.startswith("made/")
        if case.rest and not stored and result.codes[0] not in (0, 1, 130):
            return [f"rest lost: one bad episode ended the run with {result.codes[0]}"]
        before = self.good / case.rest if stored or not case.rest else self._undisturbed(case.rest)

        def look() -> list[str]:
            kept = checks.rest_kept(before, self.here / "run", stored=stored) if case.rest else []
            return checks.after(case, self.here) + kept

        return list(call_child(look, self.answer))

    def _undisturbed(self, rest: str) -> Path:
        """Return the run folder of the good episodes alone, judged at the same place as they are in every try."""
        from tests.hostile.kinds import undisturbed

        kept = self.undisturbed / rest
        if not kept.is_dir():
            aside = self.here.with_name("aside")
            self.here.rename(aside)
            self._new_folder()
            case = Case(**call_child(lambda: undisturbed(rest, self.here, self.good).to_json(), self.answer))
            out, err = self.here / "stdout", self.here / "stderr"
            with self._surroundings(case) as case:
                outcome = run_command(case.commands[0], case, out, err)
            if outcome.code != 0:
                raise RuntimeError(
                    f"judging {rest} undisturbed ended with {outcome.code}: {err.read_text()[-500:]}"
                )
            kept.parent.mkdir(parents=True, exist_ok=True)
            (self.here / "run").rename(kept)
            shutil.rmtree(self.here)
            aside.rename(self.here)
        return kept

    def _clear(self) -> None:
        shutil.rmtree(self.here, ignore_errors=True)
        self._new_folder()

    def _new_folder(self) -> None:
        self.here.mkdir(parents=True)
        shutil.copy(self.good / "made" / "subgoals.yaml", self.here)


def _start_server(case: Case) -> tuple[int | None, str]:
    """Start the server of a case, which lies; return its process and its address; ``None`` where it has none."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        if case.store is not None:
            store = {name: value for name, value in case.store.items() if name != "patient"}
            folder = Path(store.pop("folder"))
            return start_child(lambda: lying_store.serve(listener, LyingStore(folder, **store))), address
        if case.lies is not None:
            lies = case.lies
            return start_child(lambda: lying_server.serve(listener, lies)), f"{address}/v1"
    return None, ""


def _mount(disk: Path, size: int) -> bool:
    """Make a disk of some bytes; return whether it is one: only root can, and others get a folder."""
    disk.mkdir(exist_ok=True)
    line = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    return subprocess.run(line, capture_output=True).returncode == 0


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
